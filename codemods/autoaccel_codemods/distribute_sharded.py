"""Spread parameters over processes.

Like `distribute` (AA801), for models that one device does not hold with their gradients and what the optimizer keeps:
each process has a part of every parameter, put together only while a layer computes, by torch's own `fully_shard`
(FSDP2). Layers in an `nn.ModuleList` are put together one by one, everything else at once. Checkpoints stay those of
one process, and batches are shared as under AA801. `autoaccel distribute train.py --shard` selects this rule.

Left alone:
- what `distribute` leaves alone, and `nn.DataParallel`;
- programs that use parameters outside of forward passes, optimizers and clipping: penalties on weights, averaged
  copies, `model.encode(x)`, gradients by hand; they may be counted;
- optimizers that are made before the model is on its device, and others than those of SGD's and Adam's kind.

Before:
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters())

After:
    model = Net().to(device)
    accel.distribute(model, shard=True)
    optimizer = torch.optim.AdamW(model.parameters())
"""

from __future__ import annotations

from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.distribute.distributed_models import findings

RULE = Rule(
    code="AA804",
    name="distribute-sharded",
    tier=Tier.EQUIVALENT,
    needles=(b"import",),  # any file of a program may write files
    references=("https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",),
    on_request=True,
    command="distribute --shard",
    order=98,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    yield from findings(RULE, script, replicated=False, sharded=True)
