"""Which rows may be fitted; the rule lies with the records, so that judges share it."""

from steptime.records.split import is_held_out

__all__ = ["is_held_out"]
