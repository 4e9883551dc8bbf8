"""Parameters: by their annotation, as `self`, from call sites, by their use; unknown wherever these disagree."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Kind, load
from tests.analysis.test_value_inference import HEAD, kind_at_end, name_kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("def f(o):\n    o.zero_grad()\n    o.step()\n    o\n", Kind.OPTIMIZER, id="by use"),
        pytest.param("def f(m: nn.Module):\n    m\n", Kind.MODULE, id="annotation"),
        pytest.param("def f(m: 'nn.Module | None' = None):\n    m\n", Kind.MODULE, id="annotation in a string"),
        pytest.param(
            "from typing import Optional\ndef f(m: Optional[Net] = None):\n    m\n", Kind.MODULE, id="optional"
        ),
        pytest.param("def f(m: '(' = 1):\n    m\n", Kind.NUMBER, id="an annotation that is none"),
        pytest.param("def f(m=1):\n    m\n", Kind.NUMBER, id="a default alone"),
        pytest.param("def f(m):\n    m\n", None, id="nothing is known"),
        pytest.param("def f(*m):\n    m\n", Kind.SEQUENCE, id="all others"),
        pytest.param("def f(**m):\n    m\n", Kind.MAPPING, id="all others by name"),
        pytest.param("class A:\n    def f(self):\n        self\n", Kind.OBJECT, id="self"),
        pytest.param("class A:\n    @classmethod\n    def f(cls):\n        cls\n", Kind.CLASS, id="a class method"),
        pytest.param("class A:\n    @staticmethod\n    def f(m):\n        m\n", None, id="a static method"),
    ],
)
def test_without_call_sites(text: str, kind: Kind | None) -> None:
    assert kind_at_end(text) == kind


def test_parameters_from_call_sites() -> None:
    script = load(HEAD + "def f(m, o=None):\n    m(o)\nf(Net(), o=torch.zeros(1))\n")
    line = HEAD.count("\n") + 2
    assert name_kind(script, "m", line) is Kind.MODULE
    assert name_kind(script, "o", line) is Kind.TENSOR


def test_call_sites_that_disagree_prove_nothing() -> None:
    script = load(HEAD + "def f(m):\n    m\nf(Net())\nf(3)\n")
    assert name_kind(script, "m", HEAD.count("\n") + 2) is None


@pytest.mark.parametrize(
    ("given", "lines"),
    [("Net()", {4}), ("Net() if debug else None", {4}), ("None", {None}), ("Net() if debug else unknown()", {None})],
)
def test_an_annotated_parameter_is_what_is_passed_if_anything(given: str, lines: set[int | None]) -> None:
    script = load(f"from torch import nn\nclass Net(nn.Module): ...\ndef f(m: nn.Module = None): m\nf({given})\n")
    (use,) = (each for each in script.find(ast.Name) if each.id == "m")
    assert {value.node and value.node.lineno for value in script.values(use)} == lines  # type: ignore[attr-defined]


def test_what_map_passes() -> None:
    script = load(HEAD + "map(lambda m: m, [Net()])\n")
    assert name_kind(script, "m", HEAD.count("\n") + 1) is Kind.MODULE


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        pytest.param("def f(m=3):\n    m\nf()\n", {Kind.NUMBER}, id="every call in sight leaves its default"),
        pytest.param("def f(m=3):\n    m\n", {Kind.NUMBER}, id="nobody calls it"),
        pytest.param("def f(m=3):\n    m\nrun(f)\n", {Kind.NUMBER, Kind.UNKNOWN}, id="handed to unknown code"),
        pytest.param("@main\ndef f(m=3):\n    m\n", {Kind.NUMBER, Kind.UNKNOWN}, id="decorated by unknown code"),
        pytest.param("def f(m=3):\n    m\nf(**options)\n", {Kind.NUMBER, Kind.UNKNOWN}, id="a call that unpacks"),
        pytest.param("def f(m=3):\n    m\nf(1, **options)\n", {Kind.NUMBER}, id="a call that gives it and unpacks"),
    ],
)
def test_defaults(text: str, kinds: set[Kind]) -> None:
    script = load(HEAD + text)
    (use,) = (node for node in ast.walk(script.tree) if isinstance(node, ast.Name) and node.id == "m")
    assert script.inference.possible(use).kinds == kinds


KEYWORDS = "class Net(nn.Module): ...\ndef f(a, **more):\n    {body}\n    return more['net']\n{calls}\n"


@pytest.mark.parametrize(
    ("body", "calls", "kinds"),
    [
        ("pass", "f(1, net=Net())", {Kind.MODULE}),
        ("g(**more)", "f(a=1, net=Net(), n=2)\nf(2, net=None)", {Kind.MODULE, Kind.NONE}),
        ("pass", "f(1, other=Net())", {Kind.UNKNOWN}),
        ("pass", "f(1, **options)", {Kind.UNKNOWN}),
        ("more.update(x)", "f(1, net=Net())", {Kind.UNKNOWN}),
        ("more['net'] = x", "f(1, net=Net())", {Kind.UNKNOWN}),
        ("keep(more)", "f(1, net=Net())", {Kind.UNKNOWN}),
        ("pass", "f(1, net=Net())\nhand_on(f)", {Kind.UNKNOWN}),
        ("pass", "f(1, net=Net())\nthreading.Thread(target=f, kwargs=options).start()", {Kind.UNKNOWN}),
    ],
)
def test_keyword_arguments(body: str, calls: str, kinds: set[Kind]) -> None:
    script = load("import threading\nfrom torch import nn\n" + KEYWORDS.format(body=body, calls=calls))
    (given,) = (each for each in script.find(ast.Subscript) if isinstance(script.parent(each), ast.Return))
    assert script.values(given).kinds == kinds
