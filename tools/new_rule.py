"""Starts a rule: writes its module and its first fixtures, which work, and are to be replaced by what is meant.

    python -m tools.new_rule AA609 fused-sgd --tier equivalent

The rule is found because its file is there. CONTRIBUTING says what comes next.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NoReturn

from autoaccel.edits import Tier
from autoaccel.rewriting.registry import rules

ROOT = Path(__file__).parents[1]
TIERS = {tier.label: tier for tier in Tier}

MODULE = Template('''\
"""TODO: what the rewrite does, in one line, as an instruction.

TODO: why that is faster.

Left alone:
- TODO: every case in which the result could differ;
- calls whose arguments are not visible (`*args`, `**kwargs`).

Before:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

After:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import AddArguments, Code, Finding, Skipped, Tier
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="$code",
    name="$name",
    tier=Tier.$tier,
    needles=(b"SGD",),  # TODO: a file without any of these is not parsed
    references=(),  # TODO: where torch says that it is faster
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.calls("torch.optim.SGD"):  # TODO: by its qualified name, however the script imports it
        if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
            yield RULE.skip(call, "its arguments are not visible here")
        elif all(each.arg != "fused" for each in call.keywords):
            edit = AddArguments(call, (("fused", Code("True")),))
            yield RULE.finding(call, "TODO: what is slow about it", edit)
''')

EXAMPLE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
"""

NOOP = """\
# skip: its arguments are not visible here
import torch


def make_optimizer(model, options):
    return torch.optim.SGD(model.parameters(), **options)
"""

NEXT = Template("""\
Next:
  1. replace every TODO of the rule, and the fixtures by what must and must not change
  2. AUTOACCEL_UPDATE=1 python -m pytest tests/test_fixtures.py -k $name
     writes example.out.py: read it as the author of the script would
  3. AUTOACCEL_UPDATE=1 python -m pytest tests/test_readme.py tests/test_rule_pages.py -k "generated or page"
     writes the table of the README and docs/rules/$name.md
  4. a line in CHANGELOG.md
""")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    """Write a rule and its fixtures below `root`, or end with status 2 and one line that says what is wrong."""
    parser = _Parser(prog="python -m tools.new_rule", description="Start a rule: its module and its first fixtures.")
    parser.add_argument("code", help="AA and three digits, the first of which is the topic: AA609")
    parser.add_argument("name", help="in kebab case: fused-sgd")
    parser.add_argument("--tier", required=True, help=f"how exact the rewrite is: {', '.join(TIERS)}")
    given = parser.parse_args(arguments)
    files = _files(given.code, given.name, given.tier, root)
    if problem := _problem(given.code, given.name, given.tier, files, root):
        parser.error(problem)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(root).as_posix())
    print("\n" + NEXT.substitute(name=given.name), end="")


def _files(code: str, name: str, tier: str, root: Path) -> dict[Path, str]:
    fixtures = root / "fixtures" / name
    module = root / "codemods" / "autoaccel_codemods" / f"{name.replace('-', '_')}.py"
    return {
        module: MODULE.substitute(code=code, name=name, tier=tier.upper().replace("-", "_")),
        fixtures / "example.in.py": EXAMPLE,
        fixtures / "noop_arguments_not_visible.py": NOOP,
    }


def _problem(code: str, name: str, tier: str, files: dict[Path, str], root: Path) -> str | None:
    """Why there can be no such rule; None when there can."""
    if not re.fullmatch(r"AA\d{3}", code):
        return f"{code} is not a code: AA and three digits, such as AA609"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f"{name} is not in kebab case, such as fused-sgd"
    if tier not in TIERS:
        return f"{tier} is not a tier: {', '.join(TIERS)}"
    for rule in rules():
        if code == rule.code or name == rule.name:
            return f"{code if code == rule.code else name} is taken: {rule.code} {rule.name}"
    for path in (*files, next(iter(files)).with_suffix("")):  # a rule may be a package
        if path.exists():
            return f"{path.relative_to(root).as_posix()} exists"
    return None


if __name__ == "__main__":
    main()
