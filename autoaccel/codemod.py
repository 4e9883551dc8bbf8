"""The rules as codemods of LibCST, for those who run `python -m libcst.tool codemod` already.

    python -m libcst.tool codemod --no-format -x autoaccel.codemod.Rewrite --select AA1,prefetch PATHS
    python -m libcst.tool codemod --no-format -x autoaccel.codemod.NonBlocking PATHS

`Rewrite` applies the rules that configuration and arguments choose; beside it there is a class for each rule, its name
in capitals. Without `--no-format` LibCST hands the result to its formatter.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import libcst
from libcst.codemod import CodemodCommand, CodemodContext

from autoaccel.analysis import Project
from autoaccel.config import TIERS, configure, known_rules
from autoaccel.rewriting import engine
from autoaccel.rewriting.rule import Rule

__all__ = ["Rewrite"]


class CannotRewrite(Exception):  # noqa: N818 - what LibCST reports is its message
    """One file is left alone; the message says why."""


class Rewrite(CodemodCommand):
    """`autoaccel rewrite` of one file. What it leaves alone, and why, are LibCST's warnings."""

    DESCRIPTION = "Rewrite plain PyTorch training scripts so that they train faster and still train the same."
    CHOICE: Mapping[str, object] = MappingProxyType({})
    """Settings that a command does not leave to its user."""

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        arg_parser.add_argument("--select", type=_selectors, metavar="RULES", help="codes, prefixes or names")
        arg_parser.add_argument("--ignore", type=_selectors, metavar="RULES", help="leave these out")
        _add_tier(arg_parser)

    def __init__(self, context: CodemodContext, **overrides: object) -> None:
        super().__init__(context)
        self._overrides = {**overrides, **self.CHOICE}

    def transform_module_impl(self, tree: libcst.Module) -> libcst.Module:
        path = Path(self.context.filename or "<stdin>")
        chosen = configure(path.parent, overrides=self._overrides)
        rules, tier = chosen.rules_for(path), chosen.tier_for(path)
        result = engine.rewrite(tree.code, path, rules, tier=tier, project=Project((path,)))
        if result.errors:
            raise CannotRewrite("; ".join(result.errors))
        for left in result.skipped:
            self.warn(f"{path}:{left.line}: {left.code} {left.name} left alone: {left.message}")
        return libcst.parse_module(result.after, tree.config_for_parsing) if result.changed else tree


def _add_tier(arg_parser: argparse.ArgumentParser) -> None:
    arg_parser.add_argument("--tier", choices=TIERS, help="how exact rewrites must be")


def _selectors(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


@cache
def _commands() -> dict[str, type[Rewrite]]:
    """A class for each rule, under its name in capitals: AA103 non-blocking is `NonBlocking`."""
    return {command.__name__: command for command in map(_command, known_rules())}


def _command(rule: Rule) -> type[Rewrite]:
    namespace = {
        "__module__": __name__,
        "__doc__": rule.summary,
        "DESCRIPTION": f"{rule.code}: {rule.summary}",
        "CHOICE": {"select": (rule.code,)},
        "add_args": staticmethod(_add_tier),
    }
    return type("".join(word.capitalize() for word in rule.name.split("-")), (Rewrite,), namespace)


def __getattr__(name: str) -> type[Rewrite]:
    # Also how worker processes find the class again.
    try:
        return _commands()[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return [*globals(), *_commands()]
