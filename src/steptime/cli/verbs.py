"""Which verbs there are; each lives in a file of its own."""

from __future__ import annotations

import typer


def mount(app: typer.Typer) -> None:
    """Add every verb to the command line."""
    from steptime.cli.calibrate import calibrate_command
    from steptime.cli.capture import capture_command
    from steptime.cli.compare import compare_command
    from steptime.cli.predict import predict_command
    from steptime.cli.validate import validate_command

    app.command("predict")(predict_command)
    app.command("compare")(compare_command)
    app.command("capture")(capture_command)
    app.command("validate")(validate_command)
    app.command("calibrate")(calibrate_command)
