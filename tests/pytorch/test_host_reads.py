"""Where Python itself reads what is in a tensor: surely, or not."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch import host_reads

HEAD = "import torch\nx = torch.randn(3, 4)\ny = torch.zeros(3)\nweight = torch.nn.Parameter(y)\n"

# By case: a line, and the tensors whose values it asks for.
READS = {
    "a test": ("if x.any():\n    pass", ["x.any()"]),
    "a comparison": ("if x.sum() > 3:\n    pass", ["x.sum() > 3"]),
    "a comparison of what was kept": ("big = x.sum() > 3\nwhile big:\n    break", ["big"]),
    "one of two tests": ("if known or x.all():\n    pass", ["x.all()"]),
    "the first of two values": ("z = x.any() or y", ["x.any()"]),
    "a choice": ("z = 1 if torch.equal(x, y) else 2", ["torch.equal(x, y)"]),
    "a negation": ("z = not x.isnan().any()", ["x.isnan().any()"]),
    "an assertion": ("assert (x > 0).all()", ["(x > 0).all()"]),
    "a condition of a comprehension": ("z = [r for r in x if r.sum() > 0]", ["r.sum() > 0"]),
    "a conversion": ("z = int(x.sum())", ["x.sum()"]),
    "a conversion of a parameter": ("z = float(weight)", ["weight"]),
    "a conversion of their own": ("def int(x):\n    return 1\nz = int(x.sum())", []),
    "sizes": ("if x.shape[0] > 3 or x.dim() == 2 or x.numel() or len(x):\n    pass", []),
    "kinds": ("if x.is_contiguous() or torch.is_tensor(x) or x.dtype == torch.float or x.is_cuda:\n    pass", []),
    "whether there is one": ("if x is None or x is not None or x == None or missing is x:\n    pass", []),
    "what was asked before": ("missing = x is None\nif missing:\n    pass", []),
    "where it lies": ("if x.get_device() >= 0:\n    pass", []),
    "read by a method that says so": ("if x.sum().item() > 3:\n    pass", []),
    "what may be anything": ("def f(z):\n    if z:\n        return int(z)", []),
    "reduced, of what may be anything": ("def f(z):\n    if z.any():\n        return int(z)", ["z.any()"]),
    "a size made of such": ("def f(z):\n    n = z.long().max() + 1\n    return y[:n]", ["n"]),
    "a size that goes round": ("def f(z, n):\n    while c:\n        n = n + 1\n    return y[:n]", []),
    "a text": ("z = float('1.5')", []),
    "whether it is in there": ("z = 7.0 in x", ["x"]),
    "whether it is none of these": ("z = x.sum() not in (1, 2)", ["x.sum()"]),
    "whether a name is in there": ("z = 'x' in {'x': x}", []),
    "between two others": ("z = 0 < x.sum() < 3", ["x.sum()"]),
    "a formatted text": ("z = f'{x.mean():.1f} of {x.shape}'", ["x.mean()"]),
    "a text with places": ("z = 'mean %.1f' % x.mean()\nz = '{}'.format(x)", ["x.mean()", "x"]),
    "the text of an error": ("if len(x) > 3:\n    raise ValueError(f'{x} is too long')", []),
    "a range": ("z = range(x.sum())", ["x.sum()"]),
    "a slice": ("z = x[: y.sum()]", ["y.sum()"]),
    "a slice of sizes": ("z = x[: y.numel(), 1 : x.size(1)]", []),
    "a shape": ("z = torch.zeros(3, y.max(), device=x.device)", ["y.max()"]),
    "a part of a shape": ("z = x.view((y.max(), -1))", ["y.max()"]),
    "a shape of sizes": ("z = torch.zeros(x.shape[0], 3, out=y).view(-1, x.size(0)).expand(x.shape)", []),
    "how far it is filled up": ("z = torch.nn.functional.pad(x, (0, y.max()))", ["y.max()"]),
    "how many classes": ("z = torch.nn.functional.one_hot(y, y.max() + 1)", ["y.max() + 1"]),
    "which of a list": ("z = [1, 2][y.argmax()]", ["y.argmax()"]),
    "which row": ("z = x[y.argmax()]", []),
    "a function of numbers": ("import math\nz = math.log(x.sum())\nz = math.log(x.numel())", ["x.sum()"]),
    "the greater one": ("z = max(x.sum(), y.sum())", ["x.sum()"]),
    "a method of their own": ("class A:\n    def split(self, x):\n        return x\nz = A().split(x)", []),
    "the greater number": ("z = max(1, x.size(0))", []),
}


@pytest.mark.parametrize(("text", "expected"), READS.values(), ids=READS)
def test_what_is_read(text: str, expected: list[str]) -> None:
    script = load(HEAD + text + "\n")
    reads = (host_reads.read_by(script, node) for node in ast.walk(script.tree))
    assert [script.source(each) for each in reads if each is not None] == expected


@pytest.mark.parametrize(("text", "expected"), READS.values(), ids=READS)
def test_all_that_reads_is_listed(text: str, expected: list[str]) -> None:
    script = load(HEAD + text + "\n")
    reading = [node for node in ast.walk(script.tree) if host_reads.read_by(script, node) is not None]
    assert len(reading) == len(expected)
    assert all(isinstance(each, host_reads.READING) for each in reading)


# By case: an expression, and whether it is taken for one of elements that a mask chooses.
MASKS = {
    "a comparison": ("x[x > 0]", True),
    "among other indices": ("x[0, x[0] > 0]", True),
    "both of two": ("x[(x > 0) & (x < 1)]", True),
    "the others": ("x[~x.isnan()]", True),
    "converted": ("x[y.bool()]", True),
    "made as one": ("x[torch.tensor([True, False, True], dtype=torch.bool)]", True),
    "whole numbers": ("x[y.long()]", False),
    "negative whole numbers": ("x[~y.long()]", False),
    "a slice": ("x[1:, None]", False),
    "a list": ("[x, y][x > 0]", False),
    "what may be anything": ("x[unknown]", False),
    "a comparison of what may be anything": ("x[unknown > 0]", True),
    "a comparison of plain numbers": ("x[len(x) > 0]", False),
    "of what may be anything": ("unknown[x > 0]", True),
    "moved and laid out anew": ("x[(torch.arange(3) < 2).to('cuda').view(-1)]", True),
    "made into whole numbers": ("x[(y > 0).to(torch.long)]", False),
    "made of an array": ("x[torch.from_numpy(array > 0)]", True),
    "any of a row": ("x[(x > 0).any(1)]", True),
    "made of zeros and ones": ("x[torch.zeros(3, dtype=torch.bool)]", True),
    "made of zeros": ("x[torch.zeros(3, dtype=torch.long)]", False),
    "what may be anything, by its name": ("x[data.train_mask]", True),
    "the others of these": ("x[~unknown_mask]", True),
}

# By case: an expression, whether its shape depends on values, and whether the host waits for something else.
WAITS = {
    "indices": ("x.nonzero()", True, False),
    "indices by a function": ("torch.argwhere(x)", True, False),
    "indices by a condition": ("torch.where(x > 0)", True, False),
    "one of two": ("torch.where(x > 0, x, y)", False, False),
    "one of two by names": ("torch.where(x > 0, input=x, other=y)", False, False),
    "what is not seen": ("torch.where(*both)", True, False),
    "counts": ("y.long().bincount(minlength=3)", True, False),
    "classes that are not told": ("torch.nn.functional.one_hot(y)", True, False),
    "classes to be found": ("torch.nn.functional.one_hot(y, num_classes=-1)", True, False),
    "classes": ("torch.nn.functional.one_hot(y, 10)", False, False),
    "repeated as often as told": ("x.repeat_interleave(y.long(), dim=0)", True, False),
    "repeated by a function": ("torch.repeat_interleave(x, unknown, 0)", True, False),
    "repeated to a size": ("x.repeat_interleave(y.long(), dim=0, output_size=8)", False, False),
    "repeated": ("x.repeat_interleave(3, dim=0)", False, False),
    "repeated by a size": ("torch.repeat_interleave(x, x.size(0), dim=0)", False, False),
    "a histogram": ("torch.histc(x, 10)", False, True),
    "a histogram of a range": ("x.histc(10, min=0, max=1)", False, False),
    "an inverse": ("torch.linalg.inv(x)", False, True),
    "an inverse by a method": ("x.inverse()", False, True),
    "an inverse and how it went": ("torch.linalg.inv_ex(x)", False, False),
    "a determinant": ("torch.linalg.slogdet(x)", False, False),
    "a norm": ("torch.linalg.norm(x, 2)", False, False),
    "a norm of singular values": ("x.norm(p='nuc')", False, True),
    "whether they are equal": ("torch.equal(x, y)", False, True),
    "which are equal": ("torch.eq(x, y)", False, False),
    "a distribution": ("torch.distributions.Normal(x, 1.0)", False, True),
    "a distribution that checks nothing": ("torch.distributions.Normal(x, 1.0, validate_args=False)", False, False),
    "a divergence": ("torch.distributions.kl_divergence(first, second)", False, False),
    "a method of their own": ("Flow().inverse(x)", False, False),
}


@pytest.mark.parametrize(("text", "shaped", "checked"), WAITS.values(), ids=WAITS)
def test_operations_for_which_the_host_waits(text: str, shaped: bool, checked: bool) -> None:
    flow = "class Flow:\n    def inverse(self, x):\n        return -x\n"
    script = load(f"{HEAD}{flow}{text}\n")
    call = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert (host_reads.is_shaped_by_values(script, call), host_reads.is_checked_on_the_host(script, call)) == (
        shaped,
        checked,
    )


@pytest.mark.parametrize(("text", "expected"), MASKS.values(), ids=MASKS)
def test_masks(text: str, expected: bool) -> None:
    script = load(HEAD + text + "\n")
    subscript = script.tree.body[-1].value  # type: ignore[attr-defined]
    assert host_reads.masks(script, subscript) is expected
