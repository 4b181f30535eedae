"""All accelerators that are known here, and finding one by what a person or a driver calls it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path

from platformdirs import user_config_path

from steptime.errors import AmbiguousNameError, CatalogueError, UnknownNameError
from steptime.hardware.accelerator import Accelerator
from steptime.hardware.reader import read_accelerators

VARIABLE = "STEPTIME_CATALOGUE"
# Words that drivers and sellers add and that tell no two accelerators apart.
_NOISE = frozenset("nvidia amd google intel geforce tesla instinct graphics gpu generation edition google cloud aws".split())
_SPLIT = re.compile(r"[^a-z0-9]+|(?<=[a-z])(?=\d{3,})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """An accelerator that was found, and what was assumed in finding it."""

    accelerator: Accelerator
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Accelerators by name."""

    accelerators: tuple[Accelerator, ...]
    by_name: Mapping[str, Accelerator] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {a.name: a for a in self.accelerators})

    @cached_property
    def _words(self) -> list[tuple[Accelerator, list[frozenset[str]]]]:
        return [(a, [_words(n) for n in (a.name, *a.aliases)]) for a in self.accelerators]

    def find(self, name: str) -> Match:
        """Find what ``name`` means.

        Parameters
        ----------
        name : str
            ``a100``, ``A100-80GB``, ``NVIDIA A100-SXM4-80GB``, ``h100 sxm``, ``rtx 4090``, ...

        Raises
        ------
        UnknownNameError
            When nothing is called that; names the nearest.
        AmbiguousNameError
            When several are and none is the family's default.
        """
        plain = _plain(name)
        for a in self.accelerators:
            if plain in {_plain(n) for n in (a.name, *a.aliases)}:
                return Match(accelerator=a)
        for a in self.accelerators:
            if plain in {_plain(n) for n in a.default_for}:
                return Match(accelerator=a, note=f"'{name}' is taken as {a.name}")
        return self._by_words(name)

    def _by_words(self, name: str) -> Match:
        remark = re.search(r"\(([^)]*)\)", name)
        wanted = _words(re.sub(r"\([^)]*\)", " ", name))
        found = [a for a, names in self._words if wanted and any(wanted <= words for words in names)]
        if not found:
            raise UnknownNameError(
                "accelerator", name, self.by_name, "'steptime catalogue list' shows all; a TOML file adds your own."
            )
        if len(found) == 1:
            told = f"'{name}' is taken as {found[0].name}" if remark else ""
            return Match(accelerator=found[0], note=told)
        defaults = [a for a in found if any(_words(d) <= wanted for d in a.default_for)]
        if len(defaults) == 1 and remark:
            return Match(accelerator=defaults[0], note=f"'{name}' is taken as {defaults[0].name}")
        raise AmbiguousNameError("accelerator", name, [a.name for a in found])


def _plain(name: str) -> str:
    words = [w for w in re.split(r"[^a-z0-9?]+", name.lower()) if w and w not in _NOISE]
    return "".join(words)


def _words(name: str) -> frozenset[str]:
    """Split a name into words that tell accelerators apart; sxm4 and sxm are the same word."""
    parts = (w for w in re.split(r"[^a-z0-9]+", name.lower().replace("rtx", "rtx ").replace("gtx", "gtx ")) if w)
    return frozenset(re.sub(r"^sxm\d$", "sxm", w) for w in parts if w not in _NOISE and not w.startswith("hbm"))


@lru_cache(maxsize=4)
def _load(folders: tuple[Path, ...]) -> Catalogue:
    found: dict[str, Accelerator] = {}
    shelf = resources.files("steptime").joinpath("data", "published", "accelerators")
    for file in sorted(shelf.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            found.update(_named(read_accelerators(file.read_text(encoding="utf-8"), file.name, checked=False)))
    for folder in folders:
        for path in sorted(folder.rglob("*.toml")):
            found.update(_named(read_accelerators(_text(path), str(path), checked=True)))
    return Catalogue(accelerators=tuple(found.values()))


def _named(accelerators: Iterable[Accelerator]) -> dict[str, Accelerator]:
    return {a.name: a for a in accelerators}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"The catalogue file {path} cannot be read: {error}.") from None


def user_folders() -> tuple[Path, ...]:
    """Return the folders of user records; later ones override earlier ones and the built-in shelf.

    Raises
    ------
    CatalogueError
        When ``STEPTIME_CATALOGUE`` names something that is no folder.
    """
    own = user_config_path("steptime") / "catalogue"
    named = [Path(p) for p in os.environ.get(VARIABLE, "").split(os.pathsep) if p]
    for path in named:
        if not path.is_dir():
            raise CatalogueError(f"{VARIABLE} names {path}, which is no folder.")
    return (*((own,) if own.is_dir() else ()), *named)


def load_catalogue() -> Catalogue:
    """Return the built-in accelerators with the user's own over them.

    Raises
    ------
    CatalogueError
        When a file of the user is damaged.
    """
    return _load(user_folders())
