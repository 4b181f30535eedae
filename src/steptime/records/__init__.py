"""Measured rows: which of them may be fitted and which only judge."""

from steptime.records.split import is_held_out

__all__ = ["is_held_out"]
