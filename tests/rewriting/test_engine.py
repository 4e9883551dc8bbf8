"""From text to result: rounds, tiers, errors, records."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.analysis import Script
from autoaccel.edits import AddImport, Code, Edit, Finding, InsertAfter, InsertBefore, Replace, Skipped, Tier
from autoaccel.rewriting import engine
from autoaccel.rewriting.linting import lint
from autoaccel.rewriting.record import Range
from autoaccel.rewriting.rule import Check, Rule, UnderDeterminism


def rule(check: Check, code: str = "AA001", tier: Tier = Tier.EXACT, needles: tuple[bytes, ...] = ()) -> Rule:
    made = Rule(code=code, name=f"toy-{code.lower()}", tier=tier, needles=needles)
    made.check(check)
    return made


def renaming(old: str, new: str, code: str = "AA001", tier: Tier = Tier.EXACT) -> Rule:
    """Calls of `old` become calls of `new`."""

    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id == old:
                yield made.finding(call, f"{old} is slow", Replace(call.func, Code(new)))

    made = rule(check, code, tier, (old.encode(),))
    return made


def test_rewrite() -> None:
    result = engine.rewrite("x = f(1)\n", Path("a.py"), [renaming("f", "g")])
    assert (result.before, result.after, result.errors) == ("x = f(1)\n", "x = g(1)\n", ())
    [record] = result.applied
    assert (record.code, record.name, record.tier, record.message) == ("AA001", "toy-aa001", "exact", "f is slow")
    assert (record.line, record.column, record.end_line, record.end_column, record.round) == (1, 5, 1, 9, 1)
    assert record.edits == (Range(1, 5, 1, 6),)
    assert len(result.findings) == 1


def test_columns_count_characters() -> None:
    [record] = engine.rewrite("s = 'äöü', f(1)\n", None, [renaming("f", "g")]).applied
    assert record.column == 12


def test_without_needle_nothing_is_parsed() -> None:
    assert engine.rewrite("not python at all(", Path("a.py"), [renaming("absent", "g")]).errors == ()


def test_nothing_found_nothing_changed() -> None:
    text = "f = 1  \n\n\n   "
    assert engine.rewrite(text, None, [renaming("f", "g")]).after is text


@pytest.mark.parametrize("turn", [1, -1])
def test_conflicting_findings_wait_for_another_round(turn: int) -> None:
    # Both want the same name; what the second makes of it, the first then finds nothing in.
    rules = [renaming("f", "g"), renaming("f", "h", "AA002"), renaming("g", "k", "AA003")]
    result = engine.rewrite("x = f(1)\n", None, rules[::turn])
    assert result.after == "x = k(1)\n"
    assert [(record.code, record.round) for record in result.applied] == [("AA001", 1), ("AA003", 2)]
    assert [(record.code, record.message) for record in result.skipped] == [("AA002", "conflicts with AA001 on line 1")]


def test_lint_names_what_waits() -> None:
    report = lint("x = f(1)\n", None, [renaming("f", "g"), renaming("f", "h", "AA002")])
    assert [record.code for record in report.findings] == ["AA001"]
    [waiting] = report.skipped
    reason = "conflicts with AA001 on line 1: `rewrite` applies that first, and looks again"
    assert (waiting.code, waiting.message) == ("AA002", reason)


def test_what_an_earlier_round_left_alone_and_a_later_one_did_is_no_skip() -> None:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id == "g":
                yield made.finding(call, "g is slow", Replace(call.func, Code("k")))
            elif isinstance(call.func, ast.Name) and call.func.id != "k":
                yield made.skip(call, f"line {call.lineno} calls {call.func.id}")

    made = rule(check, "AA002")
    result = engine.rewrite("x = f(1)\ny = p(2)\n", None, [renaming("f", "g"), made])
    assert result.after == "x = k(1)\ny = p(2)\n"
    assert [(record.line, record.message) for record in result.skipped] == [(2, "line 2 calls p")]


def test_what_a_later_round_says_is_said_of_the_file() -> None:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        for call in script.find(ast.Call):
            name = script.source(call.func)
            if name == "f":
                edits = InsertBefore(script.tree.body[-1], Code("p()")), Replace(call.func, Code("g"))
                yield made.finding(call, "f is slow", *edits)
            elif name == "k":
                yield made.skip(call, f"line {call.lineno} calls k")

    made = rule(check, "AA002")
    result = engine.rewrite("x = 1\ny = f(x)\n", None, [made, renaming("g", "k", "AA003")])
    assert result.after == "x = 1\np()\ny = k(x)\n"
    assert [(each.round, each.place) for each in result.applied] == [(1, "2:5"), (2, "2:1")]
    assert [(each.place, each.message) for each in result.skipped] == [("2:1", "line 2 calls k")]


def test_rules_that_undo_each_other_are_named_and_change_nothing() -> None:
    result = engine.rewrite("x = f(1)\n", Path("a.py"), [renaming("f", "g"), renaming("g", "f", "AA002")])
    assert result.after == "x = f(1)\n"
    [error] = result.errors
    assert error.startswith("a.py: left alone")
    assert "toy-aa001" in error


def test_tiers() -> None:
    rules = [renaming("f", "g", "AA001", Tier.EQUIVALENT), renaming("p", "q", "AA002", Tier.OPT_IN)]
    result = engine.rewrite("f(1)\np(2)\n", None, rules, tier=Tier.EXACT)
    # Who hands in an opt-in rule wants it.
    assert result.after == "f(1)\nq(2)\n"
    assert [(record.code, record.message) for record in result.skipped] == [("AA001", "needs --tier equivalent")]


def test_deterministic_scripts_get_exact_rewrites_only() -> None:
    text = "import torch\ntorch.use_deterministic_algorithms(True)\nf(1)\np(2)\n"
    rules = [renaming("f", "g", tier=Tier.NUMERICS), renaming("p", "q", "AA002")]
    result = engine.rewrite(text, None, rules)
    assert result.after == text.replace("p(2)", "q(2)")
    [record] = result.skipped
    assert record.message == "the script asks for deterministic algorithms, and this is numerics, not exact"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("torch.backends.cudnn.deterministic = True", ["AA001"]),
        ("torch.backends.cudnn.deterministic = False", []),
        ("if args.seed is not None: torch.backends.cudnn.deterministic = True", []),
        ("torch.use_deterministic_algorithms(True)", ["AA001", "AA002"]),
        ("torch.backends.cudnn.deterministic = torch.use_deterministic_algorithms(True)", ["AA001", "AA002"]),
    ],
)
def test_what_is_the_same_in_each_run_stays_where_cudnn_has_to_be(setting: str, expected: list[str]) -> None:
    rules = [renaming("f", "g", "AA001", Tier.NUMERICS), renaming("p", "q", "AA002", Tier.NUMERICS)]
    rules[1].under_determinism = UnderDeterminism.REPEATED
    rules[0].under_determinism = UnderDeterminism.OFF
    result = engine.rewrite(f"import torch\n{setting}\nf(1)\np(2)\n", None, rules)
    assert [record.code for record in result.skipped] == expected
    assert not engine.rewrite(f"{setting}\np(2)\n", None, rules, tier=Tier.EXACT).applied


def test_accept() -> None:
    result = engine.rewrite("f(1)\nf(2)\n", None, [renaming("f", "g")], accept=lambda found: found.node.lineno == 2)  # type: ignore[attr-defined]
    assert result.after == "f(1)\ng(2)\n"
    assert [record.line for record in result.applied] == [2]


def test_any_subset_can_be_applied() -> None:
    analysis = engine.analyse("f(1)\nf(2)\nf(3)\n", None, [renaming("f", "g")])
    one, two, three = analysis.findings
    assert engine.apply(analysis, []) == "f(1)\nf(2)\nf(3)\n"
    assert engine.apply(analysis, [two]) == "f(1)\ng(2)\nf(3)\n"
    assert engine.apply(analysis, [three, one]) == "g(1)\nf(2)\ng(3)\n"


def test_a_finding_without_its_need_is_left_out() -> None:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        for first, second in [list(script.find(ast.Name))] if "ready" not in script.text else []:
            need = made.finding(first, "one", Replace(first, Code("ready")))
            yield need
            yield made.finding(second, "two", Replace(second, Code("ready")), needs=(need,))

    made = rule(check)
    analysis = engine.analyse("a\nb\n", None, [made])
    need, dependent = analysis.findings
    assert engine.apply(analysis, [dependent]) == "a\nb\n"
    assert engine.apply(analysis, [need, dependent]) == "ready\nready\n"
    declined = engine.rewrite("a\nb\n", None, [made], accept=lambda found: found is not None and found.message == "two")
    assert declined.after == "a\nb\n"


def test_a_suppressed_finding_is_reported_apart() -> None:
    result = engine.rewrite("f(1)  # autoaccel: ignore[AA001]\nf(2)\n", None, [renaming("f", "g")])
    assert result.after == "f(1)  # autoaccel: ignore[AA001]\ng(2)\n"
    assert [record.line for record in result.suppressed] == [1]
    assert result.skipped == ()


def test_skipped_opportunities_carry_their_reason() -> None:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        yield made.skip(script.tree.body[0], "not worth it")

    made = rule(check)
    [record] = engine.rewrite("f(1)\n", None, [made]).skipped
    assert (record.line, record.message) == (1, "not worth it")


def test_an_exception_in_a_rule_names_rule_and_file() -> None:
    def check(script: Script) -> Iterator[Finding | Skipped]:
        yield from ()
        raise KeyError("surprise")

    result = engine.rewrite("f(1)\n", Path("a.py"), [renaming("f", "g"), rule(check, "AA002")])
    assert result.after == "f(1)\n"
    assert result.errors == ("a.py: rule AA002 toy-aa002 failed: KeyError: 'surprise'",)


@pytest.mark.parametrize("text", ["f(\n", "f(\0)\n", "if f:\nx\n", "f(" + "(" * 500 + ")" * 500 + ")"])
def test_what_does_not_parse_is_an_error(text: str) -> None:
    result = engine.rewrite(text, Path("a.py"), [renaming("f", "g")])
    assert result.after == text
    [error] = result.errors
    assert error.startswith("a.py:")
    assert "cannot parse" in error


def inserting(code: str, template: str, *more: Edit) -> Rule:
    """A rule that inserts something after the first statement, unless it is there."""

    def check(script: Script) -> Iterator[Finding | Skipped]:
        if template not in script.text:
            first = script.tree.body[0]
            yield made.finding(first, "toy", InsertAfter(first, Code(template)), *more)

    made = rule(check, code)
    return made


def test_a_failed_self_check_names_the_culprit_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from autoaccel.rewriting import apply as applying

    honest = applying.apply

    def careless(places: object, findings: object) -> str:
        after = honest(places, findings)  # type: ignore[arg-type]
        return after.replace("  # keep me", "") if "broken" in after else after

    monkeypatch.setattr(applying, "apply", careless)
    rules = [inserting("AA001", "fine()"), inserting("AA002", "broken()")]
    result = engine.rewrite("a\nb  # keep me\n", Path("a.py"), rules)
    assert result.after == "a\nb  # keep me\n"
    [error] = result.errors
    assert "self-check" in error
    assert "toy-aa002" in error
    assert "toy-aa001" not in error


def test_an_import_comes_with_its_use_and_once() -> None:
    rules = [inserting("AA001", "accel.a()", AddImport("accel")), inserting("AA002", "accel.b()", AddImport("accel"))]
    result = engine.rewrite("import os\n", None, rules)
    assert result.after == "import os\nimport accel\n\naccel.a()\naccel.b()\n"


def test_libcst_is_imported_only_to_change_something() -> None:
    program = """
import sys
from autoaccel.rewriting import engine
from autoaccel.rewriting.rule import Rule
from autoaccel.edits import Tier
rule = Rule("AA001", "toy", Tier.EXACT, ())
rule.check(lambda script: iter([rule.skip(script.tree, "no")]))
assert engine.rewrite("x = 1", None, [rule]).skipped
assert "libcst" not in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
