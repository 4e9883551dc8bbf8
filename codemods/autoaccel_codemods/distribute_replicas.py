"""Distribute `DataParallel` scripts.

`nn.DataParallel` copies the model to every device at every step, runs the copies in threads of one process, and adds
up their gradients on one device. Under `torchrun` each device has a process instead, as with `distribute` (AA801): the
same edits, which keep the wrapper, its `module` and the keys of its checkpoints. Under one process nothing changes.
Batch normalisation sees the whole batch then, not that of a replica, and a loss that the model computes itself is that
of the whole batch.

Left alone:
- what `distribute` leaves alone;
- `data_parallel` and replicas of other libraries, which name their devices in the forward pass.

Before:
    model = nn.DataParallel(Net()).to(device)

After:
    model = nn.DataParallel(Net()).to(device)
    accel.distribute(model)
"""

from __future__ import annotations

from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.distribute.distributed_models import findings

RULE = Rule(
    code="AA802",
    name="distribute-replicas",
    tier=Tier.EQUIVALENT,
    needles=(b"import",),  # any file of a program may write files
    references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",),
    on_request=True,
    command="distribute",
    order=98,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    yield from findings(RULE, script, replicated=True)
