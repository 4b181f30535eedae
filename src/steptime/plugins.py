"""What installed packages add to steptime: folders of catalogue records, and sources of models.

A package names an object in the entry-point group ``steptime.plugins``; a module with these names will do. Both are
optional:

catalogue_folders   paths of folders with TOML records, as ``STEPTIME_CATALOGUE`` takes them
model_sources       prefix -> function; "prefix/NAME" calls it with the ModelRequest, and it returns a Workload
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from steptime.errors import PluginError

GROUP = "steptime.plugins"


@lru_cache(maxsize=1)
def plugins() -> Mapping[str, Any]:
    """Return what is installed, by name.

    Raises
    ------
    PluginError
        When one cannot be loaded.
    """
    return {point.name: _loaded(point) for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)}


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist else point.value
        raise PluginError(
            f"The plug-in {point.name} cannot be loaded ({type(error).__name__}: {error}); mend or uninstall {package}."
        ) from None


def catalogue_folders() -> tuple[Path, ...]:
    """Return the folders of records that plug-ins bring, in the order of their names.

    Raises
    ------
    PluginError
        When one of them is no folder.
    """
    found = []
    for name, plugin in plugins().items():
        for folder in getattr(plugin, "catalogue_folders", ()):
            if not Path(folder).is_dir():
                raise PluginError(f"The plug-in {name} names {folder} as a catalogue, which is no folder.")
            found.append(Path(folder))
    return tuple(found)


def model_source(prefix: str) -> Callable[[Any], Any] | None:
    """Return the function that makes workloads of "prefix/NAME"; None when no plug-in has it."""
    for plugin in plugins().values():
        source: Callable[[Any], Any] | None = getattr(plugin, "model_sources", {}).get(prefix)
        if source is not None:
            return source
    return None
