"""What `attention` writes trains as what was written out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from tests.measure.forking import REPOSITORY, Forking

FIXTURES = REPOSITORY / "fixtures" / "attention"
PAIRS = sorted(FIXTURES.glob("*.in.py"))


PROGRAM = """\
import runpy, sys, warnings
warnings.simplefilter("error")
for path in sys.argv[1:]:
    print("#")
    runpy.run_path(path)
"""


def losses(paths: list[Path], forking: Forking) -> list[list[float]]:
    """What scripts print, all in one process, with the numbers behind their steps."""
    done = forking.python(["-c", PROGRAM, *map(str, paths)], REPOSITORY, {**os.environ})
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("#\n")[1:]
    return [[float(each) for each in re.findall(r"^\d+ (\S+)$", part, re.MULTILINE)] for part in parts]


def test_losses_are_the_same_but_for_rounding(forking: Forking) -> None:
    after = [each.with_name(each.name.replace(".in.", ".out.")) for each in PAIRS]
    found = losses([*PAIRS, *after], forking)
    assert all(len(each) == 3 for each in found)
    for one, other in zip(found[: len(PAIRS)], found[len(PAIRS) :], strict=True):
        assert other == pytest.approx(one, rel=1e-5)


def test_noops_run(forking: Forking) -> None:
    assert all(len(each) == 3 for each in losses(sorted(FIXTURES.glob("noop_*.py")), forking))


def attend(query: torch.Tensor, key: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    return functional.softmax(scores + added, dim=-1) @ key


def kernel(query: torch.Tensor, key: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, key, attn_mask=added)


@pytest.mark.parametrize("sizes", [(2, 1, 1, 5), (1, 3, 4, 5), (3, 1, 1), (4, 5), (1, 5)], ids=str)
def test_the_kernel_adds_what_is_learned(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    query, key, added = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(sizes)
    gradients = []
    for function in (attend, kernel):
        operands = [each.clone().requires_grad_() for each in (query, key, added)]
        gradients.append(torch.autograd.grad(function(*operands).square().sum(), operands))
    assert torch.allclose(kernel(query, key, added), attend(query, key, added), atol=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("fill", "dtype", "is_same"),
    [
        (-10000.0, None, True),
        (-1e9, None, True),
        (-10000.0, torch.bfloat16, True),
        (-10000.0, torch.float16, True),
        (-1e9, torch.float16, False),  # infinite: such a row gives zeros
        (torch.finfo(torch.float32).min, torch.bfloat16, False),
    ],
)
def test_rows_that_are_masked_as_a_whole(fill: float, dtype: torch.dtype | None, is_same: bool) -> None:
    torch.manual_seed(0)
    query, key, added = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.zeros(2, 1, 1, 5)
    added[0] = fill
    added[1, ..., 3:] = fill
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        one, other = attend(query, key, added), kernel(query, key, added)
    assert other.isfinite().all()
    assert torch.allclose(one.float(), other.float(), atol=1e-5 if dtype is None else 0.05) is is_same


@pytest.mark.parametrize("added", [torch.zeros(5), torch.zeros(2, 3, 4, 5).long(), torch.zeros(5, 2, 3, 4, 5)])
def test_the_kernel_refuses(added: torch.Tensor) -> None:
    query, key = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)
    attend(query, key, added)
    with pytest.raises((IndexError, RuntimeError)):
        kernel(query, key, added)
