"""What accelerators are, as their vendors state it."""

from steptime.hardware.accelerator import Accelerator, similarity
from steptime.hardware.catalogue import Catalogue, Match, load_catalogue, user_folders

__all__ = ["Accelerator", "Catalogue", "Match", "load_catalogue", "similarity", "user_folders"]
