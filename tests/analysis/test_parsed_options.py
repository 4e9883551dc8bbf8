"""Options of the command line: which have a default that is seen, and which are off by it."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.parsed_options import default_of, is_off_by_default

PROGRAM = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--amp", {settings})
{more}
args = parser.parse_args()
args.amp
"""

# By case: how an option is declared, what else there is, its default, and whether it is off by it.
OPTIONS = {
    "a flag": ('action="store_true"', "", None, True),
    "a flag that is off": ('action="store_true", default=False', "", False, True),
    "a flag that is on": ('action="store_true", default=True', "", True, False),
    "a flag that is taken back": ('action="store_false"', "", None, False),
    "a number": ("type=int, default=0", "", 0, True),
    "another number": ("type=int, default=1", "", 1, False),
    "no default": ("type=int", "", None, False),
    "a default that is computed": ("type=int, default=len(parser.description)", "", None, False),
    "stored anew": ('action="store_true"', "def on(args):\n    args.amp = True", None, False),
    "declared twice": ('action="store_true"', 'parser.add_argument("--fast", dest="amp", default=1)', None, False),
    "a setting that is not seen": ("**settings", "", None, False),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_defaults(case: str) -> None:
    settings, more, default, is_off = OPTIONS[case]
    script = load(PROGRAM.format(settings=settings, more=more))
    option = script.tree.body[-1]
    assert isinstance(option, ast.Expr)
    found = default_of(script, option.value)
    assert (None if found is None else found.value) == default
    assert is_off_by_default(script, option.value) is is_off
