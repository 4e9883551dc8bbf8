"""The net of generated programs: what makes a program, and that faults are caught in it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.wrong_rewrites import planted, rewriting
from benchmarks.wrong_rewrites.features import by_drawing, by_number
from benchmarks.wrong_rewrites.grammar import generate
from benchmarks.wrong_rewrites.hunting import is_rounding, plainest
from benchmarks.wrong_rewrites.judging import Find, judge, loose, strict
from benchmarks.wrong_rewrites.running import DISABLED, MOVED, PLAIN, Record
from tests.measure.forking import Forking

REPOSITORY = Path(__file__).resolve().parents[2]

Hunt = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hunt(forking: Forking, tmp_path: Path) -> Hunt:
    """The command, forked from a process that has torch."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["-m", "benchmarks.wrong_rewrites", "--finds", str(tmp_path), *arguments]
        path = f"{REPOSITORY}:{REPOSITORY / 'codemods'}"
        return forking.python(command, REPOSITORY, {"PATH": "", "PYTHONPATH": path})

    return run


@pytest.mark.parametrize("seed", range(20))
def test_a_number_makes_the_same_program_again(seed: int) -> None:
    texts, features = generate(by_number(seed))
    assert generate(by_number(seed))[0] == texts
    assert generate(plainest, features.vector)[0] == texts
    for text in texts.values():
        ast.parse(text)


def test_changing_one_dimension_changes_no_other() -> None:
    changed = 0
    for seed in range(10):
        _, features = generate(by_number(seed))
        for name in [name for name in features.special if not name.startswith("*")][:5]:
            _, others = generate(by_number(seed), {name: features.plainest[name]})
            shared = features.vector.keys() & others.vector.keys() - {name}
            assert all(features.vector[each] == others.vector[each] for each in shared)
            changed += 1
    assert changed > 10


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_whatever_is_drawn_can_be_rewritten(data: st.DataObject) -> None:
    texts, _ = generate(by_drawing(lambda options: data.draw(st.sampled_from(options))))
    made = rewriting.forms(texts)
    assert not made.problems


def test_what_must_be_the_same() -> None:
    plain = Record(losses=("0x1.0p+0",), steps=1, printed=("3 0.25",))
    assert strict(plain, plain) == ""
    assert strict(plain, Record(losses=("0x1.0p+0",), steps=1, printed=("3 0.5",))).startswith("printed")
    assert strict(plain, Record(error="ValueError: x")).startswith("ValueError")
    low = Record(losses=("0x1.01p+0",), steps=1, printed=("2 0.5",))
    assert strict(plain, low).startswith("losses")
    assert loose(plain, low) == ""
    assert loose(plain, Record(losses=("0x1.01p+0",), steps=1, printed=("2.0 0.5",))).startswith("printed")
    assert loose(plain, Record(losses=("0x1.0p+3",), steps=1, printed=("3 0.5",))).startswith("losses")


TRAINED = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss = (net(torch.randn(7, 3)) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(").mean()", ").sum() * (1 / 7)", True), ("lr=0.01", "lr=0.0101", False)],
)
def test_a_rounding_is_gone_in_float64(old: str, new: str, expected: bool) -> None:
    before, after = {"main.py": TRAINED}, {"main.py": TRAINED.replace(old, new)}
    assert is_rounding(before, after, PLAIN) is expected


@pytest.mark.parametrize(("sequence", "expected"), [("lstm", True), ("gru", False)])
def test_an_evaluation_may_round_where_it_is_said_to_be_equivalent(sequence: str, expected: bool) -> None:
    texts, features = generate(plainest, {"inputs": "series", "probe": "moved", "sequence": sequence})
    rounds = rewriting.forms(texts).rounds
    assert rounds is expected
    plain, near, far = (Record(printed=(each,)) for each in ("0.7019294500350952", "0.7019293904304504", "2"))
    assert (judge(DISABLED, plain, near, features.vector, rounds=rounds) is None) is expected
    assert judge(MOVED, plain, near, features.vector, rounds=rounds) is not None  # the exact tier runs there
    assert judge(DISABLED, plain, far, features.vector, rounds=rounds) is not None


def test_finds_of_one_kind() -> None:
    assert Find("moved", "IndexError: 3 | main.py:3").kind == Find("moved", "IndexError: 4 | main.py:9").kind


@pytest.mark.slow
@pytest.mark.parametrize("name", planted.RULES)
def test_a_wrong_rule_is_caught(name: str, hunt: Hunt, tmp_path: Path) -> None:
    fast = [] if name == "workers-everywhere" else ["--fast"]  # workers are what shows it
    # Of the first program others are asked, in processes that take longer to start than it takes to be looked at.
    result = hunt("--seed", "1", "--count", "64", "--first", "--planted", name, *fast)
    assert result.returncode == 1, result.stdout + result.stderr
    finds = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*/find.md")]
    rule = planted.RULES[name]
    assert any(text.startswith((f"# {rule.code}", "# order")) for text in finds)


@pytest.mark.slow
def test_nothing_is_found(hunt: Hunt) -> None:
    result = hunt("--count", "20")
    assert result.returncode == 0, result.stdout + result.stderr
