"""Settings: which literal they have."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.parsed_options import written_as

SETTINGS = """\
from dataclasses import dataclass

@dataclass
class Options:
    workers: int = 0

class Fast(Options):
    workers: int = 4

WORKERS = 0
CONFIG = {"loading": {"workers": 0}}
PLAIN = dict(workers=0)
options = Options()

def make(workers=0):
    return workers

def choose(n):
    return n
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("use(WORKERS)", 10),
        ("use(CONFIG['loading']['workers'])", 11),
        ("use(CONFIG['loading'].get('workers', 2))", 11),
        ("use(PLAIN['workers'])", 12),
        ("use(options.workers)", 5),
        ("use(Options.workers)", 5),
        ("use(Fast().workers)", 8),
        ("chosen = Options(workers=0)\nuse(chosen.workers)", 20),
        # where it may be another
        ("WORKERS = cores()\nuse(WORKERS)", None),
        ("if fast:\n    WORKERS = 4\nuse(WORKERS)", None),
        ("WORKERS += 1\nuse(WORKERS)", None),
        ("use(WORKERS + 1)", None),
        ("CONFIG['loading']['workers'] = 4\nuse(CONFIG['loading']['workers'])", None),
        ("PLAIN.update(workers=4)\nuse(PLAIN['workers'])", None),
        ("PLAIN.update({'workers': 4})\nuse(PLAIN['workers'])", None),
        ("PLAIN.update(read())\nuse(PLAIN['workers'])", None),
        ("PLAIN |= {'workers': 4}\nuse(PLAIN['workers'])", None),
        ("both = PLAIN | {'workers': 4}\nuse(both['workers'])", None),
        ("both = {**PLAIN, 'workers': 4}\nuse(both['workers'])", None),
        ("change(PLAIN)\nuse(PLAIN['workers'])", None),
        ("options.workers = 4\nuse(options.workers)", None),
        ("setattr(options, name, 4)\nuse(options.workers)", None),
        ("use(Options(4).workers)", None),
        ("use(Options(**given).workers)", None),
        ("use(parse(Options).workers)", None),
        ("use((Options() if fast else Fast()).workers)", None),
    ],
)
def test_written_as(body: str, line: int | None) -> None:
    script = load(f"{SETTINGS}{body}\n")
    (call,) = (call for call in script.find(ast.Call) if ast.unparse(call.func) == "use")
    found = written_as(script, call.args[0])
    assert (found and found[1].lineno) == line


@pytest.mark.parametrize(
    ("body", "function", "line"),
    [
        ("make()", "make", 15),
        ("make(0)", "make", 20),
        ("make(4)\nmake()", "make", None),
        ("hand_on(make)", "make", None),
        ("choose(WORKERS)", "choose", 10),
        ("choose(WORKERS)\nchoose(4)", "choose", None),
        ("", "choose", None),
    ],
)
def test_written_as_an_argument(body: str, function: str, line: int | None) -> None:
    script = load(f"{SETTINGS}{body}\n")
    (returned,) = (
        each.value for each in script.find(ast.Return) if getattr(script.function(each), "name", "") == function
    )
    assert returned is not None
    found = written_as(script, returned)
    assert (found and found[1].lineno) == line
