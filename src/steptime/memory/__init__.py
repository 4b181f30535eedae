"""What must fit: states, live tensors, workspaces, and the allocator's overhead."""

from steptime.memory.activations import live_bytes
from steptime.memory.allocator import CachingAllocator, NoMemoryError
from steptime.memory.cache import key_value_bytes
from steptime.memory.facts import load_memory_facts
from steptime.memory.footprint import MemoryPrediction, largest_batch_that_fits, memory_of
from steptime.memory.states import model_state_bytes, update_list_bytes
from steptime.memory.workspace import attention_workspace_bytes, convolution_workspace_bytes

__all__ = [
    "CachingAllocator",
    "MemoryPrediction",
    "NoMemoryError",
    "attention_workspace_bytes",
    "convolution_workspace_bytes",
    "key_value_bytes",
    "largest_batch_that_fits",
    "live_bytes",
    "load_memory_facts",
    "memory_of",
    "model_state_bytes",
    "update_list_bytes",
]
