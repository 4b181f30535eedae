"""The one sentence that a user reads when something cannot be done."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from steptime.cli.main import main


def refusal_of(*arguments: str) -> str:
    """Run the command as the shell does; anything but exit code 2 and one sentence fails."""
    errors = io.StringIO()
    with mock.patch.object(sys, "argv", ["steptime", *arguments]), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        else:
            code = 0
    told = " ".join(errors.getvalue().split())
    assert code == 2, told
    assert "Traceback" not in told
    return told
