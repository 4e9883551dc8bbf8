"""The record of `tune`: what is written is read again, and what is none is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoaccel.measure.tuning import tune_record
from autoaccel.measure.tuning.deciding import RuleWorth
from autoaccel.measure.tuning.machine_facts import fingerprint
from autoaccel.measure.tuning.tune_record import PLACE, RecordError, TunedScript, left_out, read, write
from tests.measure.tuning.made import around

MACHINE = {"processor": "a CPU", "cpus": "2"}
RULES = (
    RuleWorth("AA202", "prefetch", 2, around(1.5), around(1.4), kept=True),
    RuleWorth("AA301", "autocast", 1, around(1.0), None, reason="no gain was measured"),
    RuleWorth("AA401", "compile", 1, None, None, reason="it makes a difference: the loss"),
)


def said(*files: str) -> dict[str, object]:
    return tune_record.entry(
        files=files,
        arguments=("--epochs", "1"),
        machine=MACHINE,
        versions={"torch": "2.13.0"},
        rules=RULES,
        speedup=around(1.5),
        level=0.99,
        notes=("a note",),
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "train.py", said("train.py", "lib/model.py"))
    assert path == tmp_path / ".autoaccel" / "tune.json"
    write(tmp_path, "other.py", said("other.py"))
    write(tmp_path, "other.py", said("other.py", "more.py"))
    here = fingerprint(MACHINE)
    assert read(tmp_path) == [
        TunedScript("other.py", ("other.py", "more.py"), here, ("AA301", "AA401")),
        TunedScript("train.py", ("train.py", "lib/model.py"), here, ("AA301", "AA401")),
    ]


def test_nothing_is_read_where_there_is_none(tmp_path: Path) -> None:
    assert read(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [
        "", "nonsense", "[]", "3", "null", "{}", '{"format": 2, "scripts": {}}', '{"format": 1}',
        '{"format": 1, "scripts": []}', '{"format": 1, "scripts": {"train.py": null}}',
        '{"format": 1, "scripts": {"train.py": {"rules": [{}], "files": [], "machine": {"fingerprint": ""}}}}',
    ],
)  # fmt: skip
def test_what_is_no_record(tmp_path: Path, content: str) -> None:
    (tmp_path / PLACE).parent.mkdir()
    (tmp_path / PLACE).write_text(content)
    with pytest.raises(RecordError, match=r"tune\.json: (is no record|was written by another version)"):
        read(tmp_path)


def test_another_version_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / PLACE).parent.mkdir()
    (tmp_path / PLACE).write_text('{"format": 2, "scripts": {}}')
    with pytest.raises(RecordError):
        write(tmp_path, "train.py", said("train.py"))
    assert json.loads((tmp_path / PLACE).read_text()) == {"format": 2, "scripts": {}}


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / PLACE).mkdir(parents=True)
    with pytest.raises(RecordError, match="cannot read: is a directory"):
        read(tmp_path)


def test_a_shared_file_lacks_what_no_script_wants() -> None:
    one = TunedScript("a.py", ("a.py", "model.py"), "here", ("AA101", "AA301"))
    other = TunedScript("b.py", ("b.py", "model.py"), "here", ("AA301", "AA401"))
    elsewhere = TunedScript("c.py", ("c.py", "model.py"), "there", ())
    records = [one, other, elsewhere]
    assert left_out(records, "a.py", "here") == ("AA101", "AA301")
    assert left_out(records, "model.py", "here") == ("AA301",)
    assert left_out(records, "c.py", "here") is None
    assert left_out(records, "model.py", "there") == ()
