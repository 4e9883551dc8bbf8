"""Train by several processes.

Under `torchrun` each process computes its rows of every batch, and gradients are averaged by torch's own reducer; each
runs the script's own lines on whole batches, so batch size, loss, schedule, metrics and prints mean what they meant.
Files are written by the first rank, which also decides what hangs on the clock. Under one process nothing changes. What
stays the same and what may not: `docs/distributed.md`. `autoaccel distribute train.py` selects this rule and
`distribute-replicas` (AA802).

Left alone:
- scripts that are distributed already, by torch or by a framework, and those that start processes themselves;
- training on no batches that are seen to be some, as of agents that act;
- models that are made in a loop or in several places, or that nothing shows to be modules; lazy layers;
- what the reducer does not see: `backward(create_graph=True)`, sparse gradients, hooks of parameters;
- a device that is not chosen in sight; generators that are seeded by the clock;
- files that are changed, or written and read again; loggers out of sight; questions to the user.

Before:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    ...
    torch.save(model.state_dict(), "net.pt")

After:
    device = accel.device(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    model = Net().to(device)
    accel.distribute(model)
    ...
    accel.save(model.state_dict(), "net.pt")
"""

from __future__ import annotations

from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.distribute.distributed_models import findings

RULE = Rule(
    code="AA801",
    name="distribute",
    tier=Tier.EQUIVALENT,
    needles=(b"import",),  # any file of a program may write files
    references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",),
    on_request=True,
    command="distribute",
    order=98,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """All of a file is rewritten, or nothing for the first reason that is found.

    Who decides what:
        distributed_models  which models are distributed; why a program is left alone
        device_join         where ranks join, and the devices that they use
        early_draws         random numbers of before the join
        file_effects        what the first rank writes for all, or before the others
        sharded_use         whether parameters can be spread, too (AA804)
        clock_conditions    conditions that the first rank decides for all
    """
    yield from findings(RULE, script, replicated=False)
