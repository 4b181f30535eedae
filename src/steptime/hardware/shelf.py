"""The built-in tables as they are parsed, kept in the user's cache folder between runs.

Parsing the TOML of the shelf takes 25 ms in every run, as long as all else that loading does; reading the
parsed tables takes 2. They are used only when the digest of the files is the same; nothing depends on them.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from steptime.hardware.reader import parse_tables

PUBLISHED = Path(__file__).parent.parent / "data" / "published"

Tables = dict[str, dict[str, Any]]


def built_in_tables(shelf: str) -> dict[str, Tables]:
    """Return the tables of each file of a folder of the published shelf, by the file's name."""
    files = {path.name: path.read_bytes() for path in sorted((PUBLISHED / shelf).glob("*.toml"))}
    digest = hashlib.sha256(b"\0".join(files.values())).hexdigest()
    cache = user_cache_path("steptime") / f"published-{shelf}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(cache.read_bytes())
        if content["digest"] == digest:
            return dict(content["files"])
    parsed = {name: parse_tables(text, name) for name, text in files.items()}
    with suppress(OSError):
        _write(cache, {"digest": digest, "files": parsed})
    return parsed


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write at once: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(content, default=str), encoding="utf-8")
    draft.replace(path)
