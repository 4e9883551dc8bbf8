"""Arguments that a function hands on as it got them."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.abstract_values import Kind

PROGRAM = """\
from torch import nn

class Base:
    def __init__(self, model, rate=0.1):
        self.model = model

class Trainer(Base):
    def __init__(self, {parameters}):
        {before}
        super().__init__({given})

    def run(self, x):
        return self.model(x)

{made}
"""


@pytest.mark.parametrize(
    ("parameters", "given", "made"),
    [
        ("**kwargs", "**kwargs", "Trainer(model=nn.Linear(1, 1))"),
        ("*args, **kwargs", "*args, **kwargs", "Trainer(model=nn.Linear(1, 1), rate=1)"),
        ("*args, **kwargs", "*args, **kwargs", "Trainer(nn.Linear(1, 1), 1)"),
        ("*args, classes=4, **kwargs", "*args, **kwargs", "Trainer(model=nn.Linear(1, 1), classes=3)"),
        ("classes, *args", "*args", "Trainer(3, nn.Linear(1, 1))"),
        ("classes, *args, **kwargs", "*args, **kwargs", "Trainer(3, nn.Linear(1, 1), rate=2)"),
        (
            "**kwargs",
            "**kwargs",
            "class Other(Trainer):\n    def __init__(self, **kw): super().__init__(**kw)\nOther(model=nn.Linear(1, 1))",
        ),
    ],
)
def test_what_is_handed_on_is_known(parameters: str, given: str, made: str) -> None:
    assert kinds(parameters, given, made) == {Kind.MODULE}


@pytest.mark.parametrize(
    ("parameters", "given", "made", "before"),
    [
        pytest.param("**kwargs", "**kwargs", "Trainer(**load())", "pass", id="unpacked from elsewhere"),
        pytest.param("*args", "*args", "Trainer(*load())", "pass", id="unpacked by place"),
        pytest.param("**kwargs", "**kwargs", "f(Trainer)\nTrainer(model=nn.Linear(1, 1))", "pass", id="handed out"),
        pytest.param(
            "**kwargs", "**kwargs", "Trainer(model=nn.Linear(1, 1))", "kwargs['model'] = load()", id="written to"
        ),
        pytest.param("**kwargs", "**kwargs", "Trainer(model=nn.Linear(1, 1))", "kwargs = load()", id="bound anew"),
        pytest.param("**kwargs", "**kwargs", "Trainer(model=nn.Linear(1, 1))", "kwargs.update(load())", id="added to"),
        pytest.param("**kwargs", "**load(kwargs)", "Trainer(model=nn.Linear(1, 1))", "pass", id="something else"),
        pytest.param("*args", "*args[1:]", "Trainer(1, nn.Linear(1, 1))", "pass", id="a part"),
    ],
)
def test_otherwise_it_is_not(parameters: str, given: str, made: str, before: str) -> None:
    assert Kind.UNKNOWN in kinds(parameters, given, made, before)


def kinds(parameters: str, given: str, made: str, before: str = "pass") -> frozenset[Kind]:
    script = load(PROGRAM.format(parameters=parameters, given=given, made=made, before=before))
    read = next(each for each in script.find(ast.Attribute) if each.attr == "model" and isinstance(each.ctx, ast.Load))
    return script.values(read).kinds
