"""What a reader of a prediction must be told, so that no figure of it is taken for another."""

from __future__ import annotations

from steptime.hardware import Accelerator
from steptime.prediction.units_of import units_of
from steptime.workload.operator import Kind
from steptime.workload.recipe import Recipe
from steptime.workload.table import Operators


def remarks_on(
    operators: Operators, recipe: Recipe, accelerator: Accelerator, *, step_time_s: float, peak_flops_per_s: float
) -> tuple[str, ...]:  # fmt: skip
    """Return one sentence for each figure that means something else than it seems to.

    Parameters
    ----------
    operators : Operators
    recipe : Recipe
    accelerator : Accelerator
    step_time_s, peak_flops_per_s : float
        By which utilisation is counted.
    """
    convolves = bool((operators.kind == Kind.CONVOLUTION).any())
    told = [units_of(accelerator).note] if units_of(accelerator).note else []
    if recipe.precision == "fp32" and convolves and "tf32" in accelerator.supported_precisions:
        told.append(
            "convolutions are timed in true fp32: PyTorch lets them use TF32 unless torch.backends.cudnn.allow_tf32 "
            "is off; --precision tf32 times that"
        )
    if operators.total_flops > step_time_s * peak_flops_per_s:
        told.append(
            "utilisation is above 100 %: Winograd convolutions multiply less often than is counted"
            if convolves
            else "utilisation is above 100 %: the peak or the count of FLOPs is wrong, please report it"
        )
    return tuple(told)
