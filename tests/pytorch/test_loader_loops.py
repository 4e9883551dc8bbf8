"""Loops over loaders and the moves of their batches."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_loops import loader_loops, transfers

HEAD = """\
import itertools
import torch
from torch.autograd import Variable
from torch.utils.data import DataLoader
from tqdm import tqdm
from autoaccel import runtime as accel
device = torch.device("cuda")
a = DataLoader([])
b = DataLoader([])
"""


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param("for x, y in a:\n    pass\n", [("a", "(x, y)")], id="plain"),
        pytest.param("for i, (x, y) in enumerate(a, 1):\n    pass\n", [("a", "(x, y)")], id="enumerate"),
        pytest.param(
            "for i, data in tqdm(enumerate(a), total=len(a)):\n    pass\n", [("a", "data")], id="tqdm of enumerate"
        ),
        pytest.param("bar = tqdm(a)\nfor data in bar:\n    pass\n", [("a", "data")], id="a named progress bar"),
        pytest.param("total, bar = 0, tqdm(a)\nfor data in bar:\n    pass\n", [("a", "data")], id="a bar and a sum"),
        pytest.param("total, bar = make(0, tqdm(a))\nfor data in bar:\n    pass\n", [], id="a part of a result"),
        pytest.param("*total, bar = *a, tqdm(a)\nfor data in bar:\n    pass\n", [], id="beside a rest"),
        pytest.param("for (x, _), (y, _) in zip(a, b):\n    pass\n", [("a", "(x, _)"), ("b", "(y, _)")], id="zip"),
        pytest.param("for x in itertools.islice(a, 3):\n    pass\n", [("a", "x")], id="islice"),
        pytest.param("for x in range(3):\n    pass\n", [], id="range"),
        pytest.param("for x in unknown:\n    pass\n", [], id="unknown"),
    ],
)
def test_loops(loop: str, expected: list[tuple[str, str]]) -> None:
    script = load(HEAD + loop)
    assert [(script.source(each.loader), script.source(each.target).strip()) for each in loader_loops(script)] in (
        expected,
        [(loader, target.strip("()")) for loader, target in expected],
    )
    assert not any(each.prefetched for each in loader_loops(script))


@pytest.mark.parametrize("header", ["accel.prefetch(a, device)", "accel.prefetch(a, move=())", "accel.in_memory(a)"])
def test_prefetched(header: str) -> None:
    script = load(HEAD + f"for x in {header}:\n    pass\n")
    assert [(script.source(each.loader), each.prefetched) for each in loader_loops(script)] == [("a", True)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("x = data.to(device)", [("to", (), None)], id="whole"),
        pytest.param(
            "x, y = data[0].to(device), data[1].cuda()", [("to", (0,), None), ("cuda", (1,), None)], id="elements"
        ),
        pytest.param("x, y = data\n    x = x.to(device)", [("to", (0,), None)], id="unpacked in the body"),
        pytest.param("x = data['ids'].to(device)", [("to", ("ids",), None)], id="key"),
        pytest.param("x = data[0].view(-1, 784).to(device)", [("to", (0,), "view")], id="view"),
        pytest.param("x = data[0].float().to(device)", [("to", (0,), "copy")], id="converted on the host"),
        pytest.param("d = {k: v.to(device) for k, v in data.items()}", [("to", ("*",), None)], id="dict comprehension"),
        pytest.param("d = [t.to(device) for t in data]", [("to", ("*",), None)], id="list comprehension"),
        pytest.param("x = Variable(data[0].cuda())", [("cuda", (0,), None)], id="Variable"),
        pytest.param("x = Variable(data[0]).cuda()", [("cuda", (0,), None)], id="Variable moved"),
        pytest.param("x = data[0].to(torch.float16)", [], id="a conversion is no move"),
        pytest.param("x = data[0].to(dtype=torch.float16)", [], id="a conversion by keyword"),
        pytest.param("x = data[0].to(b.dtype)", [], id="a conversion to the dtype of another"),
        pytest.param("x = data[0].to(weight_dtype)", [], id="a conversion to a named dtype"),
        pytest.param("x = data[0].to(dtype=dtype, device=device)", [("to", (0,), None)], id="moved and converted"),
        pytest.param("x = data[0].to(a.device)", [("to", (0,), None)], id="to where another is"),
        pytest.param("x = data[0].to(device)\n    x = x.to(device)", [("to", (0,), None)], id="moved once"),
    ],
)
def test_transfers(body: str, expected: list[tuple[str, tuple[object, ...], str | None]]) -> None:
    script = load(HEAD + f"for data in a:\n    {body}\n")
    assert [(each.method, each.path, each.derived) for each in transfers(script)] == expected
    assert all(each.site is loader_loops(script)[0].node for each in transfers(script))


def test_transfer_in_a_helper() -> None:
    script = load(HEAD + "def step(x):\n    return x.to(device)\nfor x, y in a:\n    step(x)\n")
    assert [(each.path, each.site is loader_loops(script)[0].node) for each in transfers(script)] == [((0,), True)]
