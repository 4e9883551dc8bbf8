"""The robustness run must see a defect of the tool when there is one."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script
from autoaccel.edits import Code, Finding, InsertBefore, Skipped, Tier
from autoaccel.rewriting import apply as applying
from autoaccel.rewriting import check
from autoaccel.rewriting.rule import Rule
from benchmarks.robustness import commands, judging, probing, running
from benchmarks.robustness.judging import Depth, Verdict, judge
from benchmarks.robustness.reporting import page, tally, text
from benchmarks.robustness.running import Effort, Item, collect, known, run

SCRIPT = """\
import torch

device = torch.device("cuda")


@decorated
def noise(n, *, scale=1.0):
    \"\"\"Numbers.\"\"\"
    if n > 3:
        pass  # a comment
    elif n:
        return scale * torch.zeros(n).to(device)
    return [torch.ones(each, 1).sum() for each in range(n)]
"""


def toy(*lines: str, needles: tuple[bytes, ...] = ()) -> Rule:
    """A rule that inserts lines above the first statement, each time it is asked."""
    rule = Rule("AA999", "toy", Tier.EXACT, needles)

    @rule.check
    def check(script: Script) -> Iterator[Finding | Skipped]:
        yield from (rule.finding(script.tree, "toy", InsertBefore(script.tree.body[0], Code(each))) for each in lines)

    return rule


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def kinds(path: Path, *rules: Rule, all_rules: bool = False) -> list[str]:
    return [kind for kind, _ in judge(path, rules, Project(), Depth(all_rules)).problems]


def test_nothing_is_wrong_with_the_rules(script: Path) -> None:
    from autoaccel.rewriting import registry

    verdict = judge(script, registry.rules(), Project((script,)), Depth(True, True), seed=3)
    assert verdict.problems == ()
    assert (verdict.findings, verdict.changed, verdict.probed) == (1, True, True)
    assert script.read_text(encoding="utf-8") == SCRIPT


def test_a_rule_that_fails(script: Path) -> None:
    rule = Rule("AA999", "toy", Tier.EXACT, ())

    @rule.check
    def check(script: Script) -> Iterator[Finding | Skipped]:
        raise KeyError("x")

    assert kinds(script, rule) == ["crash"]


def test_a_rule_that_never_ends_its_work(script: Path) -> None:
    assert kinds(script, toy("x = 1")) == ["error"]


def test_a_rule_whose_needles_lie(script: Path) -> None:
    rule = toy("x = 1", needles=(b"not there",))
    assert kinds(script, rule) == []
    assert kinds(script, rule, all_rules=True) == ["needle"]


@pytest.mark.parametrize("data", [b"print 'x'\n", b"# coding: nonsense\nx = 1\n", b"x = '\xff'\n", b"x = 1\0\n"])
def test_what_python_cannot_parse_is_not_blamed(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "old.py"
    path.write_bytes(data)
    verdict = judge(path, [toy("x = 1")], Project(), Depth(True, True))
    assert (verdict.parsable, verdict.problems) == (False, ())


def test_a_fix_that_does_not_parse(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoaccel.rewriting import registry

    monkeypatch.setattr(judging, "_edited", lambda text, changes: "for\n")
    assert [kind for kind, _ in judge(script, registry.rules(), Project(), Depth()).problems] == ["unparsable"]


@pytest.mark.parametrize("seed", range(30))
def test_probes_leave_the_program_as_it_is(seed: int) -> None:
    assert list(probing.problems(SCRIPT, seed)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("scale *", "scale +", "another program"),
        ("  # a comment", "", "self-check"),
        ("return [", "return (", "self-check"),
    ],
)
def test_probes_see_what_else_was_changed(monkeypatch: pytest.MonkeyPatch, old: str, new: str, expected: str) -> None:
    carry_out = applying.apply
    monkeypatch.setattr(probing, "apply", lambda *arguments: carry_out(*arguments).replace(old, new))
    if expected != "self-check":
        monkeypatch.setattr(check, "problem", lambda *_: None)
    assert [said.partition(":")[0] for said in probing.problems(SCRIPT, 0)] == [expected]


def test_each_text_once(tmp_path: Path) -> None:
    for name, content in {"a.py": "x", "b/a.py": "x", "b/c.py": "y", "d.txt": "z"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert [item.path.relative_to(tmp_path).as_posix() for item in collect([tmp_path])] == ["a.py", "b/c.py"]


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "two.py").write_text(SCRIPT, encoding="utf-8")
    items, state = list(collect([tmp_path])), tmp_path / "state.jsonl"
    effort = Effort(all_rules=1, probes=1, seconds=60)
    assert len(list(run(items[:1], state, effort))) == 1
    before = known(state)
    # What has a verdict is not examined again: the file may be gone.
    (tmp_path / "one.py").unlink()
    verdicts = list(run(items, state, effort))
    assert [Path(each.path).name for each in verdicts] == ["one.py", "two.py"]
    assert verdicts[0] == before[items[0].digest]
    assert [each.problems for each in verdicts] == [(), ()]


def test_a_process_that_dies_is_counted_and_replaced(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script.parent / "second.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(running, "_serve", os._exit)
    verdicts = list(run(list(collect([script.parent])), script.parent / "state.jsonl", Effort(1, 1, 60)))
    assert [[kind for kind, _ in each.problems] for each in verdicts] == [["crash"], ["crash"]]


def test_time_is_limited(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "judge", lambda *_: [None for _ in iter(int, 1)])
    before = signal.signal(signal.SIGPROF, running._stop)
    try:
        verdict = running._judged(Item(script, "0" * 64), [], Project(), Effort(1, 1, seconds=1))
    finally:
        signal.signal(signal.SIGPROF, before)
    assert verdict.problems == (("timeout", "more than 1 s of CPU time"),)


def test_the_report_counts_kinds() -> None:
    good = Verdict("a.py", 10, True, searched=True, findings=2, changed=True)
    bad = dataclasses.replace(good, path="b.py", problems=(("crash", "boom"),), refused="b.py: cannot decode: x")
    said = text(tally([good, bad]))
    assert "       2 files" in said
    assert "crash: 1\n  b.py: boom" in said
    assert "       1 cannot decode: x" in said
    assert "| different texts | 2 |" in page(tally([good, bad]))
    assert "| crash | 1 |" in page(tally([good, bad]))


def test_commands_on_a_sample(script: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    (script.parent / "crlf.py").write_bytes(SCRIPT.replace("\n", "\r\n").rstrip().encode())
    (script.parent / "broken.py").write_text("for\n", encoding="utf-8")
    verdicts = [
        Verdict(str(script), 1, True, changed=True),
        Verdict(str(script.parent / "crlf.py"), 1, True, changed=True),
    ]
    files = commands.sample([*verdicts, Verdict(str(script.parent / "broken.py"), 1, False)], 5)
    assert sorted(path.name for path in files) == ["broken.py", "crlf.py", "train.py"]
    assert list(commands.problems(files, place)) == []
    # Left behind is what `rewrite` wrote.
    assert [b"device=device" in path.read_bytes() for path in sorted(place.glob("*/*.py"))].count(True) == 2


def test_commands_that_go_wrong_are_seen(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = commands._git

    def broken(place: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        done = git(place, *arguments)
        for path in place.glob("*/train.py"):
            path.write_text("from torch import nn\n", encoding="utf-8")
        return done

    monkeypatch.setattr(commands, "_git", broken)
    found = list(commands.problems([script], tmp_path / "place"))
    assert "lint changed a file" in found
