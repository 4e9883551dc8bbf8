"""Let cuDNN time its kernels.

For each convolution cuDNN has several kernels, and guesses which is the fastest one. In its benchmark mode it times
them once for each shape. `accel.cudnn_benchmark()` tries this when the script trains, step against step, and keeps it
where steps are faster: with shapes that change it would be slower. Which kernel wins may differ from run to run, and
with it rounding. On other devices than CUDA it does nothing.

Left alone:
- programs that train no model with convolutions over two dimensions, or never name CUDA;
- scripts that set anything of `torch.backends.cudnn`, use deterministic algorithms, or capture CUDA graphs.

Before:
    import torch

After:
    import torch
    from autoaccel import runtime as accel

    accel.cudnn_benchmark()
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.pytorch import backend_settings, cuda_graphs
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.channels_last import convolves
from autoaccel_codemods.compile.trained_models import trained_models

RULE = Rule(
    code="AA702",
    name="cudnn-benchmark",
    tier=Tier.NUMERICS,
    needles=(b"optim", b".backward(", b"train(", b"Trainer(", b"_model()"),
    pattern=r"torch",
    references=(
        "https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark",
    ),
    addresses=("compute",),
    order=66,
)

# `re` looks for the letters that a match can begin with, so that none begins with `\b`.
_CHOOSING = re.compile(r"c(?<=\bc)udnn\b|use_deterministic_algorithms|CUBLAS_WORKSPACE_CONFIG|PYTHONHASHSEED")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    if backend_settings.is_given(script, "cudnn_benchmark") or not backend_settings.names_cuda(script):
        return
    model = next((each for each in trained_models(script) if convolves(script, each)), None)
    if model is None:
        return
    try:
        reason = _problem(script)
    except Incomplete as incomplete:
        reason = str(incomplete)
    if reason is not None:
        yield RULE.skip(model.made, reason)
        return
    edits = backend_settings.call_after_imports(script, "cudnn_benchmark")
    yield RULE.finding(model.made, f"cuDNN guesses which kernels are best for `{script.source(model.target)}`", *edits)


def _problem(script: Script) -> str | None:
    """Why kernels are not to be chosen by their time."""
    if (mention := backend_settings.mention(script, _CHOOSING)) is not None:
        return f"`{mention}`: the script chooses kernels, or asks for the same ones in each run"
    return cuda_graphs.REASON if cuda_graphs.captures(script) else None
