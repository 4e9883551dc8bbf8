import ast

import pytest

from autoaccel.analysis.script import Script, load
from autoaccel_codemods.autocast import optimized_parameters

START = """
import copy
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
twin = copy.deepcopy(model)
scale = nn.Parameter(torch.ones(1))
"""


def _owners(script: Script, expression: ast.expr) -> list[str | None]:
    return [
        None if each.owner is None else script.source(each.owner)
        for each in optimized_parameters.sources(script, expression)
    ]


@pytest.mark.parametrize(
    ("given", "owners"),
    [
        ("model.parameters()", ["model"]),
        ("list(model.parameters()) + list(twin.parameters())", ["model", "twin"]),
        ("[*model[0].parameters(), scale]", ["model[0]", "scale"]),
        ("[{'params': twin.parameters(), 'lr': 1}, {'params': [scale]}]", ["twin", "scale"]),
        ("filter(lambda p: p.requires_grad, model.parameters())", ["model"]),
        ("[p for p in model.parameters() if p.requires_grad]", ["model"]),
        ("(p for net in (model, twin) for p in net.parameters())", ["model", "twin"]),
        ("elsewhere(model)", [None]),
    ],
)
def test_sources(given: str, owners: list[str | None]) -> None:
    script = load(f"{START}\noptimizer = torch.optim.SGD({given}, lr=0.1)\n")
    call = next(script.calls("torch.optim.SGD"))
    assert _owners(script, call.args[0]) == owners


@pytest.mark.parametrize(
    ("held", "read", "expected"),
    [
        ("model.parameters()", "model.parameters()", True),
        ("model.parameters()", "model[0].parameters()", True),
        ("model[0].parameters()", "model.parameters()", False),
        ("model.parameters()", "twin.parameters()", False),  # a copy is made by the same call
        ("model.parameters()", "optimizer.param_groups[0]['params']", True),
        ("[p for n, p in model.named_parameters() if 'bias' in n]", "model.parameters()", False),
    ],
)
def test_what_an_optimizer_holds(held: str, read: str, expected: bool) -> None:
    script = load(f"{START}\noptimizer = torch.optim.SGD({held}, lr=0.1)\nlook({read})\noptimizer.step()\n")
    look = next(call for call in script.find(ast.Call) if isinstance(call.func, ast.Name) and call.func.id == "look")
    [optimizer] = [each.value for each in script.find(ast.Attribute) if each.attr == "step"]
    found = optimized_parameters.sources(script, look.args[0])
    assert all(optimized_parameters.is_held(each, [(script, optimizer)]) for each in found) is expected


def test_an_argument_is_what_it_is_called_with() -> None:
    script = load(f"{START}\ndef clear(net):\n    net.zero_grad()\n\nclear(model)\nmodel.train()\ntwin.train()\n")
    named = {
        script.source(each.func.value): each.func.value
        for each in script.find(ast.Call)
        if isinstance(each.func, ast.Attribute)
    }
    assert optimized_parameters.same(script, named["net"], script, named["model"])
    assert not optimized_parameters.same(script, named["net"], script, named["twin"])
