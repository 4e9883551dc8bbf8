"""The one table of operations that make views: what torch does, and that nobody keeps a list of his own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from autoaccel.library_models.tensor_views import PIECES, VIEW_ATTRIBUTES, VIEW_METHODS, VIEWS

ROOT = Path(__file__).parents[2]
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "view": (4, 4),
    "reshape": (4, 4),
    "unsqueeze": (0,),
    "transpose": (0, 1),
    "permute": (1, 0, 2),
    "view_as": (torch.zeros(4, 4),),
    "reshape_as": (torch.zeros(4, 4),),
    "unflatten": (0, (2, 1)),
    "swapaxes": (0, 1),
    "swapdims": (0, 1),
    "moveaxis": (0, 1),
    "movedim": (0, 1),
    "expand": (2, 2, 4),
    "expand_as": (torch.zeros(2, 2, 4),),
    "broadcast_to": ((2, 2, 4),),
    "narrow": (0, 0, 1),
    "select": (0, 0),
    "unfold": (0, 1, 1),
    "as_strided": ((2, 2), (1, 1)),
    **dict.fromkeys(PIECES, (2,)),
    "unbind": (),
}


@pytest.mark.parametrize("name", sorted(VIEW_METHODS - {"t", "view_as_real"}))
def test_a_write_to_a_view_is_a_write_to_the_tensor(name: str) -> None:
    tensor = torch.zeros(2, 2, 4)
    view = getattr(tensor, name)(*ARGUMENTS.get(name, ()))
    assert isinstance(view, tuple) == (name in PIECES)
    (view[0] if name in PIECES else view).fill_(1) if name not in ("expand", "as_strided") else view[0, 0].fill_(1)
    assert tensor.sum() > 0


@pytest.mark.parametrize("name", sorted(VIEW_ATTRIBUTES))
def test_attributes(name: str) -> None:
    tensor = torch.zeros(2, 2, dtype=torch.complex64)
    getattr(tensor, name).fill_(1)
    assert tensor.abs().sum() > 0


def test_matrices_and_complex_numbers() -> None:
    matrix = torch.zeros(2, 2, dtype=torch.complex64)
    matrix.t()[0].fill_(1)
    torch.view_as_real(matrix)[1].fill_(1)
    assert {"t", "view_as_real"} < VIEWS
    assert matrix.abs().sum() > 3


def test_nobody_keeps_a_list_of_his_own() -> None:
    """But for the methods that `changing_calls` says to be named as if they only read, whatever they belong to; NumPy
    has its own names, and the runtime imports no tables."""
    own = ("tensor_views.py", "numpy_functions.py", "changing_calls.py")
    sources = [*(ROOT / "autoaccel").rglob("*.py"), *(ROOT / "codemods").rglob("*.py")]
    lists = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {sorted(words & VIEW_METHODS)}"
        for path in sources
        if path.name not in own and not {"runtime", "measure"} & set(path.parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.expr) and (words := _words(node)) and len(words & VIEW_METHODS) > 2
    ]
    assert lists == []


def _words(node: ast.AST) -> set[str]:
    """The names in a display of strings, or in one string that is split."""
    match node:
        case ast.Set(elts=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return {each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        case ast.Constant(value=str() as text):
            return set(text.split())
        case _:
            return set()
