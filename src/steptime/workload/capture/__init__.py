"""Capture of PyTorch modules in a child process; needs the extra ``torch``, and imports it only there."""

from steptime.workload.capture.client import capture, capture_many
from steptime.workload.capture.request import CaptureRequest, check_choices

__all__ = ["CaptureRequest", "capture", "capture_many", "check_choices"]
