"""AA801 gone wrong: what goes wrong when one process becomes several, each as a statement too many.

By one process none of them does anything. The runtime looks out for many of these itself; those that it would notice
are planted with that switched off, so that it is `verify --ranks` that has to see them.
"""

from __future__ import annotations

from autoaccel.edits import Code, InsertBefore, Replace, Tier, literal
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.introduction import HYPOTHETICAL
from benchmarks.planted_faults.planting import Planted, Scene, made_up

_SCRIPT = "several_ranks"
_SEVERAL = 'int(__import__("os").environ.get("WORLD_SIZE", "1"))'
_RANK = 'int(__import__("os").environ.get("RANK", "0"))'
_UNSEEN = """import unittest.mock, torch, autoaccel.runtime.rng_state
from autoaccel.runtime.distributed import batch_norm, batch_part, gradient_reduction, row_independence
row_independence._close = lambda one, two: one.shape == two.shape
unittest.mock.patch.object(autoaccel.runtime.rng_state.RngState, "__eq__", lambda *_: True).start()
"""
"""Switches off that a few rows are tried first; what is patched beside it works in distributed models alone."""


def _inserted(name: str, wrong: str, before: str, *lines: str, nth: int = 0) -> None:
    """Enter lines that are put before a statement."""

    def plant(scene: Scene) -> Planted:
        statement = scene.statement(before, nth)
        code = Code(literal("\n".join(lines)))
        return made_up(HYPOTHETICAL, statement, wrong, InsertBefore(statement, code), tier=Tier.EQUIVALENT)

    fault(f"ranks/{name}", _SCRIPT, wrong, ranks=2)(plant)


def _replaced(name: str, wrong: str, old: str, new: str) -> None:
    """Enter an expression that takes the place of another."""

    def plant(scene: Scene) -> Planted:
        node = scene.expression(old)
        return made_up(HYPOTHETICAL, node, wrong, Replace(node, Code(literal(new))), tier=Tier.EQUIVALENT)

    fault(f"ranks/{name}", _SCRIPT, wrong, ranks=2)(plant)


_inserted(
    "batch-norm-of-each-rank",
    "batch normalisation takes the statistics of one rank",
    "optimizer = ",
    *_UNSEEN.splitlines(),
    "batch_norm._synchronized = lambda x, m, v, w, b, p, e: torch.batch_norm(x, w, b, m, v, True, p, e, False)",
)
_inserted(
    "mask-of-each-rank",
    "every rank drops out the same units of its rows",
    "optimizer = ",
    *_UNSEEN.splitlines(),
    "batch_part.Share.batch_dim = lambda self, shape: None",
)
_inserted(
    "mean-of-means",
    "every rank goes backward from the mean over its own rows, however many these are",
    "loss.backward()",
    f"if {_SEVERAL} > 1:",
    "    from autoaccel.runtime.distributed import shares",
    "    _sizes = shares.Rows(len(x), 0, 2).sizes",
    "    _weights = torch.cat([torch.full((n,), len(x) / n / 2) for n in _sizes])",
    '    loss = (F.cross_entropy(model(x + 0.1 * noise), y, reduction="none") * _weights).mean()',
)
_inserted(
    "schedule-of-all-ranks",
    "the scheduler makes a step for each rank",
    "scheduler.step()",
    f"for _ in range({_SEVERAL} - 1):",
    "    scheduler.step()",
)
_inserted(
    "samples-twice",
    "samples that make shares equal are counted in the evaluation",
    "seen += len(x)",
    f"if len(x) % {_SEVERAL}:",
    '    total += F.cross_entropy(model(x[:1]), y[:1], reduction="sum").item()',
    "    seen += 1",
)
_replaced(
    "shares-of-a-sampler",
    "a DistributedSampler gives each rank other samples in the evaluation",
    "DataLoader(TensorDataset(images[:21], labels[:21]), batch_size=8)",
    "DataLoader(TensorDataset(images[:21], labels[:21]), batch_size=8, sampler=None if "
    f"{_SEVERAL} == 1 else torch.utils.data.DistributedSampler(images[:21], {_SEVERAL}, {_RANK}, shuffle=False))",
)
_inserted(
    "latent-of-each-rank",
    "every rank draws noise of its own",
    "noise = ",
    "import autoaccel.runtime.distributed.process_group as _group",
    "_group.generator_sum = lambda: 0",
    f"if {_RANK}: torch.rand(1)",
)
_replaced(
    "norm-of-a-shard",
    "every rank clips by the norm of its part of the parameters",
    "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    f"nn.utils.clip_grad_norm_([*model.parameters()][{_RANK} :: {_SEVERAL}], 0.5)",
)
_inserted(
    "no-sync-off-by-one",
    "gradients are not averaged in the step after which the optimizer makes its own",
    "loss.backward()",
    "from autoaccel.runtime.distributed.gradient_reduction import GradientReduction as _Reduction",
    "_Reduction.told = getattr(_Reduction, 'told', _Reduction.prepare)",
    "_Reduction.prepare = (lambda self, roots: None) if i % 2 else _Reduction.told",
)
_inserted(
    "keys-of-a-wrapper",
    "the model is wrapped, so its checkpoint has other keys",
    "optimizer = ",
    f"if {_SEVERAL} > 1: model = nn.parallel.DistributedDataParallel(model)",
)
_inserted(
    "read-before-it-is-there",
    "nobody waits until the first rank has written",
    "model.load_state_dict(",
    f"if {_SEVERAL} > 1:",
    "    import time",
    "    accel.agreed(True)",
    '    if accel.path("x") == "x": time.sleep(1); torch.save(torch.load("best.pt"), "last.pt")',
    '    model.load_state_dict(torch.load("last.pt"))',
)
_inserted(
    "file-of-each-rank",
    "every rank writes the file",
    'print(f"best',
    f"if {_SEVERAL} > 1: open('log.txt', 'a').close()",
)
