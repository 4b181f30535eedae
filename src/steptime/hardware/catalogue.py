"""All accelerators that are known here, and finding one by what a person or a driver calls it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

from platformdirs import user_config_path

from steptime.errors import AmbiguousNameError, CatalogueError, UnknownNameError
from steptime.hardware.accelerator import Accelerator
from steptime.hardware.link import Link
from steptime.hardware.names import are_among, distinguishing, plain, words_of
from steptime.hardware.reader import accelerators_in, links_in, read_tables
from steptime.hardware.shelf import built_in_tables
from steptime.plugins import catalogue_folders

VARIABLE = "STEPTIME_CATALOGUE"
_REMARK = re.compile(r"\([^)]*\)")
_MOST_NAMED = 12  # of the candidates for an ambiguous name
_HINT = (
    "'steptime catalogue list' shows all; a TOML file in a folder that STEPTIME_CATALOGUE names adds yours."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """An accelerator that was found, and what was assumed in finding it."""

    accelerator: Accelerator
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spelled:
    """An accelerator with the words of its names; words ``beside`` may be said as well, but not alone."""

    accelerator: Accelerator
    names: tuple[frozenset[str], ...]
    beside: frozenset[str]

    def answers_to(self, words: frozenset[str]) -> bool:
        return any(words & name and are_among(words, name | self.beside) for name in self.names)

    def is_said_whole(self, words: frozenset[str]) -> bool:
        return any(are_among(distinguishing(name), words) for name in self.names)

    def default_strength(self, words: frozenset[str]) -> int:
        """Return how many words the longest default has that was said; 0 for none."""
        said = (distinguishing(words_of(d)) for d in self.accelerator.default_for)
        return max((len(d) for d in said if are_among(d, words)), default=0)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Accelerators by name."""

    accelerators: tuple[Accelerator, ...]
    by_name: Mapping[str, Accelerator] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", MappingProxyType({a.name: a for a in self.accelerators}))

    def find(self, name: str) -> Match:
        """Find what ``name`` means.

        The whole name or an alias comes first, then a family's default ("a100"), then the one accelerator
        whose names hold every word of ``name``; of several, the one that is said whole ("4080" is no
        RTX-4080-Super) or that is the default of a family that ``name`` mentions. What was assumed is told in
        the note of the match.

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
        match = self._match(name, name)
        bare = _REMARK.sub(" ", name)
        if match is None and bare != name:
            found = self._match(bare, name)
            aside = f"{', '.join(_REMARK.findall(name))} is left aside"
            match = found and replace(found, note="; ".join(filter(None, (found.note, aside))))
        if match is None:
            known = [n for a in self.accelerators for n in (a.name, *a.aliases, *a.default_for)]
            raise UnknownNameError("accelerator", name, known, _HINT)
        return match

    def _match(self, name: str, typed: str) -> Match | None:
        whole = self._by_plain.get(plain(name), ())
        if whole:
            return Match(accelerator=_only(whole, typed))
        default = self._by_default.get(plain(name))
        if default is not None:
            return _taken(default, typed)
        words = words_of(name)
        found = [s for s in self._spelled if s.answers_to(words)]
        if len(found) > 1:
            found = [s for s in found if s.is_said_whole(words)] or found
        if len(found) > 1:
            strongest = max(s.default_strength(words) for s in found)
            defaults = [s for s in found if s.default_strength(words) == strongest > 0]
            if len(defaults) == 1:
                return _taken(defaults[0].accelerator, typed)
        return Match(accelerator=_only([s.accelerator for s in found], typed)) if found else None

    @cached_property
    def _by_plain(self) -> dict[str, list[Accelerator]]:
        found: dict[str, list[Accelerator]] = {}
        for a in self.accelerators:
            for name in {plain(n) for n in (a.name, *a.aliases)}:
                found.setdefault(name, []).append(a)
        return found

    @cached_property
    def _by_default(self) -> dict[str, Accelerator]:
        return {plain(d): a for a in self.accelerators for d in a.default_for}

    @cached_property
    def _spelled(self) -> list[_Spelled]:
        return [
            _Spelled(
                accelerator=a,
                names=tuple(words_of(n) for n in (a.name, *a.aliases)),
                beside=words_of(_beside(a)),
            )
            for a in self.accelerators
        ]


def _beside(a: Accelerator) -> str:
    return f"{a.vendor} {a.form} {a.architecture} {a.memory_type} {a.memory_capacity_bytes / 1e9:.0f}GB"


def _only(found: Sequence[Accelerator], typed: str) -> Accelerator:
    names = sorted(a.name for a in found)
    if len(names) > _MOST_NAMED:
        names = [*names[:_MOST_NAMED], f"and {len(names) - _MOST_NAMED} more"]
    if len(names) > 1:
        raise AmbiguousNameError("accelerator", typed, names)
    return found[0]


def _taken(accelerator: Accelerator, typed: str) -> Match:
    return Match(accelerator=accelerator, note=f"'{typed}' is taken as {accelerator.name}, its default")


def user_folders() -> tuple[Path, ...]:
    """Return the folders of users' records: plug-ins', the platform's, those that STEPTIME_CATALOGUE names.

    Later ones override earlier ones and the built-in shelf.

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
    return (*catalogue_folders(), *((own,) if own.is_dir() else ()), *named)


