"""What accelerators and links are, as their vendors state it, and finding one by what people call it."""

from steptime.hardware.accelerator import CONFIDENCES, PRECISIONS, Accelerator, relatives, similarity
from steptime.hardware.catalogue import Catalogue, Match, load_catalogue, load_links, user_folders
from steptime.hardware.link import Link
from steptime.hardware.sources import describe_sources

__all__ = [
    "CONFIDENCES",
    "PRECISIONS",
    "Accelerator",
    "Catalogue",
    "Link",
    "Match",
    "describe_sources",
    "load_catalogue",
    "load_links",
    "relatives",
    "similarity",
    "user_folders",
]
