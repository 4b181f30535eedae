"""How long one operator takes: pure functions on arrays."""

from steptime.kernels.attention import attention_time_s
from steptime.kernels.convolution import convolution_flops, convolution_time_s
from steptime.kernels.gemm import gemm_flops, gemm_time_s
from steptime.kernels.gemm_clock import burst_clock_ratio, sustained_clock_ratio
from steptime.kernels.host import finish_time_s, issue_time_s
from steptime.kernels.memory_bound import kernel_time_s, memory_bound_time_s
from steptime.kernels.recurrent import recurrent_time_s
from steptime.kernels.roofline import roofline_time_s

__all__ = [
    "attention_time_s",
    "burst_clock_ratio",
    "convolution_flops",
    "convolution_time_s",
    "finish_time_s",
    "gemm_flops",
    "gemm_time_s",
    "issue_time_s",
    "kernel_time_s",
    "memory_bound_time_s",
    "recurrent_time_s",
    "roofline_time_s",
    "sustained_clock_ratio",
]
