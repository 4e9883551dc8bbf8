"""LSTM layers in regions of a CPU that has no low-precision LSTM."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
import torch

from autoaccel.runtime.amp import lstm_fallback
from tests.measure.forking import REPOSITORY, Forking

PROGRAM = """
import torch
from torch.utils.checkpoint import checkpoint
from autoaccel import runtime as accel

torch.manual_seed(0)
state = torch.get_rng_state()
with accel.autocast("cpu"):
    pass
assert torch.equal(torch.get_rng_state(), state)
x = torch.randn(3, 2, 4)
for layer in (
    torch.nn.LSTM(4, 4), torch.nn.LSTM(4, 4, 2, bidirectional=True), torch.nn.LSTM(4, 4, bias=False, batch_first=True)
):
    want, (hidden, cell) = layer(x)
    with accel.autocast("cpu"):
        output, _ = layer(x)
        low = torch.nn.functional.linear(x, torch.ones(4, 4))
        again, _ = layer(x, (hidden.to(low.dtype), cell.to(low.dtype)))
        computed_again = checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)
    output.sum().backward()
    computed_again.sum().backward()
    print(output.dtype, torch.equal(output, want), torch.equal(output, computed_again), again.dtype, low.dtype)
"""


def run(forking: Forking, folder: Path, dtype: str, most: str) -> tuple[list[str], list[str]]:
    """What a program prints and warns of on a CPU with these instructions at most."""
    environment = {
        **os.environ, "PYTHONPATH": str(REPOSITORY), "AUTOACCEL_AMP_DTYPE": dtype, "AUTOACCEL_DISABLE": "",
        "ONEDNN_MAX_CPU_ISA": most,
    }  # fmt: skip
    done = forking.python(["-c", PROGRAM], folder, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if "Warning: " in line]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="needs a CPU that can do with less")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_without_a_kernel_they_stay_in_float32(dtype: str, forking: Forking, tmp_path: Path) -> None:
    printed, warned = run(forking, tmp_path, dtype, "AVX2")
    assert printed == [f"torch.float32 True True torch.float32 torch.{dtype}"] * 3
    (warning,) = warned
    assert f"autoaccel: LSTM layers compute in float32: this CPU has none in {dtype}" in warning


def test_with_a_kernel_nothing_is_changed(forking: Forking, tmp_path: Path) -> None:
    # Where an earlier test has put the kernel in its place, that one is found here.
    if torch.bfloat16 in lstm_fallback._lacking or not lstm_fallback._has_lstm(torch.bfloat16):
        pytest.skip("this CPU has no LSTM in bfloat16")
    printed, warned = run(forking, tmp_path, "bfloat16", "DEFAULT")
    assert [line.split()[0] for line in printed] == ["torch.bfloat16"] * 3
    assert warned == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_they_train_on_this_cpu(dtype: str, forking: Forking, tmp_path: Path) -> None:
    # oneDNN has float16 for inference alone on some that have AVX512-FP16.
    printed, _ = run(forking, tmp_path, dtype, "DEFAULT")
    assert len(printed) == 3
