"""The benchmark suite: turns, ratios, gates, verdicts and tables on made-up figures, and one run in earnest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoaccel.measure.benching.report import Interval
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure, RunRecord
from autoaccel.measure.observing.turns import WAITING, Turn
from benchmarks.suite import drawing, estimates, gate, measuring, reporting, running, schedule
from benchmarks.suite.__main__ import PROJECT, RESULTS, main, surroundings
from benchmarks.suite.candidates import ENDLESS, Candidate, Setting, candidates
from benchmarks.suite.catalogue import (
    AGAIN,
    COLUMNS,
    DEFAULT,
    EXACT,
    EXPERT,
    FABRIC,
    LIMIT,
    ORIGINAL,
    PAIRED,
    SCRIPTS,
    SUITE,
    Script,
    chosen,
    shard,
)
from benchmarks.suite.measuring import Pace, Series
from benchmarks.suite.results import FAILED as LOST
from benchmarks.suite.results import MEASURED, SKIPPED, Column, Gate, Result, Run, Until, joined
from benchmarks.suite.schedule import Unit
from benchmarks.suite.verdicts import Verdict, verdicts

# -- the scripts


def test_frozen_files_are_as_they_were() -> None:
    """What an expert wrote before anything was tuned stays as it is."""
    frozen = json.loads((SCRIPTS.parent / "frozen.json").read_text(encoding="utf-8"))
    experts = {str(path.relative_to(SCRIPTS)): path.read_bytes() for path in SCRIPTS.glob("*/expert.py")}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in experts.items()} == frozen


@pytest.mark.parametrize("script", SUITE, ids=lambda script: script.id)
def test_every_script_can_be_run_by_the_suite(script: Script, tmp_path: Path) -> None:
    found = candidates(script, [*COLUMNS], Setting("small", "cpu", tmp_path), seed=3)
    by_column = {each.column: each for each in found}
    assert {ORIGINAL, AGAIN, EXACT, DEFAULT} <= by_column.keys()
    assert script.control or {EXPERT, LIMIT} <= by_column.keys()
    for each in found:
        (text,) = each.request.texts.values()
        compile(text, each.request.script, "exec")
        assert "--seed" in text and "--size" in text
        assert "autoaccel" not in Path(each.request.script).read_text(encoding="utf-8")
    assert all(len(path.read_text("utf-8").splitlines()) < 160 for path in (SCRIPTS / script.id).glob("*.py"))
    assert by_column[DEFAULT].changes >= by_column[EXACT].changes
    assert by_column[DEFAULT].environment["AUTOACCEL_DISABLE"] == "compile"
    assert by_column[ORIGINAL].request.arguments[2:6] == ("--seed", "3", "--size", "small")


def test_scripts_are_chosen_and_parted() -> None:
    assert [each.id for each in chosen(["gpt", "mnist"])] == ["mnist", "gpt"]
    with pytest.raises(ValueError, match="no script mnst"):
        chosen(["mnst"])
    parts = [shard(SUITE, number, 3) for number in (1, 2, 3)]
    assert sorted(each.id for part in parts for each in part) == sorted(each.id for each in SUITE)


# -- turns


class Played:
    """A process that takes so long for a step."""

    def __init__(self, name: str, step: float, log: list[str], *, settles: int = 0, dies: int = ENDLESS) -> None:
        self.name, self.step, self.log, self.settles, self.dies = name, step, log, settles, dies
        self.made = 0

    def start(self) -> Turn:
        return self.run(1)

    def run(self, steps: int) -> Turn:
        self.log.append(f"{self.name} {steps}")
        self.made += steps
        if self.made >= self.dies:
            return Turn(FAILED, 0.0, failure=RunFailure("ValueError", "no luck"))
        times = (self.step,) * steps
        return Turn(WAITING, sum(times), times, samples=8 * steps, settled=self.made >= self.settles, host_memory=100)

    def end(self) -> RunRecord | None:
        return RunRecord(FINISHED)


def played(log: list[str], **processes: Played) -> measuring.Open:
    @contextmanager
    def open_(candidate: Candidate) -> Iterator[measuring.Contender]:
        yield processes[candidate.column]

    return open_


def candidate(column: str) -> Candidate:
    return Candidate(column, Request("train.py"), {})


def nothing(_: str) -> None:
    pass


PACE = Pace(block=0.2, warm=0.4, settling=6.0, rounds=4, fewest=3)


def test_blocks_are_equally_long_whatever_the_speed() -> None:
    log: list[str] = []
    open_ = played(log, original=Played("original", 0.05, log), default=Played("default", 0.001, log))
    original, default = measuring.side_by_side([candidate(ORIGINAL), candidate(DEFAULT)], open_, pace=PACE, seconds=100)
    assert (original.block, default.block) == (4, 200)
    assert measuring.ratios(original, default) == pytest.approx((50.0,) * 4)
    assert default.samples / default.counted == 8
    assert log[-8:] == [f"{name} {steps}" for name, steps in [("original", 4), ("default", 200)][:1]] + [
        "default 200", "default 200", "original 4", "original 4", "default 200", "default 200", "original 4",
    ]  # fmt: skip


def test_what_the_runtime_tries_does_not_count() -> None:
    log: list[str] = []
    open_ = played(log, original=Played("original", 0.05, log), default=Played("default", 0.05, log, settles=50))
    _, default = measuring.side_by_side([candidate(ORIGINAL), candidate(DEFAULT)], open_, pace=PACE, seconds=100)
    assert default.settled
    assert len(default.times) - 4 * default.block >= 49


def test_a_runtime_that_never_settles_is_told_of() -> None:
    log: list[str] = []
    open_ = played(log, original=Played("original", 0.05, log, settles=ENDLESS))
    (series,) = measuring.side_by_side([candidate(ORIGINAL)], open_, pace=PACE, seconds=100)
    assert not series.settled and len(series.blocks) == 4


def test_fewest_rounds_are_made_although_the_time_is_over() -> None:
    log: list[str] = []
    open_ = played(log, original=Played("original", 0.05, log))
    (series,) = measuring.side_by_side([candidate(ORIGINAL)], open_, pace=PACE, seconds=0)
    assert len(series.blocks) == 3


def test_steps_that_differ_are_compared_with_themselves() -> None:
    log: list[str] = []
    processes = {"original": Played("original", 0.05, log), "default": Played("default", 0.02, log, settles=90)}
    found = measuring.side_by_side(
        [candidate(ORIGINAL), candidate(DEFAULT)], played(log, **processes), pace=PACE, seconds=0, aligned=True
    )
    assert [each.block for each in found] == [4, 4]
    assert found[0].steps == found[1].steps > 90


def test_what_comes_too_late_is_not_started() -> None:
    log: list[str] = []
    open_ = played(log, original=Played("original", 0.05, log), expert=Played("expert", 0.05, log))
    original, expert = measuring.side_by_side(
        [candidate(ORIGINAL), candidate(EXPERT)], open_, pace=PACE, seconds=0, latest=0.0
    )
    assert expert.failure is not None and expert.failure.kind == measuring.LATE
    assert len(original.blocks) == 3 and not any(line.startswith("expert") for line in log)


def test_what_compiles_starts_together() -> None:
    log: list[str] = []
    processes = {name: Played(name, 0.05, log) for name in (ORIGINAL, EXPERT, LIMIT)}
    pace = dataclasses.replace(PACE, together=True)
    found = measuring.side_by_side(
        [candidate(name) for name in processes], played(log, **processes), pace=pace, seconds=0
    )
    assert set(log[:2]) == {"expert 1", "limit 1"} and log[2] == "original 1"
    assert [len(each.blocks) for each in found] == [3, 3, 3]


def test_one_that_fails_drops_out() -> None:
    log: list[str] = []
    open_ = played(log, original=Played("original", 0.05, log), default=Played("default", 0.05, log, dies=20))
    original, default = measuring.side_by_side([candidate(ORIGINAL), candidate(DEFAULT)], open_, pace=PACE, seconds=100)
    assert default.failure is not None
    assert len(original.blocks) == 4


def test_time_to_a_step_is_measured_or_extrapolated() -> None:
    series = Series(candidate(ORIGINAL), first=2.0, times=[0.1] * 120)
    script = Script("a", "a", "a")
    first, last = (running._until([series], steps, 3.0, 0.2, script) for steps in (100, 1000))
    assert first is not None and first.measured and first.seconds == pytest.approx(5.0 + 9.9)
    assert last is not None and not last.measured and last.seconds == pytest.approx(5.0 + 12 + 879 * 0.2)
    assert running._until([series], 100, 3.0, 0.2, Script("a", "a", "a", whole=30)) is None


def test_losses_are_compared_in_the_precision_that_was_adopted() -> None:
    series = Series(candidate(DEFAULT), decisions=(("amp", "x", "y"), ("autocast a.py:3", "bfloat16", "faster")))
    lower = measuring.lowered(series)
    assert lower is not None and lower.environment == {"AUTOACCEL_AMP_DTYPE": "bfloat16"}
    series.decisions = (("autocast a.py:3", "off", "slower"),)
    assert measuring.lowered(series) is None
    log: list[str] = []
    assert measuring.losses(lower, played(log, default=Played("default", 0.1, log)), 20) == []
    assert log == ["default 1", "default 19"]


# -- who gets the time


def test_everything_once_then_what_is_promised_once_more() -> None:
    units = schedule.planned({"a": (ORIGINAL, DEFAULT, EXPERT), "b": (ORIGINAL, EXPERT)}, PAIRED, 2)
    assert units == [
        Unit("a", (ORIGINAL, DEFAULT, EXPERT), 0),
        Unit("b", (ORIGINAL, EXPERT), 0),
        Unit("a", (ORIGINAL, DEFAULT), 1),
    ]
    assert schedule.allowance(units, 100) == pytest.approx(40)
    assert schedule.allowance(units, -1) == 0


def test_the_most_doubtful_is_measured_once_more() -> None:
    intervals = {
        "sure": Interval(2.0, 1.9, 2.1),
        "close": Interval(0.98, 0.97, 1.0),
        "noisy": Interval(1.4, 0.9, 2.0),
        "done": Interval(0.99, 0.9, 1.1),
    }
    processes = {"sure": 2, "close": 2, "noisy": 2, "done": 5}
    assert schedule.needy(intervals, processes, 5) == ["close", "noisy"]


# -- ratios


def test_an_interval_covers_what_processes_differ_by() -> None:
    """Blocks of one pair of processes agree to a tenth of a percent; the pairs differ by ten."""
    pairs = [[1.0, 1.001, 0.999, 1.0, 1.0], [1.1, 1.101, 1.099, 1.1, 1.1]]
    found = estimates.estimate(pairs)
    assert found.median == pytest.approx(math.sqrt(1.1), rel=1e-3)
    assert found.low < 1.0 and found.high > 1.1


def test_intervals_hold() -> None:
    """Processes that differ by 3 %, blocks that differ by 5 %: most intervals of four processes contain the truth."""
    draw = random.Random(1)
    right = 0
    for _ in range(40):
        offsets = [draw.gauss(0, 0.03) for _ in range(4)]
        pairs = [[math.exp(offset + draw.gauss(0, 0.05)) for _ in range(5)] for offset in offsets]
        right += estimates.estimate(pairs).contains(1.0)
    assert right >= 36


def test_ratios_upside_down_have_the_interval_upside_down() -> None:
    pairs = [[1.2, 1.3, 1.25], [1.1, 1.15, 1.4]]
    there = estimates.estimate(pairs)
    back = estimates.estimate([[1 / ratio for ratio in blocks] for blocks in pairs])
    assert there.median == pytest.approx(1 / back.median)
    assert there.low == pytest.approx(1 / back.high, rel=0.02)


def test_nothing_has_no_estimate() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        estimates.estimate([[]])
    assert estimates.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


# -- losses


def test_exact_is_bit_for_bit() -> None:
    original = {0: [1.0, 0.5, 0.25]}
    assert gate.exact(EXACT, original, {}, {0: [1.0, 0.5, 0.25, 0.125]}).passed
    found = gate.exact(EXACT, original, {0: [1.0, 0.5, 0.25]}, {0: [1.0, 0.5000001]})
    assert not found.passed and found.said.startswith("loss 2 is 0.5000001")
    assert gate.exact(EXACT, original, {0: [1.0, 0.6]}, {0: [1.0, 0.55]}).passed, "the original differs, too"
    assert not gate.exact(EXACT, original, {}, {0: []}).passed


def losses(start: float, noise: float, seed: int, count: int = 40) -> list[float]:
    draw = random.Random(seed)
    return [start * math.exp(-step / 50) + draw.gauss(0, noise) for step in range(count)]


def test_close_is_within_the_spread_of_seeds() -> None:
    original = {0: losses(2.0, 0.2, 0), 1: losses(2.1, 0.2, 1)}
    assert gate.close(DEFAULT, original, {0: losses(2.0, 0.2, 5), 1: losses(2.1, 0.2, 6)}).passed
    assert not gate.close(DEFAULT, original, {0: losses(3.0, 0.2, 5), 1: losses(3.1, 0.2, 6)}).passed
    assert not gate.close(DEFAULT, original, {0: [math.nan] * 40, 1: losses(2.1, 0.2, 1)}).passed
    assert not gate.close(DEFAULT, original, {0: [2.0] * 5, 1: [2.0] * 5}).passed, "too few"


def test_of_one_seed_little_is_allowed() -> None:
    original = {0: [2.0] * 40}
    assert gate.close(DEFAULT, original, {0: [2.03] * 40}).passed
    assert not gate.close(DEFAULT, original, {0: [2.05] * 40}).passed


# -- what comes out


def column(name: str, ratio: float, **others: object) -> Column:
    values: dict[str, object] = {
        "ratio": Interval(ratio, ratio * 0.98, ratio * 1.02),
        "pairs": ((ratio,) * 3,),
        "step_seconds": 0.01 / ratio,
        "samples_per_second": 6400.0 * ratio,
        "to_100": Until(3.0 / min(ratio, 2), True),
        "to_1000": Until(12.0 / ratio, False),
        "host_memory": 300 * 2**20,
        **others,
    }
    return Column(name, MEASURED, **values)  # type: ignore[arg-type]


def result(script: str, ratio: float, *, control: bool = False, passed: bool = True) -> Result:
    columns = [column(ORIGINAL, 1.0), column(AGAIN, 1.01), column(EXACT, 1.1), column(DEFAULT, ratio)]
    if not control:
        columns += [
            column(EXPERT, 8.0),
            Column(FABRIC, SKIPPED, "No module named 'lightning'"),
            column(LIMIT, 10.0),
        ]
    return Result(script, script.title(), control, tuple(columns), (Gate(DEFAULT, passed, "so"),), (5, 25), 2, 10.0)


def made(*results: Result, device: str = "cpu") -> Run:
    machine = {"processor": "a processor", "cores": "2", "accelerator": "none used", "torch": "2.13"}
    return Run(device, "small", machine, results, 560, 500, 2.5)


GOOD = made(result("mnist", 5.0), result("tabular", 4.5), result("gpt", 1.2), result("short", 0.99, control=True))


def judged(run: Run) -> dict[str, Verdict]:
    return {each.promise: each for each in verdicts(run)}


def test_all_promises_are_kept() -> None:
    found = judged(GOOD)
    assert [promise for promise, each in found.items() if each.kept is False] == ["at least 70% of the expert's speed"]
    assert found["nothing below 0.97x"].said == "4 of 4, the least is short with 0.99"
    assert found["tabular and mnist at least 4x"].kept
    assert found["geometric mean at least 1.5x"].said == "3.00x over 3 scripts"
    assert found["the original against itself is 1.00"].said.startswith("4 of 4 intervals contain 1.00")


@pytest.mark.parametrize(
    ("promise", "broken"),
    [
        ("nothing below 0.97x", result("short", 0.96, control=True)),
        ("geometric mean at least 1.5x", result("gpt", 0.1)),
        ("tabular and mnist at least 4x", result("mnist", 3.9)),
        ("losses as the original's within the spread of seeds", result("gpt", 1.2, passed=False)),
    ],
)
def test_a_promise_that_is_broken(promise: str, broken: Result) -> None:
    run = made(*(broken if each.id == broken.id else each for each in GOOD.results))
    assert judged(run)[promise].kept is False


def test_intervals_that_begin_below_are_named() -> None:
    wide = result("short", 0.98, control=True)
    assert "begin below: short 0.96" in judged(made(*GOOD.scripts, wide))["nothing below 0.97x"].said


def test_a_late_start_and_much_memory_are_told_of() -> None:
    late = column(DEFAULT, 2.0, to_100=Until(3.5, True), device_memory=110)
    original = column(ORIGINAL, 1.0, device_memory=100)
    found = judged(made(Result("gpt", "GPT", False, (original, late)), device="cuda"))
    assert found["time to 100 steps at most 1.1x"].said == "longer: gpt 1.17x"
    assert found["peak of device memory at most 1.05x"].kept is False


def test_what_was_not_measured_is_no_success() -> None:
    lost = Result("gpt", "GPT", False, (column(ORIGINAL, 1.0), Column(DEFAULT, LOST, "ValueError: no luck")))
    found = judged(made(*GOOD.results[:2], lost))
    assert found["nothing below 0.97x"].kept is False
    assert "not measured: gpt" in found["nothing below 0.97x"].said


def test_json_goes_there_and_back() -> None:
    assert Run.from_json(GOOD.to_json()).to_json() == GOOD.to_json()
    assert judged(Run.from_json(GOOD.to_json())) == judged(GOOD)


def test_parts_are_joined_in_the_order_of_the_suite() -> None:
    one, other = made(GOOD.results[2], GOOD.results[3]), made(GOOD.results[0], GOOD.results[1])
    whole = joined([one, other], ["mnist", "gpt", "tabular", "short"])
    assert [each.id for each in whole.results] == ["mnist", "gpt", "tabular", "short"]
    assert whole.used_seconds == 1000
    with pytest.raises(ValueError, match="different devices"):
        joined([one, dataclasses.replace(other, device="cuda")], [])


def test_the_page_says_everything() -> None:
    page = reporting.page(GOOD, picture="a.svg")
    assert "| mnist | 1.01 (0.99–1.03) | 1.10 (1.08–1.12) | **5.00** (4.90–5.10) | 8.00 (7.84–8.16) | skipped |" in page
    assert "| 62% | 50% | 2 |" in page
    assert "- mnist, fabric: skipped: No module named 'lightning'" in page
    assert "| mnist | 3.0 / ~12.0 |" in page
    assert "![speed-ups](a.svg)" in page
    assert not any(line.count("|") != 4 for line in page.split("## Times")[0].splitlines() if line.startswith("|"))


def test_the_table_of_the_readme_is_short() -> None:
    lines = reporting.table(GOOD).splitlines()
    assert lines[0] == "| script | default | expert | fabric | limit | losses |"
    assert lines[2] == "| Mnist | **5.00** | 8.00 | skipped | 10.0 | same |"
    assert lines[-3].startswith("| **geometric mean**, controls left out | **3.00** |")
    assert {line.count("|") for line in lines[:-2]} == {7}


def test_the_picture_is_well_formed() -> None:
    root = ET.fromstring(drawing.draw(GOOD))
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"mnist", "short", "default", "1x", "10x"} <= set(texts)
    assert "fabric" not in texts
    ET.fromstring(drawing.draw(made()))


def test_the_short_table() -> None:
    said = reporting.short(GOOD)
    assert "mnist    1.00      1.01   1.10   5.00" in said
    assert "PASS nothing below 0.97x" in said
    assert "500 s used, 560 s planned" in said


def test_runs_are_merged_by_the_command(tmp_path: Path) -> None:
    parts = []
    for number, each in enumerate((GOOD.results[:2], GOOD.results[2:])):
        parts.append(tmp_path / f"{number}.json")
        parts[-1].write_text(made(*each).to_json())
    done = CliRunner().invoke(main, [f"--merge={path}" for path in parts] + [f"--output={tmp_path}"])
    assert done.exit_code == 0, done.output
    assert [each.id for each in Run.from_json((tmp_path / "suite_cpu.json").read_text()).results] == [
        "mnist", "gpt", "tabular", "short"
    ]  # fmt: skip


# -- what is recorded


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_recorded_results_are_shown_as_they_are(device: str) -> None:
    """Page, picture and the table among the evidence are made from the figures (`AUTOACCEL_UPDATE=1`)."""
    record = RESULTS / f"suite_{device}.json"
    if not record.exists():
        pytest.skip(f"no run on {device} is recorded")
    run = Run.from_json(record.read_text(encoding="utf-8"))
    shown = {
        record.with_suffix(".md"): reporting.page(run, picture=f"suite_{device}.svg"),
        record.with_suffix(".svg"): drawing.draw(run),
    }
    evidence = PROJECT / "docs" / "evidence.md"
    text = evidence.read_text(encoding="utf-8")
    found = re.search(rf"(?<=<!-- suite_{device} -->\n).*?(?=<!-- /suite_{device} -->)", text, re.DOTALL)
    if found is not None:
        shown[evidence] = text[: found.start()] + reporting.table(run) + text[found.end() :]
    for path, expected in shown.items():
        if os.environ.get("AUTOACCEL_UPDATE") == "1":
            path.write_text(expected, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == expected, f"AUTOACCEL_UPDATE=1 pytest {__file__} renews {path.name}"


# -- in earnest

TOY = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", default="small")
args = parser.parse_args()
torch.manual_seed(args.seed)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 8)
step = 0
while step < args.steps:
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    step += 1
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the suite over two scripts that take no time; the expert's breaks, Fabric is not there."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("toy", "brief"):
        (folder / name).mkdir()
        (folder / name / "original.py").write_text(TOY)
    (folder / "toy" / "expert.py").write_text(TOY.replace("loss.backward()", "raise ValueError('no luck')"))
    (folder / "toy" / "fabric.py").write_text(f"import no_such_fabric\n{TOY}")
    scripts = (Script("toy", "Toy", "", batch=(16, 16)), Script("brief", "Brief", "", control=True, whole=10))
    wanted = running.Wanted(
        scripts,
        [ORIGINAL, AGAIN, EXACT, DEFAULT, EXPERT, FABRIC],
        Setting("small", "cpu", folder, folder),
        Pace(block=0.02, warm=0.02, settling=0.05, rounds=3, fewest=3, repetitions=1),
        seconds=100.0,
        replicates=1,
        most=1,
    )
    environment = {**surroundings("cpu", "small", folder / "code"), "OMP_NUM_THREADS": "1"}
    return running.run(wanted, environment, nothing)


def test_all_columns_of_a_script_are_measured(toy: Run) -> None:
    found = {each.name: each for each in toy.results[0].columns}
    assert list(found) == [ORIGINAL, AGAIN, EXACT, DEFAULT, EXPERT, FABRIC]
    for name in (ORIGINAL, AGAIN, EXACT, DEFAULT):
        each = found[name]
        assert each.status == MEASURED, each.reason
        assert each.ratio is not None and each.ratio.low <= each.ratio.median <= each.ratio.high
        assert 0 < each.step_seconds < 0.1
        assert each.samples_per_second == pytest.approx(16 / each.step_seconds)
        assert each.first_step_seconds > toy.start_seconds > 0.1
        assert each.host_memory > 2**25
    assert found[ORIGINAL].losses == found[AGAIN].losses[: len(found[ORIGINAL].losses)] or found[AGAIN].losses


def test_columns_that_fail_are_shown_as_failed(toy: Run) -> None:
    found = {each.name: each for each in toy.results[0].columns}
    assert (found[EXPERT].status, found[EXPERT].reason) == (LOST, "ValueError: no luck")
    assert (found[FABRIC].status, found[FABRIC].reason) == (
        SKIPPED, "No module named 'no_such_fabric'"
    )  # fmt: skip


def test_losses_of_a_run_are_compared(toy: Run) -> None:
    said = {each.column: each for each in toy.results[0].gates}
    assert said[EXACT].passed and "bit for bit" in said[EXACT].said


def test_a_run_is_timed_whole(toy: Run) -> None:
    original = toy.results[1].column(ORIGINAL)
    assert original is not None
    assert original.step_seconds * 10 > toy.start_seconds
    assert original.to_100 is None
    assert toy.results[1].speedup(DEFAULT) == pytest.approx(1.0, abs=0.5)


def test_the_machine_is_named(toy: Run) -> None:
    assert {"processor", "torch", "Python"} <= toy.machine.keys()
