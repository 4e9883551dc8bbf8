"""Which calls are of modules that are not seen, or of what they have made."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.unseen_modules import STAR, calls_of_unseen_modules


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("import mining\nmining.step()", "mining"),
        ("import mining.hard as hard\nhard.step()", "mining"),
        ("from mining import step\nstep()", "mining"),
        ("from mining import Miner\nm = Miner('a')\nm.update()", "mining"),
        ("from mining import make\nmake('a')()", "mining"),
        ("from mining import make\nmade = make('a').inner\nother = made\nother.run()", "mining"),
        ("from mining import Miner\ndef f(m):\n    m.update()\nf(Miner('a'))", "mining"),
        ("from mining import Miner\nclass A:\n    m = Miner('a')\n    def f(self):\n        self.m.update()", "mining"),
        ("from mining import *\nstep()", STAR),
        ("from mining import *\nprint()", None),
        ("from mining import *\ndef step():\n    pass\nstep()", None),
        ("import cv2\ncv2.imread('a')", None),
        ("import torch\ntorch.ones(2).sum()", None),
        ("def step():\n    pass\nstep()", None),
        ("def f(m):\n    m.update()", None),
    ],
)
def test_calls_of_unseen_modules(text: str, module: str | None) -> None:
    script = load(text)
    found = dict(calls_of_unseen_modules(script))
    calls = [call for call in script.find(ast.Call) if not script.source(call).startswith(("Miner", "f("))]
    assert {found.get(call) for call in calls} == {module}
