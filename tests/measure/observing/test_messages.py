"""What is asked of a run and what it says travel as JSON."""

from __future__ import annotations

import dataclasses
import math

from autoaccel.measure.observing.request import REHEARSALS, Request
from autoaccel.measure.observing.run_record import (
    FAILED,
    Decision,
    Entry,
    Loss,
    Pass,
    RunFailure,
    RunRecord,
    Written,
)


def changed(default: object) -> object:
    """Another value of the same kind."""
    match default:
        case bool():
            return not default
        case int() | float():
            return default + 1
        case str():
            return f"{default}é\n"
        case dict():
            return {"a": "b"}
        case tuple():
            return ("x", "y")
        case _:
            return 3


def test_every_field_of_a_request_arrives() -> None:
    plain = Request("train.py")
    fields = {field.name: changed(getattr(plain, field.name)) for field in dataclasses.fields(Request)}
    request = Request(**{**fields, "rehearse": REHEARSALS})  # type: ignore[arg-type]
    assert all(getattr(request, name) != getattr(plain, name) for name in fields)
    assert Request.from_json(request.to_json()) == request
    assert Request.from_json(plain.to_json()) == plain


def test_every_field_of_a_record_arrives() -> None:
    record = RunRecord(
        FAILED,
        failure=RunFailure("ValueError", "no", "train.py:3", "Traceback"),
        losses=(Loss("0x1p+0", 1.0, 0, "/train.py:8"), Loss("abc", None, 1), Loss("inf", math.inf, 2)),
        steps=3,
        backwards=4,
        skipped_steps=1,
        optimizers=1,
        scalers=1,
        overflows=1,
        scales=(2.0,),
        state=(Entry("model.weight", "parameter", "float32", (2, 3), "d", 1.5, (0.5, -0.5)),),
        settings={"optimizer group 1.lr": "0.1"},
        random={"torch": "x"},
        passes=(Pass(0, None, ("a", "b"), True, ("numpy",)),),
        printed=("a", "\x00\ufffd"),
        errors=("b",),
        marks={"a backward ran inside an autocast region": 2},
        decisions=(Decision("amp", "off", "this CPU"),),
        written=(Written("/net.pt", "/train.py:9", ("weight: torch.float64 of 3",)),),
        files=("/train.py",),
        reached={"/train.py": (1, 2)},
        seconds=1.0,
        device="cuda",
        torch="2.6.0",
        python="3.10.1",
        profile={"loader": 0.5, "other": 0.5},
    )
    plain = RunRecord("finished")
    assert all(getattr(record, field.name) != getattr(plain, field.name) for field in dataclasses.fields(RunRecord))
    assert RunRecord.from_json(record.to_json()) == record
    assert RunRecord.from_json(plain.to_json()) == plain


def test_what_is_not_a_number_arrives() -> None:
    record = RunRecord("finished", losses=(Loss("nan", math.nan, 0),))
    (loss,) = RunRecord.from_json(record.to_json()).losses
    assert loss.value is not None
    assert math.isnan(loss.value)
