"""The facts of several accelerators as arrays, and which rate stands in where a dtype has no unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.errors import UnsupportedPrecisionError
from steptime.hardware import Accelerator
from steptime.prediction.units_of import units_of
from steptime.workload.recipe import product_dtype

FloatArray = NDArray[np.float64]
ELEMENT_BYTES = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "fp4": 0.5,
    "int8": 1,
    "int": 8,
}
# What libraries run instead when a dtype has no unit of its own; fp8 and fp4 have no such way.
_STAND_IN = {"tf32": "fp32", "bf16": "fp32", "fp16": "fp32", "int": "fp32", "int8": "fp32"}
_TENSOR_DTYPES = ("tf32", "bf16", "fp16", "fp8", "fp4", "int8")


def peak_of(accelerator: Accelerator, dtype: str) -> tuple[float, str]:
    """Return the peak rate for products of ``dtype``, and the dtype whose units do it.

    Raises
    ------
    UnsupportedPrecisionError
        When there is neither a unit nor a library's way round.
    """
    own = accelerator.peak_flops_per_s.get(dtype)
    other = _STAND_IN.get(dtype)
    instead = accelerator.peak_flops_per_s.get(other) if other else None
    if own is not None and (instead is None or own >= instead):
        return own, dtype
    if instead is not None and other is not None:
        return instead, other
    possible = ", ".join(sorted(d for d in accelerator.peak_flops_per_s if d in ELEMENT_BYTES))
    if not possible:
        raise UnsupportedPrecisionError(
            f"No peak rate of {accelerator.name} is published, so it cannot be predicted; a record in a folder that "
            "STEPTIME_CATALOGUE names can add one."
        )
    raise UnsupportedPrecisionError(f"{accelerator.name} cannot multiply in {dtype}; it can in {possible}.")


def check_precision(accelerator: Accelerator, precision: str) -> None:
    """Refuse a precision that an accelerator cannot run.

    Raises
    ------
    UnsupportedPrecisionError
        With the precisions that are possible.
    """
    peak_of(accelerator, product_dtype(precision))


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Facts of several accelerators, each of shape (accelerators,)."""

    accelerators: tuple[Accelerator, ...]
    bandwidth_bytes_per_s: FloatArray
    l1_bytes: FloatArray
    l2_bytes: FloatArray
    num_units: FloatArray
    clock_hz: FloatArray
    power_limit_w: FloatArray

    @classmethod
    def of(cls, accelerators: Sequence[Accelerator]) -> Machines:
        """Collect the facts of ``accelerators``."""

        def column(name: str, absent: float) -> FloatArray:
            values = [getattr(a, name) for a in accelerators]
            return np.array([absent if v is None else v for v in values], dtype=float)

        units = [units_of(a) for a in accelerators]
        return cls(
            accelerators=tuple(accelerators),
            bandwidth_bytes_per_s=column("memory_bandwidth_bytes_per_s", np.nan),
            l1_bytes=column("shared_memory_per_unit_bytes", 0.0),
            l2_bytes=column("l2_bytes", 0.0),
            num_units=np.array([u.num_units for u in units], dtype=float),
            clock_hz=np.array([u.clock_hz for u in units], dtype=float),
            power_limit_w=column("power_limit_w", np.inf),
        )

    def peak(self, dtype: str) -> FloatArray:
        """Return the peak rate of products in ``dtype``, shape (accelerators,)."""
        return np.array([peak_of(a, dtype)[0] for a in self.accelerators])

    def effective_dtypes(self, dtype: str) -> list[str]:
        """Return the dtype whose units do the work on each accelerator."""
        return [peak_of(a, dtype)[1] for a in self.accelerators]

    def tensor_cores(self, dtype: str) -> NDArray[np.bool_]:
        """Tell where products of ``dtype`` run on tensor (matrix) cores: faster than twice the vector rate."""
        vector = np.array([a.peak_flops_per_s.get("fp32", np.inf) for a in self.accelerators])
        on_units = np.array([d in _TENSOR_DTYPES for d in self.effective_dtypes(dtype)])
        return on_units & (self.peak(dtype) > vector)

    def vector_peak(self) -> FloatArray:
        """Return the fp32 rate outside tensor cores."""
        return np.array(
            [a.peak_flops_per_s.get("fp32", max(a.peak_flops_per_s.values())) for a in self.accelerators]
        )

    def substitutes(self, dtype: str) -> list[str]:
        """Say for each accelerator what runs instead of ``dtype``; an empty text where nothing does."""
        return [
            ""
            if dtype in (used, "int")
            else f"{dtype} has no faster unit here: products run at the rate of {used}"
            for used in self.effective_dtypes(dtype)
        ]
