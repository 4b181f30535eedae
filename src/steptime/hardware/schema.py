"""What a catalogue file must hold; used for users' files, and by the tests for the built-in shelf."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from steptime.errors import CatalogueError, InputError
from steptime.units import parse


def _quantity(unit: str) -> AfterValidator:
    def positive(text: str) -> str:
        try:
            value = parse(text.replace("TOP/s", "TFLOP/s"), unit)
        except InputError as error:
            raise ValueError(str(error)) from None
        if value <= 0:
            raise ValueError(f"'{text}' must be above zero")
        return text

    return AfterValidator(positive)


_Bytes = Annotated[str, _quantity("byte")]
_Rate = Annotated[str, _quantity("byte/s")]
_Flops = Annotated[str, _quantity("flop/s")]
_Hertz = Annotated[str, _quantity("Hz")]
_Watts = Annotated[str, _quantity("W")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Units(_Strict):
    count: int = Field(gt=0)
    kind: str = ""


class _Memory(_Strict):
    capacity: _Bytes
    bandwidth: _Rate
    usable: _Bytes | None = None
    type: str = ""


class _Cache(_Strict):
    l2: _Bytes | None = None
    last_level: _Bytes | None = None
    shared_per_unit: _Bytes | None = None
    registers_per_unit: _Bytes | None = None


class _Link(_Strict):
    name: str
    bandwidth_per_direction: _Rate | None = None


class _Pcie(_Strict):
    generation: int
    lanes: int = 16


class _Peaks(_Strict):
    fp64: _Flops | None = None
    fp64_matrix: _Flops | None = None
    fp32: _Flops | None = None
    tf32: _Flops | None = None
    fp16: _Flops | None = None
    bf16: _Flops | None = None
    fp8: _Flops | None = None
    fp4: _Flops | None = None
    int8: _Flops | None = None
    fp16_accumulate_fp16: _Flops | None = None


class _Record(_Strict):
    name: str = Field(min_length=1)
    vendor: str
    architecture: str
    year: int = Field(ge=2000, le=2100)
    peak_dense: _Peaks
    memory: _Memory
    form: str = ""
    source: str = Field(min_length=1)
    confidence: str = "medium"
    units: _Units | None = None
    boost_clock: _Hertz | None = None
    max_clock: _Hertz | None = None
    cache: _Cache | None = None
    link: _Link | None = None
    pcie: _Pcie | None = None
    power_limit: _Watts | None = None
    compute_capability: str = ""
    default_for: list[str] = []
    aliases: list[str] = []
    retrieved: datetime.date | None = None
    note: str = ""


def check(tables: dict[str, Any], where: str) -> None:
    """Validate every table of a catalogue file.

    Raises
    ------
    CatalogueError
        Naming file, table, field and what is wrong with it.
    """
    for key, table in tables.items():
        try:
            _Record.model_validate(table)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(p) for p in first["loc"])
            raise CatalogueError(f"{where}, table [{key}], field '{place}': {first['msg']}.") from None
