"""Which tensors and arrays surely hold whole numbers: what is not known to is left out."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.whole_numbers import is_whole

HEAD = "import numpy as np\nimport torch\n"
# By case: a script; whether the argument of its last `seen(…)` surely holds whole numbers.
CASES = {
    "counted": ("seen(torch.arange(20) + 20 * 3)", True),
    "counted in steps of decimals": ("seen(torch.arange(0, 1, 0.1))", False),
    "counted in decimals": ("seen(torch.arange(20, dtype=torch.float32))", False),
    "shuffled": ("seen(torch.randperm(20)[:4])", True),
    "drawn": ("seen(torch.randint(0, 2, (4,)))", True),
    "drawn as decimals": ("seen(torch.randint(0, 2, (4,), dtype=torch.float32))", False),
    "drawn in the type of another": ("seen(torch.randint_like(torch.ones(3), 2))", False),
    "of an old type": ("seen(torch.LongTensor([1, 2]))", True),
    "cast": ("x = torch.ones(3)\nseen(x.long())", True),
    "cast to decimals": ("seen(torch.arange(3).float())", False),
    "the bits of whole numbers": ("seen(torch.arange(3).view(torch.float64))", False),
    "in another shape": ("n = 2\nseen(torch.arange(6).view(n, 3).t().reshape(-1))", True),
    "divided": ("seen(torch.arange(3) / 2)", False),
    "added to decimals": ("seen(torch.arange(3) + torch.ones(3))", False),
    "added to a decimal": ("seen(torch.arange(3) + 0.5)", False),
    "compared": ("x = torch.ones(3)\nseen(x > 0)", True),
    "counted with weights": ("x = torch.ones(3)\nseen(torch.bincount(torch.arange(3), x))", False),
    "places in an array": ("seen(torch.from_numpy(np.argwhere(labels == 1).reshape(-1)))", True),
    "an array that is not known": ("seen(torch.from_numpy(labels))", False),
    "several": ("a = torch.arange(3)\nseen(torch.stack([a, a]))", True),
    "several of which one is of decimals": ("a = torch.arange(3)\nseen(torch.stack([a, torch.ones(3)]))", False),
    "one of a list": ("a = [torch.arange(3) for _ in range(4)]\nseen(a[i])", True),
    "one of a list that is added to": ("a = [torch.arange(3)]\na.append(torch.ones(3))\nseen(a[i])", False),
    "in either branch": ("a = torch.arange(3) if t else torch.ones(3)\nseen(a)", False),
    "a parameter": ("def f(a):\n    seen(a)", False),
    "a number": ("seen(3)", False),
}


@pytest.mark.parametrize("case", CASES)
def test_is_whole(case: str) -> None:
    text, whole = CASES[case]
    script = load(HEAD + text + "\n")
    seen = script.syntax_index.calls_named("seen")
    assert is_whole(script, list(seen)[-1].args[0]) is whole
