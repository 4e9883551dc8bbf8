"""What keeps a model apart from others, and what may make it a part of one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.pytorch.separate_models import stays_separate

HEAD = """import copy
import torch
from torch import nn
class Trainer:
    def __init__(self, model):
        self.model = model
class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
other = nn.Sequential(nn.ReLU())
"""

# By case: what becomes of `net`, and whether it surely stays a model of its own.
SEPARATE = {
    "only made": ("", True),
    "called": ("y = net(x)", True),
    "moved": ("net = net.to(0).train()\nnet(x)", True),
    "asked for its parameters": ("optimizer = torch.optim.SGD(net.parameters(), lr=0.1)", True),
    "saved": ("torch.save(net.state_dict(), 'x')", True),
    "beside another one": ("net, other = net.cuda(), other.cuda()", True),
    "handed to a function": ("def f(x, model):\n    return model(x)\nf(1, net)\nf(1, model=net)", True),
    "handed back": ("def f(model):\n    model.eval()\n    return model\ny = f(net)(x)", True),
    "kept by an object that is given it": ("Trainer(net).model(x)", True),
    "a part of another one from an object that is given it": ("Around(Trainer(net).model)", False),
    "an attribute of an object": ("t = Trainer(None)\nt.model = net\nt.model(x)", True),
    "an attribute that becomes a part": ("t = Trainer(None)\nt.model = net\nAround(t.model)", False),
    "a part": ("Around(net)", False),
    "a part of a container": ("nn.Sequential(net, nn.ReLU())", False),
    "stored in a model": ("other.inner = net", False),
    "stored in what is not known": ("x.inner = net", False),
    "stored in a table": ("x['net'] = net", False),
    "its layer is taken": ("other.head = net.head", False),
    "its layers are taken": ("nn.Sequential(*net.children())", False),
    "sliced": ("nn.Sequential(net[0])", False),
    "in a list": ("nets = [net, other]", False),
    "iterated": ("for each in (net, other):\n    each.train()", False),
    "handed to an unknown function": ("x(net)", False),
    "collected": ("def f(*models):\n    return models\nf(net)", False),
    "handed to a function that keeps it": ("def f(model):\n    other.inner = model\nf(net)", False),
    "handed back and kept": ("def f(model):\n    return model\nother.inner = f(net)", False),
    "returned by a function that is handed on": ("def f():\n    return net\nx(f)", False),
    "read by a computed name": ("other.inner = locals()[name]", False),
    "read by text": ("exec(name)", False),
}


@pytest.mark.parametrize("case", SEPARATE)
def test_separate(case: str) -> None:
    after, expected = SEPARATE[case]
    lines = ["net = Around(None)", *after.split("\n")]
    script = load(f"{HEAD}def main(x, name):\n" + "".join(f"    {line}\n" for line in lines))
    (made,) = (each for each in script.syntax_index.calls_named("Around") if script.source(each) == "Around(None)")
    assert stays_separate(script, made) is expected


def test_names_of_a_module_that_others_import(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(f"{HEAD}net = Around(None)\n")
    (tmp_path / "main.py").write_text("from nets import net, other\nother.inner = net\n")
    script = Project([tmp_path / "main.py", tmp_path / "nets.py"]).script(tmp_path / "nets.py")
    assert script is not None
    (made,) = (each for each in script.find(ast.Call) if script.source(each) == "Around(None)")
    assert not stays_separate(script, made)
