"""What loops do with the parts of their batches."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch import batches, host_writes
from autoaccel.pytorch.loader_loops import loader_loops, transfers
from autoaccel_codemods.prefetch.batch_reads import BatchReads
from autoaccel_codemods.prefetch.moved_parts import Reach, reach

HEAD = """\
import torch
from torch.utils.data import DataLoader
device = torch.device("cuda")
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
loader = DataLoader([(1, 2)])
"""


def looped(target: str, *lines: str) -> Script:
    return load(HEAD + f"for {target} in loader:\n" + "".join(f"    {line}\n" for line in lines))


@pytest.mark.parametrize(
    ("target", "lines", "kept"),
    [
        ("x, y", ["x = x.to(device)"], set()),
        ("x, y", ["x = x.to(device)", "print(y)"], {(1,)}),
        ("x, y", ["a = x.to(device)", "print(x.shape, len(x), x.size(0))"], set()),
        ("x, y", ["a = x.view(-1).float().to(device)"], set()),
        ("x, y", ["a = (x / 2).to(device)"], {(0,)}),
        ("x, y", ["a = x.to(device)", "f(x.numpy())"], {(0,)}),
        ("b", ["x, y = b", "x, y = x.to(device), y.to(device)"], set()),
        ("b", ["x = b['x'].to(device)", "f(b['y'])"], {("y",)}),
        ("b", ["b = {k: v.to(device) for k, v in b.items()}", "f(b)"], set()),
        ("b", ["b['x'] = b['x'].to(device)", "f(b['x'])"], set()),
        ("b", ["f(b)", "x = b[0].to(device)"], {()}),
        ("b", ["for k in b: b[k] = b[k].to(device)", "f(b, b['x'])"], set()),
        ("b", ["for k, v in b.items(): b[k] = v.to(device)", "f(b, b['x'])"], set()),
        ("b", ["f(b['x'])", "for k in b: b[k] = b[k].to(device)"], {("x",)}),
        ("b", ["for k in b: o[k] = b[k].to(device)", "f(b['x'])"], {("x",)}),
        ("b", ["for k in names: b[k] = b[k].to(device)", "f(b['x'])"], {("x",)}),
        ("b", ["for k in b.keys():", "    if k == 'x': continue", "    b[k] = b[k].to(device)", "f(b['x'])"], {("x",)}),
        ("b", ["for k, v in b.items(): f(v); b[k] = v.to(device)"], {("*",)}),
        ("b", ["for k in b: w = table[k]; b[k] = b[k].to(device)"], set()),
        ("b", ["for k in b: w = table[k]; o = b[0].to(device)"], {("*",)}),
        ("b", ["for k in b:", "    if len(k): b[k] = b[k].to(device)", "f(b['x'])"], {("x",)}),
        ("x", ["if flag:", "    x = x.cuda()", "f(x)"], set()),
    ],
)
def test_reads_on_the_host(target: str, lines: list[str], kept: set[tuple[object, ...]]) -> None:
    script = looped(target, *lines)
    (loop,) = loader_loops(script)
    assert {read.path for read in BatchReads(script, loop).reads if read.transfer is None} == kept


MOVES = "def move(b):\n    for k in b: b[k] = b[k].to(device)\n"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["move(b)", "f(b['x'])"], set()),
        (["f(b['x'])", "move(b)"], {("x",)}),
        (["if flag: move(b)", "f(b['x'])"], {("x",)}),
        (["again(b)", "f(b['x'])"], set()),
        (["move(b)", "reads(b)"], set()),
        (["reads(b)", "move(b)"], {("x",)}),
        (["move(b)", "reads(b)", "reads(b)"], set()),
        (["reads(b)", "move(b)", "reads(b)"], {("x",)}),
    ],
)
def test_reads_after_a_helper_has_replaced_all(lines: list[str], kept: set[tuple[object, ...]]) -> None:
    others = {"again(b)": "def again(b):\n    move(b)\n", "reads(b)": "def reads(b):\n    f(b['x'])\n"}
    called = "".join(text for call, text in others.items() if call in lines)
    script = load(HEAD + MOVES + called + "for b in loader:\n" + "".join(f"    {line}\n" for line in lines))
    (loop,) = loader_loops(script)
    assert {read.path for read in BatchReads(script, loop).reads if read.transfer is None} == kept


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("b = {k: v.to(device) for k, v in b.items()}", Reach.ALL),
        ("b = {k: v.to(device) if torch.is_tensor(v) else v for k, v in b.items()}", Reach.TENSORS),
        ("b = {k: v.to(device) for k, v in b.items() if isinstance(v, torch.Tensor)}", Reach.TENSORS),
        ("b = [{k: v.to(device) if torch.is_tensor(v) else v for k, v in t.items()} for t in b]", Reach.SOME),
        ("x = b[0].to(device) if torch.is_tensor(b[0]) else b[0]", Reach.TENSORS),
        ("for k in b:\n        if torch.is_tensor(b[k]): b[k] = b[k].to(device)", Reach.TENSORS),
        ("for k in b:\n        if not torch.is_tensor(b[k]): continue\n        b[k] = b[k].to(device)", Reach.TENSORS),
    ],
)
def test_reach(line: str, expected: Reach) -> None:
    (moved,) = transfers(looped("b", line))
    assert reach(moved) is expected


def test_reads_after_the_loop_count() -> None:
    script = load(HEAD + "for x, y in loader:\n    a = x.to(device)\nprint(x)\n")
    (loop,) = loader_loops(script)
    assert [read.path for read in BatchReads(script, loop).reads if read.transfer is None] == [(0,)]


@pytest.mark.parametrize(
    ("move", "text", "accelerates"),
    [
        ("x.to(device)", "device", True),
        ("x.cuda()", '"cuda"', True),
        ("x.cuda(args.gpu)", "args.gpu", True),
        ('x.to("cpu")', '"cpu"', False),
        ('x.to(torch.device("mps"))', 'torch.device("mps")', False),
        ("x.to(next(net.parameters()).device)", None, True),
        ("x.type(Tensor)", '"cuda" if torch.cuda.is_available() else "cpu"', True),
        ("x.type(torch.float32)", None, False),
    ],
)
def test_device_of(move: str, text: str | None, accelerates: bool) -> None:
    script = looped("x, y", move)
    (transfer,) = transfers(script)
    target = batches.device_of(script, transfer)
    assert (target.text, target.accelerates) == (text, accelerates)


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        (["a = x.to(device)", "x.add_(1)"], True),
        (["a = x.to(device)", "x[0] = 1"], True),
        (["a = x.to(device)", "x += 1"], True),
        (["x = x.to(device)", "x += 1"], False),
        (["x = x.to(device)", "x.add_(1)"], False),
        (["x.add_(1)", "a = x.to(device)"], False),
        (["a = x.to(device)", "y.add_(1)"], False),
        (["a = x.to(device)", "torch.add(x, 1, out=x)"], True),
        (["a = x.to(device)", "torch.nn.init.zeros_(x)"], True),
        (["a = x.to(device)", "n = x.numpy()[0]", "n += 1"], True),
        (["a = x.to(device)", "x.numpy().sort()"], True),
        (["a = x.to(device)", "b = x.float()", "b.add_(1)"], True),
        (["a = x.to(device)", "b = x + 1", "b.add_(1)"], False),
        (["a = x.to(device)", "x.copy_(a)"], True),
        (["x.copy_(x.to(device))"], True),
        (["x.mul_(2).to(device)"], False),
        (["for k in range(2):", "    x.add_(k)", "    a = x.to(device)"], True),
        (["for k in range(2):", "    a = x.to(device)", "y.add_(1)"], False),
        (["total = 0", "a = x.to(device)", "total += x.sum()"], False),
        (["kept = {}", "kept['x'] = x", "a = x.to(device)", "kept['x'].zero_()"], True),
        (["kept = {}", "kept['y'] = y", "a = x.to(device)", "kept['y'].zero_()"], False),
        (["a = x.to(device)", "somebody.takes(x)"], True),
        (["a = x.to(device)", "somebody.takes(y, a, len(x))"], False),
        (["a = x.to(device)", "print(x, net(a).eq(x))"], False),
    ],
)
def test_changed_after(lines: list[str], changed: bool) -> None:
    script = looped("x, y", *lines)
    (transfer,) = transfers(script)
    assert (host_writes.changed_after(script, transfer) is not None) is changed


@pytest.mark.parametrize(
    ("lines", "shared"),
    [
        (["a, b = x.to(device), x.to(device)"], False),
        (["a = x.to(device)", "b = x.to(device)", "a.add_(1)"], True),
        (["a = x.to(device)", "b = x.to(device)", "a.requires_grad_()"], True),
        (["for k in range(3):", "    a = x.to(device)", "    a += 1"], True),
        (["total += x.to(device).sum()", "more = x.to(device)"], False),
    ],
)
def test_shared_copies(lines: list[str], shared: bool) -> None:
    script = looped("x, y", *lines)
    (loop,) = loader_loops(script)
    assert bool(BatchReads(script, loop).shared_copies()) is shared


def test_reads_follow_calls_and_what_they_pass() -> None:
    helper = "def step(batch, where):\n    x, y = batch\n    return x.to(where), y\n"
    script = load(f"{HEAD}{helper}for b in loader:\n    step(b, device)\n")
    (loop,) = loader_loops(script)
    batch = BatchReads(script, loop)
    assert [(read.path, read.transfer is not None) for read in batch.reads] == [((0,), True), ((1,), False)]
    (transfer,) = transfers(script)
    assert isinstance(transfer.device, ast.Name)
    passed = batch.passed(script, transfer.device)
    assert passed is not None
    assert script.source(passed) == "device"


def test_a_call_that_cannot_be_followed_reads_the_whole_batch() -> None:
    script = looped("b", "log(b)", "x = b[0].to(device)")
    (loop,) = loader_loops(script)
    assert [read.path for read in BatchReads(script, loop).reads if read.transfer is None] == [()]


def test_a_lambda_in_map_gets_the_elements() -> None:
    script = looped("b", "x, y = map(lambda t: t.to(device), b)")
    (transfer,) = transfers(script)
    assert transfer.path == ("*",)
