"""What must fit: states, live tensors, workspaces, and the allocator's overhead."""

from steptime.memory.allocator import CachingAllocator
from steptime.memory.footprint import MemoryPrediction, largest_batch_that_fits, memory_of
from steptime.memory.live import live_bytes
from steptime.memory.states import model_state_bytes
from steptime.memory.workspace import convolution_workspace_bytes

__all__ = [
    "CachingAllocator",
    "MemoryPrediction",
    "convolution_workspace_bytes",
    "largest_batch_that_fits",
    "live_bytes",
    "memory_of",
    "model_state_bytes",
]
