"""Every pair in `fixtures/<rule-name>/`: what a rule must change, and what it must leave alone.

`AUTOACCEL_UPDATE=1 pytest` rewrites the expected files.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from autoaccel.analysis import Project
from autoaccel.edits import Tier
from autoaccel.rewriting import engine, freed_imports, registry
from autoaccel.rewriting.engine import Result
from autoaccel.rewriting.rule import Rule

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
UPDATE = os.environ.get("AUTOACCEL_UPDATE") == "1"
RULES = {rule.name: rule for rule in registry.rules()}
DEFAULT = [rule for rule in RULES.values() if rule.tier is not Tier.OPT_IN]


@dataclass(frozen=True)
class Case:
    """The inputs of one case by path, and where the expected texts are (the input itself for a no-op)."""

    rule: Rule
    name: str
    expected: dict[Path, Path]

    @property
    def rules(self) -> list[Rule]:
        """Itself; with it all others, if it judges what they say about comments."""
        return list(RULES.values()) if self.rule.comment_function else [self.rule]

    @property
    def is_noop(self) -> bool:
        return all(source == target for source, target in self.expected.items())

    def __str__(self) -> str:
        return f"{self.rule.name}/{self.name}"


def cases() -> list[Case]:
    found = []
    for rule in RULES.values():
        folder = FIXTURES / rule.name
        for path in sorted(folder.glob("*.in.py")):
            name = path.name.removesuffix(".in.py")
            found.append(Case(rule, name, {path: path.with_name(f"{name}.out.py")}))
        for path in sorted(folder.glob("noop_*.py")):
            found.append(Case(rule, path.stem, {path: path}))
        for path in sorted(each for each in folder.glob("*/") if each.is_dir() and each.name != "__pycache__"):
            inputs = sorted(each for each in path.rglob("*.py") if path / "expected" not in each.parents)
            if path.name.startswith("noop_"):
                found.append(Case(rule, path.name, {each: each for each in inputs}))
            else:
                found.append(
                    Case(rule, path.name, {each: path / "expected" / each.relative_to(path) for each in inputs})
                )
    return found


CASES = cases()


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def rewrite(case: Case, texts: dict[Path, str], rules: Sequence[Rule]) -> dict[Path, Result]:
    """The files of one project, each rewritten as the command line would: all of them seen in their original state.

    Each case is alone in a folder that is not there: the other cases are no files of its project. What is asked again,
    as where a rewrite changed nothing, is answered as before.
    """
    home = Path("/cases", case.rule.name, case.name)
    contents = tuple((home / path.relative_to(FIXTURES / case.rule.name), text) for path, text in texts.items())
    return dict(zip(texts, _rewritten(contents, tuple(rules)), strict=True))


@lru_cache(maxsize=4)  # the tests of a case follow one another
def _rewritten(texts: tuple[tuple[Path, str], ...], rules: tuple[Rule, ...]) -> list[Result]:
    contents = dict(texts)
    project = Project(contents, contents)
    return [engine.rewrite(text, path, rules, project=project) for path, text in texts]


def comment(text: str, keyword: str) -> list[str]:
    """The comma-separated values of a first-line comment such as `# expect: AA101@12`."""
    match = re.match(rf"# {keyword}: (.*)", text)
    return [part.strip() for part in match[1].split(",")] if match else []


@pytest.mark.parametrize("case", CASES, ids=str, scope="module")  # which puts the tests of a case side by side
def test_fixture(case: Case) -> None:
    texts = {path: read(path) for path in case.expected}
    results = rewrite(case, texts, case.rules)
    for path, result in results.items():
        assert not result.errors, f"{path}: {result.errors}"
        ast.parse(result.after)
        target = case.expected[path]
        if UPDATE and not case.is_noop:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(result.after.encode())
        assert result.after == read(target)
        if expected := comment(texts[path], "expect"):
            assert [f"{record.code}@{record.line}" for record in result.applied] == expected
        if reasons := re.match(r"# skip: (.*)", texts[path]):
            told = [record.message for record in (*result.skipped, *result.applied)]
            assert any(reasons[1].strip() in message for message in told), f"said: {told}"
    if not case.is_noop:
        assert any(result.applied for result in results.values()), "a rewrite without a finding"

    again = rewrite(case, {path: result.after for path, result in results.items()}, case.rules)
    for path, result in again.items():
        assert result.after == result.before, f"{path}: a second run changes it again"


@pytest.mark.parametrize("case", CASES, ids=str, scope="module")
def test_all_rules_together_are_stable(case: Case) -> None:
    """Those that run unless others are asked for; with these, where a case is about one of them."""
    rules = [*RULES.values()] if case.rule.tier is Tier.OPT_IN else DEFAULT
    results = rewrite(case, {path: read(path) for path in case.expected}, rules)
    for path, result in results.items():
        assert not result.errors, f"{path}: {result.errors}"
        assert not any("nested too deeply" in each.message for each in result.skipped)  # a question without an end
        ast.parse(result.after)
    if len(results) == 1 and not any(freed_imports.candidates(each.before, each.after) for each in results.values()):
        return  # the last round has analysed the very same text, and found nothing to do
    for path, result in rewrite(case, {path: result.after for path, result in results.items()}, rules).items():
        assert result.after == result.before, f"{path}: a second run changes it again"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_as_many_noops_as_rewrites(rule: Rule) -> None:
    """Those that are rewritten in part, and say what is left alone and why, are of both kinds."""
    own = [case for case in CASES if case.rule is rule]
    rewrites = [case for case in own if not case.is_noop]
    in_part = [case for case in rewrites if any(read(path).startswith("# skip: ") for path in case.expected)]
    assert rewrites or any(case.name == "noop_only_reported" for case in own), f"no pairs in fixtures/{rule.name}"
    assert len(own) - len(rewrites) + len(in_part) >= len(rewrites) - len(in_part)


def test_every_fixture_folder_belongs_to_a_rule() -> None:
    folders = {path.name for path in FIXTURES.iterdir() if path.is_dir()} - {"scripts"}
    assert folders <= set(RULES)


def test_no_expected_file_without_input() -> None:
    outputs = {path for name in RULES for path in (FIXTURES / name).glob("*.out.py")}
    assert outputs == {path for case in CASES for path in case.expected.values() if path.name.endswith(".out.py")}