def load_catalogue() -> Catalogue:
    """Return the built-in accelerators with the user's own over them.

    Raises
    ------
    CatalogueError
        When a file of the user is damaged.
    """
    return _load(user_folders())


def load_links() -> Mapping[str, Link]:
    """Return the built-in links by name, with the user's own (below ``links/`` in a folder) over them.

    Raises
    ------
    CatalogueError
        When a file of the user is damaged.
    """
    return _load_links(user_folders())


@lru_cache(maxsize=4)
def _load(folders: tuple[Path, ...]) -> Catalogue:
    known: dict[str, Accelerator] = {}
    for file, tables in built_in_tables("accelerators").items():
        known.update({a.name: a for a in accelerators_in(tables, file)})
    for folder in folders:
        own: dict[str, Accelerator] = {}
        for path in sorted(
            p for p in folder.rglob("*.toml") if "links" not in p.relative_to(folder).parts[:-1]
        ):
            for a in accelerators_in(read_tables(path, "accelerator"), str(path)):
                _refuse_twice(a, own)
                own[a.name] = a
        _lay_over(known, own.values())
    return Catalogue(accelerators=tuple(known.values()))


@lru_cache(maxsize=4)
def _load_links(folders: tuple[Path, ...]) -> Mapping[str, Link]:
    known: dict[str, Link] = {}
    for file, tables in built_in_tables("links").items():
        known.update({link.name: link for link in links_in(tables, file)})
    for folder in folders:
        for path in sorted(folder.rglob("links/**/*.toml")):
            own = links_in(read_tables(path, "link"), str(path))
            known.update({link.name: link for link in own})
    return MappingProxyType(known)


def _refuse_twice(a: Accelerator, own: Mapping[str, Accelerator]) -> None:
    if a.name in own:
        raise CatalogueError(f"{a.name} is described twice, in {own[a.name].file} and {a.file}; keep one.")


def _lay_over(known: dict[str, Accelerator], own: Iterable[Accelerator]) -> None:
    """Add records; one replaces another whose name differs in spelling only, and takes over its defaults."""
    for new in own:
        claimed = {plain(d) for d in new.default_for}
        for name, old in list(known.items()):
            if plain(name) == plain(new.name):
                del known[name]
            elif claimed & {plain(d) for d in old.default_for}:
                known[name] = replace(
                    old, default_for=tuple(d for d in old.default_for if plain(d) not in claimed)
                )
        known[new.name] = new
