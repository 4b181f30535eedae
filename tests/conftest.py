"""The same quiet room for every test: one thread, no network, no settings of the person who runs it."""

from __future__ import annotations

import importlib.util
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Two workers share two cores; must be set before numpy or torch is loaded.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", MPLBACKEND="Agg", NO_COLOR="1", COLUMNS="120")

settings.register_profile(
    "house", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("nightly", parent=settings.get_profile("house"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))

_LOOPBACK = ("127.", "::1", "localhost")


class NetworkUsedError(RuntimeError):
    """A test tried to reach another machine."""


def _connect_nowhere(real: Any) -> Any:
    def connect(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
            raise NetworkUsedError(f"Tests run without a network; this one connected to {address}.")
        return real(self, address)

    return connect


def _isolate_settings() -> None:
    """Hide the user's own catalogue and caches, from this process and from those it starts."""
    home = Path(tempfile.mkdtemp(prefix="steptime-tests-"))
    for name in [v for v in os.environ if v.startswith("STEPTIME_")]:
        del os.environ[name]
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ[name] = str(home / name.lower())


def pytest_configure() -> None:
    _isolate_settings()
    socket.socket.connect = _connect_nowhere(socket.socket.connect)  # type: ignore[method-assign]
    socket.socket.connect_ex = _connect_nowhere(socket.socket.connect_ex)  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("torch") is not None:
        return
    skip = pytest.mark.skip(reason="needs torch: pip install 'steptime[torch]'")
    for item in items:
        if item.get_closest_marker("needs_torch"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parents[1]
