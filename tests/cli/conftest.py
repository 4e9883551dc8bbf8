"""Commands under click's runner, with two small rules of their own so that no real rule's wording is pinned here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoaccel.analysis import Script
from autoaccel.cli.main import cli
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule, Setting

Run = Callable[..., Result]

FAST = Rule("AA190", "fast-call", Tier.EXACT, (b"slow(",))
BRAVE = Rule("AA690", "brave-call", Tier.OPT_IN, (b"timid(",), settings=(Setting("courage", default=4, least=2),))


@FAST.check
def _fast(script: Script) -> Iterator[Finding | Skipped]:
    """`slow(x)` becomes `fast(x)`; starred arguments are declined."""
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "slow":
            if any(isinstance(argument, ast.Starred) for argument in call.args):
                yield FAST.skip(call, "the arguments are not visible here")
            else:
                yield FAST.finding(call, "slow() is fast() now", Replace(call.func, Code("fast")))


@BRAVE.check
def _brave(script: Script, *, courage: int) -> Iterator[Finding | Skipped]:
    for call in script.find(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "timid":
            yield BRAVE.finding(
                call, "more courage", Replace(call.func, Code("brave" if courage == 4 else f"brave{courage}"))
            )


@pytest.fixture(autouse=True)
def _sample_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rules", lambda: (FAST, BRAVE))
    # A cache knows rules by the files that they are in, and these are in none.
    monkeypatch.setenv("AUTOACCEL_NO_CACHE", "1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    def invoke(*arguments: str | Path, input: str | bytes | None = None) -> Result:  # noqa: A002 - the runner's name
        return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=input)

    return invoke
