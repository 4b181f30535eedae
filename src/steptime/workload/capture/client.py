"""Ask a child process for a capture, within limits of time and memory, and remember what it answered."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from platformdirs import user_cache_path

from steptime.errors import CaptureError, InputError, MissingExtraError
from steptime.workload.capture.request import CaptureRequest
from steptime.workload.file import SCHEMA, SUFFIX, load
from steptime.workload.table import Workload

TIME_LIMIT_S = 300.0
MEMORY_LIMIT_BYTES = 8 * 2**30
_POLL_S = 0.05
_WORKER = ("-m", "steptime.workload.capture.worker")


def cache_folder() -> Path:
    """Return where captures are kept (``STEPTIME_CACHE`` or the platform's cache folder)."""
    chosen = os.environ.get("STEPTIME_CACHE")
    return Path(chosen) if chosen else user_cache_path("steptime") / "workloads"


def _versions(request: CaptureRequest) -> list[str]:
    """List what shapes a table besides the request: libraries, our own schema, the user's file."""
    names = ("steptime", "torch", "timm", "transformers", "torchvision")
    found = [f"{n}={importlib.metadata.version(n)}" for n in names if importlib.util.find_spec(n)]
    where = Path(request.model.removeprefix("hf/").rpartition(":")[0] or request.model.removeprefix("hf/"))
    if where.is_file():
        found.append(where.read_text(encoding="utf-8", errors="replace"))
    return [SCHEMA, *found]


def cached_path(request: CaptureRequest) -> Path:
    """Return where the capture of ``request`` is, or would be, kept."""
    return cache_folder() / f"{request.digest(*_versions(request))}{SUFFIX}"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder of captures {folder} cannot be made ({error.strerror or error}): name another with STEPTIME_CACHE."
        ) from None


def _need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("Capturing a model", "torch")


def _resident_bytes(pid: int) -> int:
    """Return a process's resident memory where the system tells (Linux), else 0."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _wait(child: subprocess.Popen[bytes], model: str, time_limit_s: float, memory_limit_bytes: int) -> None:
    deadline = time.monotonic() + time_limit_s
    while child.poll() is None:
        if time.monotonic() > deadline:
            child.kill()
            raise CaptureError(
                f"{model} did not finish one step in {time_limit_s:.0f} s; raise --time-limit or look for a loop."
            )
        if _resident_bytes(child.pid) > memory_limit_bytes:
            child.kill()
            raise CaptureError(
                f"{model} took more than {memory_limit_bytes / 2**30:.0f} GiB while it was built; "
                "build it on the meta device, or raise --memory-limit."
            )
        time.sleep(_POLL_S)


def _answer(text: str, model: str, code: int, errors: str) -> None:
    """Raise what the child reported, unless it reported success."""
    lines = [line for line in text.splitlines() if line.startswith('{"')]
    told = json.loads(lines[-1]) if lines else {}
    if "ok" in told:
        return
    if "error" in told:
        raise (InputError if told["error"] == "InputError" else CaptureError)(told["message"])
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    raise CaptureError(f"The capture of {model} ended with code {code}: {last[0]}")


def capture(
    request: CaptureRequest,
    *,
    use_cache: bool = True,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
) -> Workload:
    """Capture one step of a model in a child process.

    Raises
    ------
    CaptureError
        When the model raises, hangs, eats memory or branches on its data.
    InputError
        When the request names nothing that can be built.
    MissingExtraError
        When torch is not installed.
    """
    path = cached_path(request)
    if not (use_cache and path.exists()):
        _need_torch()
        _make_folder(path.parent)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(
                [sys.executable, *_WORKER, str(path)], stdin=subprocess.PIPE, stdout=out, stderr=err
            )
            assert child.stdin is not None
            try:
                child.stdin.write(request.to_json().encode())
                child.stdin.close()
                _wait(child, request.model, time_limit_s, memory_limit_bytes)
            finally:
                child.kill()  # an interrupted wait leaves nothing running
                child.wait()
            _answer(_text(out), request.model, child.returncode, _text(err))
    return load(path)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")


def capture_many(
    requests: Sequence[CaptureRequest], *, time_limit_s: float = 120.0
) -> Iterator[tuple[CaptureRequest, Workload | str]]:
    """Capture many models with the imports paid once; yields each with its workload or why there is none."""
    missing = [r for r in requests if not cached_path(r).exists()]
    with _start_server() if missing else nullcontext() as server:  # leaving closes the pipes and waits
        for request in requests:
            path = cached_path(request)
            if not path.exists() and server is not None:
                told = _ask(server, request, path, time_limit_s)
                if told:
                    yield request, told
                    continue
            yield request, load(path)


def _start_server() -> subprocess.Popen[str]:
    _need_torch()
    _make_folder(cache_folder())
    return subprocess.Popen(
        [sys.executable, *_WORKER, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def _ask(server: subprocess.Popen[str], request: CaptureRequest, path: Path, time_limit_s: float) -> str:
    """Send one request to the server; return why it failed, or nothing."""
    assert server.stdin is not None and server.stdout is not None
    job = {"request": json.loads(request.to_json()), "output": str(path), "time_limit_s": time_limit_s}
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        if line.startswith('{"'):
            return str(json.loads(line).get("message", ""))
    return "the capture server ended"
