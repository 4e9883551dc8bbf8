"""Qualified names and the spelling that a script has for them."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.edits import AddImport


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("import torch\ntorch.zeros(1)\n", "torch.zeros", id="plain"),
        pytest.param("import torch as th\nth.zeros(1)\n", "torch.zeros", id="alias"),
        pytest.param("from torch import zeros\nzeros(1)\n", "torch.zeros", id="from"),
        pytest.param(
            "from torch.utils.data.dataloader import DataLoader as DL\nDL(d)\n",
            "torch.utils.data.DataLoader",
            id="moved",
        ),
        pytest.param(
            "from torch.autograd.function import InplaceFunction\nInplaceFunction()\n",
            "torch.autograd.InplaceFunction",
            id="a function of autograd",
        ),
        pytest.param("from torch.functional import norm\nnorm(x)\n", "torch.norm", id="where it is defined"),
        pytest.param(
            "from torch.cuda.amp.autocast_mode import custom_fwd\ncustom_fwd(f)\n",
            "torch.cuda.amp.custom_fwd",
            id="of autocast",
        ),
        pytest.param(
            "import torch.distributions.studentT as t\nt.StudentT(3)\n", "torch.distributions.StudentT", id="capitals"
        ),
        pytest.param(
            "import torch.utils.data as D\nD.DataLoader(d)\n", "torch.utils.data.DataLoader", id="module alias"
        ),
        pytest.param("import torch.nn.functional as F\nF.relu(x)\n", "torch.nn.functional.relu", id="functional"),
        pytest.param("import torch\ntorch.autocast('cuda')\n", "torch.amp.autocast", id="two public names"),
        pytest.param("from torch import *\nzeros(1)\n", None, id="star import"),
        pytest.param("import torch\ntorch = fake\ntorch.zeros(1)\n", None, id="rebound"),
        pytest.param("import torch\ndef f(torch):\n    torch.zeros(1)\n", None, id="shadowed"),
        pytest.param(
            "try:\n    import torch\nexcept ImportError:\n    import jax as torch\ntorch.zeros(1)\n", None, id="either"
        ),
        pytest.param("x.zeros(1)\n", None, id="not imported"),
        pytest.param(
            "import torch\nfrom autoaccel import runtime as accel\naccel.first(torch.zeros)(1)\n",
            "torch.zeros",
            id="called by the first rank first",
        ),
        pytest.param("import torch\nf(torch.zeros)(1)\n", None, id="what another function makes of it"),
    ],
)
def test_qualname(text: str, name: str | None) -> None:
    script = load(text)
    assert script.qualname(next(script.find(ast.Call)).func) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import torch\n", ("torch.no_grad", ()), id="torch"),
        pytest.param("import torch as th\n", ("th.no_grad", ()), id="alias"),
        pytest.param("from torch import no_grad\n", ("no_grad", ()), id="name"),
        pytest.param("from torch import nn\n", ("torch.no_grad", (AddImport("torch"),)), id="needs the import"),
        pytest.param(
            "torch = 3\n", ("no_grad", (AddImport("torch", "no_grad", None),)), id="the module's name is taken"
        ),
        pytest.param(
            "def f():\n    import torch\n",
            ("no_grad", (AddImport("torch", "no_grad", None),)),
            id="a local import serves nobody else",
        ),
    ],
)
def test_spell(text: str, expected: tuple[str, tuple[AddImport, ...]]) -> None:
    assert load(text).spell("torch.no_grad") == expected


def test_the_runtime_gets_a_name_that_is_free() -> None:
    assert load("import torch\n").accel == "accel"
    taken = load("accel = 1\n")
    assert taken.accel == "autoaccel_runtime"
    assert taken.import_runtime == (AddImport("autoaccel", "runtime", "autoaccel_runtime"),)
    imported = load("from autoaccel import runtime as fast\n")
    assert imported.accel == "fast" and imported.import_runtime == ()


def test_frameworks() -> None:
    assert load("from pytorch_lightning import Trainer\n").frameworks == {"Lightning"}
    assert load("from transformers import BertModel\n").frameworks == frozenset()


def test_names_that_are_taken() -> None:
    script = load("import argparse\nargs.accel = 1\nclass C:\n    def f(self, x):\n        self.scaler = x\n")
    assert script.free_name("accel") == "accel"  # an attribute of something else is no clash
    assert script.free_name("scaler", "grad_scaler") == "grad_scaler"
    assert script.free_name("x") == "x2"


def test_an_import_that_is_tried_serves() -> None:
    assert load("try:\n    import torch\nexcept ImportError:\n    raise SystemExit\n").spell("torch.no_grad") == (
        "torch.no_grad",
        (),
    )


@pytest.mark.parametrize(
    "public", ["torch", "torch.nn", "torch.optim", "torch.utils.data", "torch.autograd", "torch.amp", "torch.cuda.amp"]
)
def test_names_by_where_they_are_defined(public: str) -> None:
    """A public name is the same by the module of torch that defines it, private ones and other public ones aside."""
    module = importlib.import_module(public)
    for name in module.__all__ if hasattr(module, "__all__") else dir(module):
        found = getattr(module, name)
        defined = getattr(found, "__module__", None) or ""
        if not (inspect.isclass(found) or inspect.isfunction(found)) or found.__name__ != name:
            continue
        if defined == public or not defined.startswith(f"{public}.") or "._" in defined or "datapipes" in defined:
            continue
        if defined in _PUBLIC_THEMSELVES:
            continue
        assert canonical(f"{defined}.{name}") == canonical(f"{public}.{name}"), defined


_PUBLIC_THEMSELVES = ("torch.func", "torch.jit", "torch.storage", "torch.utils.dlpack", "torch.autograd.grad_mode")
