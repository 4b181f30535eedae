"""What a catalogue file must hold: read for users' files always, and by the tests for the built-in shelf."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from steptime.errors import CatalogueError, InputError, nearest
from steptime.units import parse


def _quantity(unit: str) -> AfterValidator:
    def positive(text: str) -> str:
        try:
            value = parse(text, unit)
        except InputError as error:
            raise ValueError(str(error).rstrip(".")) from None
        if value <= 0:
            raise ValueError(f"'{text}' must be above zero")
        return text

    return AfterValidator(positive)


_Text = Annotated[str, Field(min_length=1)]
_Bytes = Annotated[str, _quantity("byte")]
_Rate = Annotated[str, _quantity("byte/s")]
_Flops = Annotated[str, _quantity("flop/s")]
_Hertz = Annotated[str, _quantity("Hz")]
_Watts = Annotated[str, _quantity("W")]
_Seconds = Annotated[str, _quantity("s")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


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


class _LinkOfAccelerator(_Strict):
    name: str
    bandwidth_per_direction: _Rate | None = None


class _Pcie(_Strict):
    generation: int = Field(ge=1)
    lanes: int = Field(ge=1)


class _Peaks(_Strict):
    fp64: _Flops | None = None
    fp64_matrix: _Flops | None = None
    fp32: _Flops | None = None
    tf32: _Flops | None = None
    bf16: _Flops | None = None
    fp16: _Flops | None = None
    fp8: _Flops | None = None
    fp4: _Flops | None = None
    int8: _Flops | None = None
    fp16_accumulate_fp16: _Flops | None = None


class _AllReduce(_Strict):
    bus_bandwidth: _Rate | None = None
    fraction_of_link: float | None = Field(default=None, gt=0)
    condition: str = ""


class _Fact(_Strict):
    """What every record of the published shelf carries."""

    name: _Text
    source: _Text | Annotated[list[_Text], Field(min_length=1)]
    confidence: Literal["high", "medium", "low"] = "medium"
    locator: str = ""
    retrieved: datetime.date | None = None
    note: str = ""
    aliases: list[_Text] = []


class _AcceleratorRecord(_Fact):
    vendor: _Text
    architecture: _Text
    year: int = Field(ge=2000, le=2100)
    peak_dense: _Peaks
    memory: _Memory
    form: str = ""
    units: _Units | None = None
    boost_clock: _Hertz | None = None
    max_clock: _Hertz | None = None
    cache: _Cache | None = None
    link: _LinkOfAccelerator | None = None
    pcie: _Pcie | None = None
    power_limit: _Watts | None = None
    compute_capability: str = ""
    default_for: list[_Text] = []


class _LinkRecord(_Fact):
    kind: _Text
    bandwidth_per_direction: _Rate
    reached_per_direction: _Rate | None = None
    lanes: str = ""
    latency: _Seconds | None = None
    latency_basis: str = ""
    all_reduce: _AllReduce | None = None


_RECORDS: dict[str, type[_Fact]] = {"accelerator": _AcceleratorRecord, "link": _LinkRecord}


def check(tables: dict[str, Any], kind: str, path: Path) -> None:
    """Validate every table of a catalogue file of accelerators or links.

    Raises
    ------
    CatalogueError
        Naming file, table, field and what is wrong with it.
    """
    for key, table in tables.items():
        if not isinstance(table, dict):
            way_out = f"begin each {kind} with a line like [my-{kind}]."
            raise CatalogueError(f"{path}: '{key}' stands outside a table; {way_out}")
        try:
            _RECORDS[kind].model_validate(table)
        except ValidationError as error:
            fault = _fault(error, _RECORDS[kind])
            raise CatalogueError(f"{path}, table [{key}], field {fault}") from None


def _fault(error: ValidationError, record: type[BaseModel]) -> str:
    first = error.errors()[0]
    field = f"'{'.'.join(str(p) for p in first['loc'])}'"
    if first["type"] == "missing":
        return f"{field} is missing."
    if first["type"] == "extra_forbidden":
        return f"{field} is not known: {_known_instead(first['loc'], record)}"
    if first["type"] == "value_error":
        return f"{field}: {first['msg'].removeprefix('Value error, ')}."
    said = "must be text in quotes" if first["type"] == "string_type" else first["msg"].lower()
    return f"{field}: {said}, got {first['input']!r}."


def _known_instead(place: tuple[int | str, ...], record: type[BaseModel]) -> str:
    for part in place[:-1]:
        annotation = record.model_fields[str(part)].annotation
        choices = [a for a in (annotation, *getattr(annotation, "__args__", ())) if isinstance(a, type)]
        record = next(a for a in choices if issubclass(a, BaseModel))
    known = list(record.model_fields)
    near = nearest(str(place[-1]), known, 1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}."
