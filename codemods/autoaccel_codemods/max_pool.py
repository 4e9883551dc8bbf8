"""Pool pictures by pixel.

Of pictures that lie channel by channel torch's max pooling compares one number after the other on a CPU: in small
networks of convolutions that is a good part of a step. The runtime pools a copy that lies pixel by pixel, 16 channels
at a time, two to three times as fast forward and backward, copies included. Values and gradients are the same bit for
bit. On other devices, for few numbers and for pictures that lie pixel by pixel already it is torch's own function.

Left alone:
- programs that export, script, trace, quantize or count the operations of models, or intercept calls of torch;
- `F.max_pool2d` and `nn.MaxPool2d` where something else takes their place;
- pooling along one axis alone, `nn.MaxPool2d((length, 1))`, as of texts.

Before:
    x = F.max_pool2d(F.relu(self.conv1(x)), 2)

After:
    x = accel.max_pool2d(F.relu(self.conv1(x)), 2)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.pytorch import replaced_functions
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA703",
    name="max-pool",
    tier=Tier.EXACT,
    needles=(b"max_pool2d", b"MaxPool2d"),
    pattern="torch",
    references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html",),
    addresses=("compute",),
    order=76,
)

_NAMES = {"torch.nn.functional.max_pool2d": "max_pool2d", "torch.nn.MaxPool2d": "MaxPool2d"}


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    calls = [each for each in replaced_functions.calls(script, *_NAMES) if not _is_along_one_axis(each)]
    reason = replaced_functions.problem(script, tuple(_NAMES)) if calls else None
    for call in calls:
        if reason is not None:
            yield RULE.skip(call, reason)
            continue
        name = _NAMES[script.qualname(call.func) or ""]
        edit = Replace(call.func, Code(f"{script.accel}.{name}"))
        message = f"`{script.source(call.func)}` compares one number after the other on a CPU"
        yield RULE.finding(call, message, edit, *script.import_runtime)


def _is_along_one_axis(call: ast.Call) -> bool:
    """`nn.MaxPool2d((sequence_length, 1))`"""
    sizes = [*call.args, *(each.value for each in call.keywords if each.arg == "kernel_size")]
    return any(
        isinstance(size, ast.Tuple) and any(isinstance(each, ast.Constant) and each.value == 1 for each in size.elts)
        for size in sizes
    )
