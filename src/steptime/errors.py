"""Every error that steptime raises on purpose, one tree.

StepTimeError                 anything a user can mend; the CLI prints its sentence and exits with code 2
├── InputError                a value, flag or file that the user gave is wrong
│   ├── UnknownNameError      a name that resolves to nothing, with the nearest matches
│   └── AmbiguousNameError    a name that resolves to several things
├── CatalogueError            a catalogue file does not hold what it should
├── WorkloadError             a workload file is damaged or from another schema
├── CaptureError              a model could not be captured: it raised, hung, or branches on its data
├── UnsupportedPrecisionError the accelerator has no unit for this precision
├── MissingExtraError         an optional dependency is needed; names the extra
└── PluginError               an installed plug-in cannot be used
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StepTimeError(Exception):
    """Anything a user can mend: one clear sentence and the way out."""


class InputError(StepTimeError):
    """A value, flag or file that the user gave is wrong."""


class UnknownNameError(InputError):
    """A name that resolves to nothing."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.suggestions = nearest(name, known)
        meant = f" Did you mean {', '.join(self.suggestions)}?" if self.suggestions else ""
        super().__init__(f"Unknown {kind} '{name}'.{meant}{' ' + hint if hint else ''}")


class AmbiguousNameError(InputError):
    """A name that resolves to several things."""

    def __init__(self, kind: str, name: str, candidates: Iterable[str]) -> None:
        self.candidates = sorted(candidates)
        super().__init__(f"'{name}' could be any of these {kind}s: {', '.join(self.candidates)}. Say which.")


class CatalogueError(StepTimeError):
    """A catalogue file does not hold what it should."""


class WorkloadError(StepTimeError):
    """A workload file is damaged or from another schema."""


class CaptureError(StepTimeError):
    """A model could not be captured: it raised, hung, or branches on its data."""


class UnsupportedPrecisionError(InputError):
    """The accelerator has no unit for this precision."""


class MissingExtraError(StepTimeError):
    """An optional dependency is needed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'steptime[{extra}]'.")


class PluginError(StepTimeError):
    """An installed plug-in cannot be used."""


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return up to ``limit`` known names that look like ``name``, best first."""
    by_lower = {k.lower(): k for k in known}
    return [by_lower[m] for m in difflib.get_close_matches(name.lower(), by_lower, limit, cutoff=0.5)]
