"""What a script says of itself: names, devices, spellings, settings."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.analysis.imported_names import imported
from autoaccel.edits import AddImport

QUALIFIED = {
    "a module": ("import torch\nx = torch.zeros", "torch.zeros"),
    "another name of a module": ("import torch as th\nx = th.zeros", "torch.zeros"),
    "from a module": ("from torch import zeros\nx = zeros", "torch.zeros"),
    "a submodule": ("import torch.nn.functional as F\nx = F.relu", "torch.nn.functional.relu"),
    "the same by either import": ("if c:\n    import torch\nelse:\n    import torch\nx = torch.zeros", "torch.zeros"),
    "one of two": ("try:\n    import torch as t\nexcept ImportError:\n    import numpy as t\nx = t.zeros", None),
    "rebound": ("import torch\ntorch = fake\nx = torch.zeros", None),
    "a parameter": ("import torch\ndef f(torch):\n    x = torch.zeros", None),
    "by a star": ("from torch import *\nx = zeros", None),
    "a builtin": ("x = print", None),
    "of a call": ("import torch\nx = torch.zeros(1).to", None),
}
DEVICES = {
    "a text": ("'cuda'", True),
    "a text with a number": ("'cuda:1'", True),
    "another text": ("'float'", False),
    "a number": ("0", True),
    "a bool": ("True", False),
    "none": ("None", False),
    "made": ("torch.device('cpu')", True),
    "a name for one, of which nothing is known": ("device", True),
    "an attribute for one, of which nothing is known": ("args.device", True),
    "any name": ("other", False),
    "a dtype": ("torch.float16", False),
    "a name for one that holds a dtype": ("dtype_device", False),
}
FRAMEWORKS = {
    "none": ("import torch", set()),
    "a package": ("import pytorch_lightning as pl", {"Lightning"}),
    "of a package": ("from accelerate import Accelerator", {"Accelerate"}),
    "in a function": ("def f():\n    import deepspeed", {"DeepSpeed"}),
    "a model of a library that also trains": ("from transformers import AutoModel", set()),
    "its trainer": ("from transformers import Trainer", {"the Transformers Trainer"}),
    "a module of the project": ("from .ignite import engine", set()),
    "a name that begins so": ("import apexpredator", set()),
}
USED = {
    "a name": "accel = 1",
    "an import": "import a as accel",
    "a package": "import accel.part",
    "a parameter": "def f(accel): ...",
    "a function": "def accel(): ...",
    "an async function": "async def accel(): ...",
    "a class": "class accel: ...",
    "an attribute of the object": "self.accel = 1",
    "an exception": "try: ...\nexcept E as accel: ...",
    "a pattern": "match x:\n    case accel: ...",
    "the rest of a sequence": "match x:\n    case [1, *accel]: ...",
    "the rest of a mapping": "match x:\n    case {'a': 1, **accel}: ...",
}
SPELLED = {
    "an import": ("import torch", "torch.inference_mode", ()),
    "another name": ("import torch as th", "th.inference_mode", ()),
    "itself": ("from torch import inference_mode as im", "im", ()),
    "the shortest": ("import torch\nimport torch as t", "t.inference_mode", ()),
    "the shortest, first": ("import torch as t\nimport torch", "t.inference_mode", ()),
    "one of two": (
        "try:\n    import torch as t\nexcept ImportError:\n    import numpy as t",
        "torch.inference_mode",
        (AddImport("torch"),),
    ),
    "none": ("", "torch.inference_mode", (AddImport("torch"),)),
    "an import that may not have run": ("if c:\n    import torch as th", "torch.inference_mode", (AddImport("torch"),)),
    "an import within a function": (
        "def f():\n    import torch",
        "inference_mode",
        (AddImport("torch", "inference_mode", None),),
    ),
    "a name that is taken": ("torch = 1", "inference_mode", (AddImport("torch", "inference_mode", None),)),
    "both taken": (
        "torch = inference_mode = 1",
        "torch_inference_mode",
        (AddImport("torch", "inference_mode", "torch_inference_mode"),),
    ),
}
PLAIN = {
    "a builtin": ("print(1)", "print", True),
    "a builtin that is defined anew": ("def print(x): ...\nprint(1)", "print", False),
    "of a library": ("import torch\ntorch.zeros(1)", "zeros", True),
    "of a library, and of an object": ("import torch\ntorch.zeros(1)\nx.zeros(1)", "zeros", False),
    "of an object": ("x.run(1)", "run", False),
    "a function": ("def f(): ...\nf()", "f", False),
    "never called": ("print", "print", False),
}


def last_value(script: Script) -> ast.expr:
    *_, statement = script.find(ast.Assign)
    return statement.value


@pytest.mark.parametrize("case", QUALIFIED)
def test_qualified_names(case: str) -> None:
    text, expected = QUALIFIED[case]
    script = load(text + "\n")
    assert script.qualname(last_value(script)) == expected


@pytest.mark.parametrize("case", DEVICES)
def test_devices(case: str) -> None:
    expression, expected = DEVICES[case]
    script = load(f"import torch\ndtype_device = torch.float16\nx = {expression}\n")
    assert script.is_device(last_value(script)) == expected


@pytest.mark.parametrize("case", FRAMEWORKS)
def test_frameworks(case: str) -> None:
    text, expected = FRAMEWORKS[case]
    assert load(text + "\n").frameworks == expected


@pytest.mark.parametrize("case", USED)
def test_names_that_are_taken(case: str) -> None:
    script = load(USED[case] + "\n")
    assert script.free_name("accel", "runtime") == "runtime"
    assert script.free_name("accel") == "accel2"


@pytest.mark.parametrize("text", ["f(accel=1)", "x.accel", "'accel'", "# accel"])
def test_names_that_are_free(text: str) -> None:
    assert load(text + "\n").free_name("accel", "runtime") == "accel"


@pytest.mark.parametrize("case", SPELLED)
def test_spelling(case: str) -> None:
    text, *expected = SPELLED[case]
    assert [*load(text + "\n").spell("torch.inference_mode")] == expected


def test_spelling_beside_what_is_written() -> None:
    script = load("def f():\n    import torch as th\n    x = th.zeros(1)\n")
    (call,) = script.find(ast.Call)
    assert script.spell("torch.ones", call.func) == ("th.ones", ())
    assert script.spell("numpy.ones", call.func) == ("numpy.ones", (AddImport("numpy"),))


@pytest.mark.parametrize("case", PLAIN)
def test_plain_callees(case: str) -> None:
    text, name, expected = PLAIN[case]
    assert (name in load(text + "\n").plain_callees) == expected


@pytest.mark.parametrize(
    ("text", "name", "imports"),
    [
        ("import torch\n", "accel", 1),
        ("from autoaccel import runtime as acc\n", "acc", 0),
        ("import autoaccel_runtime as rt\n", "rt", 0),
        ("accel = 1\n", "autoaccel_runtime", 1),
        ("def f():\n    from autoaccel import runtime as acc\n", "accel", 1),
        ("from autoaccel import runtime as acc\nacc = None\n", "accel", 1),
        ("from autoaccel import runtime as acc\ndel acc\n", "accel", 1),
        ("if TYPE_CHECKING:\n    from autoaccel import runtime as acc\n", "accel", 1),
        ("if TYPE_CHECKING:\n    from autoaccel import runtime as accel\n", "autoaccel_runtime", 1),
    ],
)
def test_the_name_of_the_runtime(text: str, name: str, imports: int) -> None:
    script = load(text)
    assert (script.accel, len(script.import_runtime)) == (name, imports)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("accel.autocast", "autocast"), ("accel.amp.off", "amp.off"), ("torch.autocast", None), ("accel", None)],
)
def test_functions_of_the_runtime(expression: str, expected: str | None) -> None:
    script = load(f"import torch\nfrom autoaccel import runtime as accel\nx = {expression}\n")
    assert script.runtime_name(last_value(script)) == expected


def test_calls_of_the_runtime() -> None:
    text = "from autoaccel import runtime as accel\nimport autoaccel_runtime as rt\n"
    script = load(text + "accel.total()\naccel.amp.total()\ntotal()\nrt.total()\naccel.total\n")
    assert [call.lineno for call in script.runtime_calls("total")] == [3, 6]
    assert not [*script.runtime_calls("compile")]


def test_names_with_qualified_names() -> None:
    script = load("import torch as th\nfrom torch import nn\nnn.Linear\nx.y\ndef f(th): th.zeros\nth.ones\n")
    assert [(each.lineno, name) for each, name in script.qualified_names] == [(3, "torch.nn"), (6, "torch")]
    assert [name for _, name in script.qualified_attributes] == ["torch.nn.Linear", "torch.ones"]


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("x = 'a', 'b', \"c\"", "'"),
        ('x = "a", \'b\', "c"', '"'),
        ("x = 1", '"'),
        ("'''a'''\nx = \"b\"", '"'),
        ("x = r'a', b'b', \"c\"", "'"),
    ],
)
def test_quotes(text: str, quote: str) -> None:
    assert load(text + "\n").quote == quote


def test_calls_by_their_names() -> None:
    script = load("import torch as t\nfrom torch import ones\nt.ones(1)\nx.ones(2)\nones(3)\nt.zeros(4)\n")
    assert [script.source(each) for each in script.calls("torch.ones")] == ["t.ones(1)", "ones(3)"]
    assert [script.source(each) for each in script.calls("torch.zeros", "torch.ones")] == [
        "t.ones(1)",
        "ones(3)",
        "t.zeros(4)",
    ]
    assert [*script.calls("torch.full")] == []


CLASSES = "import torch\nclass N(torch.nn.Module):\n    def __init__(self): ...\n    def forward(self, x): ...\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("def f(x): ...\nf(1)", ["f"], id="a function"),
        pytest.param("def f(x): ...\ndef g(x): ...\nh = f if c else g\nh(1)", ["f", "g"], id="one of two"),
        pytest.param(CLASSES + "N()", ["__init__"], id="a class"),
        pytest.param(CLASSES + "n = N()\nn(1)", ["forward"], id="a module"),
        pytest.param(CLASSES + "class M(N): ...\nM()", ["__init__"], id="a class that derives"),
        pytest.param("class T:\n    def __call__(self): ...\nt = T()\nt()", ["__call__"], id="an object"),
        pytest.param("print(1)", [], id="a builtin"),
        pytest.param("unknown(1)", [], id="nothing in sight"),
    ],
)
def test_callees(text: str, expected: list[str]) -> None:
    script = load(text + "\n")
    *_, statement = script.find(ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert [function.name for _, function in script.callees(statement.value)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b, c as d", ["a.b", "c"]),
        ("from a.b import c as d, e", ["a.b.c", "a.b.e"]),
        ("def f():\n    import a", ["a"]),
        ("from . import a\nfrom .b import c", []),
        ("from a import *", ["a.*"]),
    ],
)
def test_imported_names(text: str, expected: list[str]) -> None:
    assert [*imported(load(text + "\n"))] == expected
