"""Legacy tensor types, and what may change between the choice of one and its use."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.files import Files
from autoaccel.dataflow.bounds import Bounds
from autoaccel.pytorch.tensor_type_aliases import changes_default, chosen_type, tensor_type


def last_value(script: Script) -> ast.expr:
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return statement.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.FloatTensor", ("torch.float32", False)),
        ("torch.ByteTensor", ("torch.uint8", False)),
        ("torch.cuda.LongTensor", ("torch.long", True)),
        ("torch.Tensor", ("torch.float32", False)),
        ("torch.cuda.Tensor", None),
        ("torch.sparse.FloatTensor", None),
        ("torch.FloatStorage", None),
        ("torch.float32", None),
        ("FloatTensor", None),
        ("from torch import IntTensor\nIntTensor", ("torch.int32", False)),
        ("import torch.cuda as c\nc.HalfTensor", ("torch.float16", True)),
        ("torch = fake\ntorch.FloatTensor", None),
        ("getattr(torch, name)", None),
        ("torch.set_default_dtype(torch.float64)\ntorch.Tensor", None),
        ("torch.set_default_dtype(torch.float64)\ntorch.FloatTensor", ("torch.float32", False)),
        ("from torch import set_default_tensor_type as s\ns(torch.DoubleTensor)\ntorch.Tensor", None),
    ],
)
def test_tensor_type(text: str, expected: tuple[str, bool] | None) -> None:
    script = load(f"import torch\n{text}\n")
    found = tensor_type(script, last_value(script))
    assert (found and (found.dtype, found.cuda)) == expected


def beside(folder: Path, text: str, other: str, bounds: Bounds | None = None) -> Script:
    """A script, and another file of its folder."""
    paths = [folder / "main.py", folder / "other.py"]
    for path, each in zip(paths, (text, other), strict=True):
        path.write_text(each)
    return load(text, paths[0], Project(Files(paths), bounds=bounds or Bounds()))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("import torch\ntorch.set_default_dtype(torch.float64)\n", True),
        ("import torch\ndef f():\n    torch.set_default_device('cuda')\n", True),
        ("import torch\nprint(torch.get_default_dtype())\n", False),
    ],
)
def test_the_default_may_be_changed_by_what_is_imported(tmp_path: Path, other: str, expected: bool) -> None:
    script = beside(tmp_path, "import torch\nimport other\ntorch.Tensor\n", other)
    assert changes_default(script) is expected
    assert (tensor_type(script, last_value(script)) is None) is expected


# By case: what stands above the choice, its test, and what stands below it; whether the choice is known at the end.
CHOICES = {
    "a name": ("cuda = ask()", "cuda", "", True),
    "not a name": ("cpu = ask()", "not cpu", "", True),
    "several": ("a = b = ask()", "a and b and torch.cuda.is_available()", "", True),
    "a name that is unknown": ("", "cuda", "", False),
    "a name that is bound in a branch": ("cuda = ask()\nif t:\n    cuda = False", "cuda", "", False),
    "a name that a function binds": ("cuda = ask()\ndef f():\n    global cuda\n    cuda = 0", "cuda", "", False),
    "an attribute": ("args = parse()", "args.cuda", "", True),
    "an attribute that is stored": ("args = parse()", "args.cuda", "args.cuda = False", False),
    "an attribute that is stored by another name": ("args = parse()", "args.cuda", "a = args\na.cuda = False", False),
    "an attribute that is set": ("args = parse()", "args.cuda", "setattr(args, 'cuda', False)", False),
    "another attribute that is set": ("args = parse()", "args.cuda", "setattr(args, 'cpu', False)", True),
    "an attribute of a computed name": ("args = parse()", "args.cuda", "for n in ns:\n    setattr(args, n, 0)", False),
    "a call": ("", "torch.cuda.device_count()", "", False),
    "a comparison": ("cuda = ask()", "cuda == 1", "", False),
    "bound anew": ("cuda = ask()", "cuda", "T = make()", False),
}


@pytest.mark.parametrize("case", CHOICES)
def test_whether_the_test_may_be_evaluated_again(case: str) -> None:
    above, test, below, known = CHOICES[case]
    choice = f"T = torch.cuda.LongTensor if {test} else torch.LongTensor"
    script = load(f"import torch\n{above}\n{choice}\n{below}\nT\n")
    chosen = chosen_type(script, last_value(script))
    assert (chosen.dtype if chosen is not None else None) == ("torch.long" if known else None)


@pytest.mark.parametrize(
    ("other", "bounds", "known"),
    [
        ("def setup(args):\n    args.seed = 1\n", Bounds(), True),
        ("def setup(args):\n    args.cuda = args.cuda and works()\n", Bounds(), False),
        ("def setup(args):\n    args.seed = 1\n", Bounds(related_characters=0), False),
    ],
    ids=["stores another attribute", "stores it", "is not looked at"],
)
def test_another_file_that_may_store_the_attribute(tmp_path: Path, other: str, bounds: Bounds, known: bool) -> None:
    text = "import torch\nfrom other import setup\nargs = parse()\n"
    text += "T = torch.cuda.LongTensor if args.cuda else torch.LongTensor\nsetup(args)\nT\n"
    script = beside(tmp_path, text, other, bounds)
    assert (chosen_type(script, last_value(script)) is not None) is known
