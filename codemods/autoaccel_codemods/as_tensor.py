"""Share the memory of arrays.

`torch.tensor(array)` always copies; `torch.as_tensor(array)` uses the array's memory. For a batch of 64 images of
224 x 224 that saves tens of milliseconds on the host, and the memory of the copy.

It fires for fresh arrays only: results of constructors, copies, conversions and arithmetic that nothing else refers to.

Left alone:
- names, attributes and slices that may be written to later through the other reference: a dataset's own array would be
  changed by `x /= 255`;
- memory-mapped files, which are read-only;
- tensors in a project that resizes some, by `resize_` or as the `out=` of a function: NumPy's memory cannot be;
- `requires_grad=` and `pin_memory=`, which only `torch.tensor` takes;
- tensors that go to a device, by `device=` or a move: the one copy that this needs is made either way.

Before:
    batch = torch.tensor(np.stack(frames))

After:
    batch = torch.as_tensor(np.stack(frames))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import Code, Finding, RemoveArgument, Replace, Skipped, Tier
from autoaccel.pytorch.arrays import is_fresh, is_read_only, resizing
from autoaccel.pytorch.device_moves import is_moved
from autoaccel.pytorch.monkeypatching import monkeypatched_in_text
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA102",
    name="as-tensor",
    tier=Tier.EXACT,
    needles=(b"torch",),
    pattern=r"tensor(?<=\btensor)\(",
    references=(
        "https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.tensor.html",
    ),
    addresses=("other", "loader"),
    order=20,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.calls("torch.tensor"):
        data = _data(call)
        if data is None or _goes_to_device(script, call):
            continue
        reason = _refusal(script, call, data)
        if reason is not None:
            yield RULE.skip(call, reason)
        elif (
            is_fresh(script, data)
            and (problem := monkeypatched_in_text(script, ("torch.tensor", "torch.as_tensor"))) is not None
        ):
            yield RULE.skip(call, problem)
        elif is_fresh(script, data):
            function, imports = script.spell("torch.as_tensor", call.func)
            dropped = [
                RemoveArgument(call, each) for each in call.keywords if each.arg in ("requires_grad", "pin_memory")
            ]
            message = f"`{script.source(call.func)}` copies an array that nothing else uses"
            yield RULE.finding(call, message, *imports, Replace(call.func, Code(function)), *dropped)


def _data(call: ast.Call) -> ast.expr | None:
    """The data of a call whose arguments are all in sight; None for literals, which have no array to share."""
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    data = call.args[0] if call.args else given_as(call, "data")
    return None if isinstance(data, ast.Starred | ast.List | ast.Tuple | ast.ListComp | ast.Constant) else data


def _goes_to_device(script: Script, call: ast.Call) -> bool:
    """A tensor for a device is copied once, whoever makes it."""
    return any(keyword.arg == "device" for keyword in call.keywords) or is_moved(script, call)


def _refusal(script: Script, call: ast.Call, data: ast.expr) -> str | None:
    """Why an array must be copied; None also when `data` is not known to be an array."""
    known = script.kind(data) is Kind.ARRAY
    if not is_fresh(script, data):
        if is_read_only(script, data):
            return "the array may be read-only"
        exported = isinstance(data, ast.Attribute) and data.attr == "values"
        exported |= isinstance(data, ast.Call) and isinstance(data.func, ast.Attribute) and data.func.attr == "to_numpy"
        return "the array may share memory with one that is used elsewhere" if known or exported else None
    for keyword in call.keywords:
        if keyword.arg in ("requires_grad", "pin_memory") and not is_constant(keyword.value, False):
            return f"`{keyword.arg}=` needs a tensor of its own"
    return resizing(script)
