"""Tests reach no other machine and see nothing of the person who runs them."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest


@pytest.mark.parametrize("address", ["192.0.2.1", "example.invalid"])
def test_another_machine_is_out_of_reach(address: str) -> None:
    with socket.socket() as door, pytest.raises(RuntimeError, match="without a network"):
        door.connect((address, 80))


def test_this_machine_is_within_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as door:
        door.connect(server.getsockname())


def test_no_settings_of_the_user_are_seen() -> None:
    assert not [name for name in os.environ if name.startswith("STEPTIME_")]
    assert Path(os.environ["XDG_CONFIG_HOME"]).is_relative_to(tempfile.gettempdir())
