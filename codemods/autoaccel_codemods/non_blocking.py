"""Copy batches without waiting.

`.to(device)` stops the host until the copy has finished. From pinned memory the copy can run beside the computation:
the host queues it with `non_blocking=True` and goes on to queue the step that uses it, which the device runs in
order.

Only batches of a data loader are moved this way. Left alone:
- copies back to the CPU, where values would be read before they arrive;
- a batch whose tensor on the host is changed after the copy has begun: by a helper, an object that keeps it, through
  NumPy or `out=`; or that is handed to code that is not seen then;
- projects that make page-locked memory of their own, which may be filled again for the next batch;
- objects with a `to()` of their own, which may not know the argument;
- tensors that were computed on the host, which are not pinned.

Before:
    images, labels = images.to(device), labels.to(device)

After:
    images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import AddArguments, Code, Finding, Skipped, Tier
from autoaccel.pytorch.batches import device_of, own_to_method
from autoaccel.pytorch.host_writes import changed_after
from autoaccel.pytorch.loader_loops import BatchTransfer, transfers
from autoaccel.pytorch.monkeypatching import monkeypatched_in_text
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA103",
    name="non-blocking",
    tier=Tier.EXACT,
    needles=(b".to(", b".cuda(", b".type("),
    references=("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
    addresses=("transfer",),
    order=40,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    moves: dict[ast.Call, list[BatchTransfer]] = {}
    for transfer in transfers(script):
        moves.setdefault(transfer.call, []).append(transfer)
    for call, served in moves.items():
        if any(_has_nothing_to_gain(script, transfer) for transfer in served):
            continue
        problems = (
            own_to_method(script, transfer)
            or changed_after(script, transfer)
            or monkeypatched_in_text(script, (f"torch.Tensor.{transfer.method}",))
            for transfer in served
        )
        if problem := next(filter(None, problems), None):
            yield RULE.skip(call, problem)
        else:
            edit = AddArguments(call, (("non_blocking", Code("True")),))
            yield RULE.finding(call, "the host waits for this copy to the device", edit)


def _has_nothing_to_gain(script: Script, transfer: BatchTransfer) -> bool:
    """Whether there is nothing to gain: already decided, a single copy, not one to an accelerator, or not
    from pinned memory."""
    call = transfer.call
    if any(keyword.arg in (None, "non_blocking") for keyword in call.keywords) or any(
        isinstance(a, ast.Starred) for a in call.args
    ):
        return True
    if transfer.method == "cuda" and len(call.args) > 1:
        return True
    if runs_once(script, call):
        return True
    return transfer.derived == "copy" or not device_of(script, transfer).accelerates
