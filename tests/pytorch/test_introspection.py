"""Who asks for the class of an object, or looks a name up while the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.introspection import (
    annotations_read,
    attributes_listed,
    class_inspected,
    name_looked_up,
    object_inspected,
)

OLD = "torch.cuda.amp.GradScaler"
NAMES = (OLD, "torch.amp.GradScaler")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("isinstance(x, torch.cuda.amp.GradScaler)", True),
        ("isinstance(x, (int, torch.cuda.amp.GradScaler))", True),
        ("from precision import GradScaler\nisinstance(x, GradScaler)", True),
        ("type(x) is torch.cuda.amp.GradScaler", True),
        ("match x:\n    case torch.cuda.amp.GradScaler():\n        pass", True),
        ("table = {torch.cuda.amp.GradScaler: 1}", True),
        ("from functools import singledispatch\n@singledispatch\ndef f(x: torch.cuda.amp.GradScaler): ...", True),
        ("def f(x: torch.cuda.amp.GradScaler) -> torch.cuda.amp.GradScaler: ...", False),
        ("class Mine(torch.cuda.amp.GradScaler): ...", False),
        ("x = torch.cuda.amp.GradScaler()", False),
        ("isinstance(x, torch.optim.Adam)", False),
    ],
)
def test_class_inspected(text: str, found: bool) -> None:
    assert (class_inspected(load(f"import torch\n{text}\n"), NAMES) is not None) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("type(scaler)", True),
        ("self.scaler.__class__", True),
        ("def clone(x): return type(x)()\nclone(scaler)", True),
        ("def find(x): return table[type(x)]\nfind(scaler)", True),
        ("def name(x): return type(x).__name__\nname(scaler)", False),
        ("def same(x): return type(x) is int\nsame(scaler)", False),
        ("torch.save(scaler, 'x')", True),
        ("import pickle\npickle.dump(scaler, f)", True),
        ("state = {'scaler': scaler}", True),
        ("dict(scaler=scaler)", True),
        ("import lightning\nlightning.Fabric(scaler=scaler)", True),
        ("state = {'scaler': scaler.state_dict()}", False),
        ("train(model, scaler=scaler)", False),
        ("import copy\ncopy.deepcopy(scaler)", False),
    ],
)
def test_object_inspected(text: str, found: bool) -> None:
    assert (object_inspected(load(f"import torch\n{text}\n"), ("scaler",)) is not None) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("print('loss', loss.item())", False),
        ("print(f'loss{loss}')", False),
        ("logs = {'loss': loss.item()}", False),
        ("logs['loss'] = loss.item()", False),
        ("self.logs['loss'].append(loss.item())", False),
        ("from torch.utils.tensorboard import SummaryWriter\nSummaryWriter().add_scalar('loss', loss, 1)", False),
        ("class W:\n    def add_scalar(self, name, x): ...\nW().add_scalar('loss', loss)", True),
        ("def print(*a): ...\nprint('loss')", True),
        ("show('loss', loss)", True),
        ("names = ['loss']", True),
        ("for name in ('loss', 'acc'): show(name)", True),
        ("logs = {'x': 'loss'}", True),
        ("hasattr(module, 'loss')", True),
        ("logs = {'loss': 1}\nfor name in logs: getattr(module, name)", True),
        ("logs['loss'] = 1\nvars(module)[name]", True),
        ("logs['loss'] = 1\nmodule.__dict__[name]", True),
        ("module.__dict__['loss']", True),
        ("globals()['loss']", True),
        ("vars()['loss']", True),
    ],
)
def test_name_given_as_a_text(text: str, found: bool) -> None:
    assert (name_looked_up(load(f"{text}\n"), "loss", public=True) is not None) is found


@pytest.mark.parametrize(
    ("importing", "found"),
    [
        ("import net\nnet.autocast()", True),
        ("import net\nfind(net)", True),
        ("import net\nvars(net)", True),
        ("import net\ngetattr(net, name)", True),
        ("import importlib\nm = importlib.import_module(n)\ngetattr(m, k)", True),
        ("import importlib\nm = importlib.import_module(n)\ngetattr(m, 'Net')", False),
        ("import importlib\nm = importlib.import_module(n)\nm.__dict__[k]", True),
        ("import net\nnet.Net()", False),
        ("import net\ngetattr(args, name)", False),
        ("import net, torch\ntorch.autocast('cuda')", False),
        ("import star\nvars(star)", True),
        ("import star\nstar.Net()", False),
    ],
)
def test_name_looked_up_by_others(tmp_path: Path, importing: str, found: bool) -> None:
    texts = {tmp_path / "net.py": "from torch.cuda.amp import autocast\n", tmp_path / "main.py": importing}
    texts[tmp_path / "star.py"] = "from net import *\n"
    for path, text in texts.items():
        path.write_text(text)
    path = tmp_path / "net.py"
    script = load(texts[path], path, Project(texts))
    assert (name_looked_up(script, "autocast", public=True) is not None) is found
    assert name_looked_up(script, "autocast", public=False) is None


@pytest.mark.parametrize(
    ("expression", "listed"),
    [
        ("vars(optimizer)", True),
        ("dir(optimizer)", True),
        ("optimizer.__dict__", True),
        ("inspect.getmembers(optimizer)", True),
        ("print(optimizer, optimizer.state_dict())", False),
        ("vars(args)", False),
        ("dir()", False),
        ("other.vars(optimizer, 1)", False),
    ],
)
def test_attributes_listed(expression: str, listed: bool) -> None:
    text = f"import torch, inspect\noptimizer = torch.optim.SGD(parameters, lr=0.1)\n{expression}\n"
    assert (attributes_listed(load(text), Kind.OPTIMIZER) is not None) is listed


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("print(__annotations__)", True),
        ("typing.get_type_hints(module)", True),
        ("inspect.get_annotations(module)", True),
        ("x: int = 1", False),
    ],
)
def test_annotations_read(text: str, read: bool) -> None:
    assert annotations_read(load(text)) is read


def test_past_a_bound_nothing_is_known(tmp_path: Path) -> None:
    texts = {tmp_path / "net.py": "import torch\n", tmp_path / "main.py": "import net\nGradScaler\n"}
    for path, text in texts.items():
        path.write_text(text)
    script = load("import torch\n", tmp_path / "net.py", Project(texts, bounds=Bounds(mentioning=0)))
    with pytest.raises(Incomplete):
        class_inspected(script, NAMES)
