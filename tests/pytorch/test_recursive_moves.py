"""Helpers that call themselves for what containers hold."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_loops import transfers
from autoaccel.pytorch.recursive_moves import looked_into, parameter

HEAD = """\
from collections.abc import Mapping, Sequence
import torch
from torch.utils.data import DataLoader
device = torch.device("cuda")
loader = DataLoader([(1, 2)])
"""
TAIL = "for batch in loader:\n    batch = move(batch, device)\n"
ALL = ("dict", "list", "tuple")
DICT = "if isinstance(x, dict):\n        return {k: move(v, d) for k, v in x.items()}"
TENSOR = "return x.to(d)"


def into(*lines: str, head: str = "def move(x, d):") -> tuple[str, ...]:
    script = load(HEAD + f"{head}\n" + "".join(f"    {line}\n" for line in lines) + TAIL)
    (moved,) = [each for each in transfers(script) if script.source(each.call).startswith("x.to")]
    assert parameter(script, moved) == "x"
    return looked_into(script, moved)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([DICT, TENSOR], ("dict",)),
        (["if isinstance(x, (list, tuple)):", "    return [move(e, d) for e in x]", TENSOR], ("list", "tuple")),
        (["if isinstance(x, list):", "    return type(x)(move(e, d) for e in x)", TENSOR], ("list",)),
        (["if torch.is_tensor(x):", f"    {TENSOR}", DICT, "return x"], ("dict",)),
        (["if hasattr(x, 'to'):", f"    {TENSOR}", DICT, "return x"], ("dict",)),
        (["if isinstance(x, Mapping):", "    return dict((k, move(v, d)) for k, v in x.items())", TENSOR], ("dict",)),
        (["if isinstance(x, Sequence):", "    return tuple(move(v, d) for v in x)", TENSOR], ("list", "tuple")),
        (["if type(x) in (list, set):", "    return [move(v, d) for v in x]", TENSOR], ("list",)),
        (["if x is None:", "    return None", DICT, TENSOR], ("dict",)),
        (["if isinstance(x, (str, int)):", "    return x", DICT, TENSOR], ("dict",)),
        (
            ["if isinstance(x, dict):", "    for k in x:", "        x[k] = move(x[k], d)", "    return x", TENSOR],
            ("dict",),
        ),
        (
            ["if not isinstance(x, list):", f"    {TENSOR}", "o = []", "for e in x:", "    o.append(move(e, d))"],
            ("list",),
        ),
        (["if isinstance(x, list):", "    return [move(e, d=d) for i, e in enumerate(x)]", TENSOR], ("list",)),
        ([DICT, "x = x.to(d)", "return x"], ("dict",)),
        ([DICT, "return x.to(d) if torch.is_tensor(x) else x"], ("dict",)),
        # containers of which a part is left
        (["if isinstance(x, dict):", "    return {k: move(v, d) for k, v in x.items() if k != 'n'}", TENSOR], ()),
        (["if isinstance(x, dict):", "    return {k: v if k else move(v, d) for k, v in x.items()}", TENSOR], ()),
        (["if isinstance(x, list):", "    return (move(e, d) for e in x)", TENSOR], ()),
        (["if isinstance(x, list):", "    return next(move(e, d) for e in x)", TENSOR], ()),
        (["if isinstance(x, list):", "    return [move(e, d) for e in x[1:]]", TENSOR], ()),
        (["if isinstance(x, dict):", "    return [move(k, d) for k in x]", TENSOR], ()),
        (["if isinstance(x, dict) and len(x) > 2:", "    return [move(v, d) for v in x.values()]", TENSOR], ()),
        # what is not a tensor to it may be one
        ([DICT, "if x.dim():", f"    {TENSOR}", "return x"], ()),
        ([DICT, "if isinstance(x, torch.FloatTensor):", f"    {TENSOR}", "return x"], ()),
        ([DICT, "try:", f"    {TENSOR}", "except AttributeError:", "    return x"], ()),
        # another device for what lies further down
        (["if isinstance(x, dict):", "    return {k: move(v, 'cpu') for k, v in x.items()}", TENSOR], ()),
        (["d = d or 'cpu'", DICT, TENSOR], ()),
    ],
)
def test_looked_into(lines: list[str], expected: tuple[str, ...]) -> None:
    assert into(*lines) == expected


def test_a_default_is_not_the_device_that_was_given() -> None:
    head = "def move(x, d='cpu'):"
    assert into("if isinstance(x, dict):", "    return {k: move(v) for k, v in x.items()}", TENSOR, head=head) == ()


def test_what_a_decorator_does_is_not_known() -> None:
    assert into(DICT, TENSOR, head="@torch.no_grad()\ndef move(x, d):") == ()


def test_no_function_that_calls_itself() -> None:
    script = load(HEAD + f"def move(x, d):\n    {TENSOR}\n" + TAIL)
    (moved,) = transfers(script)
    assert parameter(script, moved) is None
    assert looked_into(script, moved) == ()


def test_every_depth_is_one_of_few_parts() -> None:
    """What calls itself for the elements of what it got comes to an end, and nothing of it is unknown."""
    script = load(HEAD + f"def move(x, d):\n    {DICT}\n    {TENSOR}\n" + TAIL)
    (moved,) = transfers(script)
    assert moved.paths == {(), ("*",), ("*", "*")}
