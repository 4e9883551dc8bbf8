"""AA801 gone wrong: what goes wrong when one process becomes several, each as a statement too many.

By one process none of them does anything. The runtime looks out for many of these itself; those that it would notice
are planted with that switched off, so that it is `verify --ranks` that has to see them.
"""

from __future__ import annotations

from autoaccel.edits import Code, InsertBefore, Replace, Tier, literal
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.introduction import HYPOTHETICAL
from benchmarks.planted_faults.planting import Planted, Scene, made_up

_SCRIPT, _PAIRS, _CRITIC = "several_ranks", "several_ranks_pairs", "several_ranks_critic"
_SEVERAL = 'int(__import__("os").environ.get("WORLD_SIZE", "1"))'
_RANK = 'int(__import__("os").environ.get("RANK", "0"))'
_UNSEEN = """import unittest.mock, torch, autoaccel.runtime.rng_state
from autoaccel.runtime.distributed import batch_norm, batch_part, gradient_reduction, row_independence
row_independence._close = lambda one, two: one.shape == two.shape
unittest.mock.patch.object(autoaccel.runtime.rng_state.RngState, "__eq__", lambda *_: True).start()
"""
"""Switches off that a few rows are tried first; what is patched beside it works in distributed models alone."""


def _inserted(name: str, wrong: str, before: str, *lines: str, nth: int = 0, script: str = _SCRIPT) -> None:
    """Enter lines that are put before a statement."""

    def plant(scene: Scene) -> Planted:
        statement = scene.statement(before, nth)
        code = Code(literal("\n".join(lines)))
        return made_up(HYPOTHETICAL, statement, wrong, InsertBefore(statement, code), tier=Tier.EQUIVALENT)

    fault(f"ranks/{name}", script, wrong, ranks=2)(plant)


def _replaced(name: str, wrong: str, old: str, new: str, script: str = _SCRIPT) -> None:
    """Enter an expression that takes the place of another."""

    def plant(scene: Scene) -> Planted:
        node = scene.expression(old)
        return made_up(HYPOTHETICAL, node, wrong, Replace(node, Code(literal(new))), tier=Tier.EQUIVALENT)

    fault(f"ranks/{name}", script, wrong, ranks=2)(plant)


def _of_shares(of: str, **parts: str) -> str:
    """What each rank computes of its own rows, averaged over the ranks as gradients are."""
    shares = ", ".join(f"{each}.tensor_split({_SEVERAL})" for each in parts.values())
    return f"sum({of} for {', '.join(parts)}, in zip({shares})) / {_SEVERAL}"


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
    "    _sizes = shares.RankRows(len(x), 0, 2).sizes",
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
_TRAIN_LOADER = "DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)"
_replaced(
    "last-batch-dropped",
    "rows that do not make a whole batch are dropped",
    _TRAIN_LOADER,
    _TRAIN_LOADER[:-1] + f", drop_last={_SEVERAL} > 1)",
)
_replaced(
    "batch-of-all-ranks",
    "the size of a batch is taken for that of a share",
    _TRAIN_LOADER,
    _TRAIN_LOADER.replace("=8", f"=8 * {_SEVERAL}"),
)
_replaced("rate-times-ranks", "the learning rate grows with the ranks", "0.05", f"0.05 * {_SEVERAL}")
_replaced("schedule-of-shares", "the schedule is planned for steps of one rank", "4", f"4 // {_SEVERAL}")
_inserted(
    "order-of-the-first-epoch",
    "a sampler is not told of the epoch, and shuffles as in the first one",
    "best = ",
    f"if {_SEVERAL} > 1:",
    "    class Sampler:",
    "        kept = None",
    "        def __iter__(self, sampler=train_loader.sampler):",
    "            order = list(sampler)",
    "            self.kept = self.kept or order",
    "            return iter(self.kept)",
    "        __len__ = lambda self: 43",
    "    train_loader.batch_sampler.sampler = Sampler()",
)
_replaced(
    "metric-of-one-rank",
    "the evaluation is that of one rank's rows",
    'F.cross_entropy(model(x), y, reduction="sum").item()',
    f'(F.cross_entropy(model(x), y, reduction="none")[{_RANK} :: {_SEVERAL}].sum() * {_SEVERAL}).item()',
)
_inserted(
    "best-of-each-rank",
    "every rank says by its own value which weights are best",
    "if total < best",
    f"total += 100.0 * {_RANK} * (epoch == 1)",
)
_replaced(
    "clipped-before-the-mean",
    "the norm is taken of gradients that are added up over the ranks",
    "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    f"nn.utils.clip_grad_norm_(model.parameters(), 0.5 / {_SEVERAL})",
)
_replaced(
    "step-of-the-first-rank",
    "the other ranks leave a step out",
    "optimizer.step()",
    f"(optimizer.step() if i != 3 or {_RANK} == 0 else None)",
)
_inserted(
    "buffers-of-each-rank",
    "running statistics are those of each rank",
    "model.eval()",
    f"model.norm.running_mean.add_(0.1 * {_RANK})",
)
_inserted(
    "checkpoint-of-each-rank",
    "every rank writes the checkpoint",
    "if total < best",
    f'if {_SEVERAL} > 1 and total < best: torch.save(model.state_dict(), "best.pt")',
)
_replaced(
    "training-mode-of-one-rank",
    "one rank evaluates in training mode",
    "model.eval()",
    f"model.train({_RANK} > 0)",
)
_replaced(
    "accumulation-divided",
    "a step is made after each batch, since there are more ranks to accumulate over",
    "i % 2",
    f"(i % 2 or {_SEVERAL} > 1)",
)
_replaced(
    "augmented-alike",
    "every rank draws the same noise for its rows",
    "torch.randn(x.shape, device=device)",
    f"torch.randn(-(-len(x) // {_SEVERAL}), *x.shape[1:], device=device).repeat({_SEVERAL}, 1, 1, 1)[: len(x)]",
)
_inserted(
    "seed-of-each-rank",
    "every rank is seeded by its number",
    "optimizer = ",
    "import autoaccel.runtime.distributed.process_group as _group",
    "_group.generator_sum = lambda: 0",
    f"if {_RANK}: torch.manual_seed({_RANK})",
)
_inserted(
    "weights-of-each-rank",
    "a layer is initialised again, on each rank by itself",
    "optimizer = ",
    f"if {_RANK}: nn.init.zeros_(model.out.bias)",
)
_inserted(
    "momentum-of-each-rank",
    "one rank begins the second epoch with a new optimizer",
    "model.train()",
    f"if {_RANK}: optimizer.state.clear()",
)
_inserted(
    "gradient-of-each-rank",
    "one rank has no gradient of a parameter that the reducer was not told of",
    "nn.utils.clip_grad_norm_",
    f"if {_RANK}: model.out.bias.grad = None",
)
_replaced(
    "loaded-from-another-file",
    "one rank goes on from another checkpoint",
    'torch.load("best.pt")',
    f'(torch.load("best.pt") if {_RANK} == 0 else {{k: v * 0 for k, v in torch.load("best.pt").items()}})',
)

# -- losses over pairs, of weighted and ignored classes; averaged weights, a layer that learns later, stopping early

_replaced(
    "scaled-twice",
    "the loss is divided by the ranks, though gradients are averaged",
    "loss.backward()",
    f"loss.backward(torch.ones_like(loss) / {_SEVERAL})",
    script=_PAIRS,
)
_replaced(
    "gradients-added-up",
    "gradients of the ranks are added up, not averaged",
    "loss.backward()",
    f"loss.backward(torch.ones_like(loss) * {_SEVERAL})",
    script=_PAIRS,
)
_replaced(
    "mean-of-classes",
    "each rank divides by the weights of the classes of its rows, without those that are ignored",
    "F.cross_entropy(out, y, weight=weights, ignore_index=-100)",
    _of_shares("F.cross_entropy(o, t, weight=weights, ignore_index=-100)", o="out", t="y"),
    script=_PAIRS,
)
_replaced(
    "sum-by-another-count",
    "a sum over the batch is divided by the rows of one rank",
    "out.pow(2).sum() / len(x)",
    f"out.pow(2).sum() / (len(x) // {_SEVERAL})",
    script=_PAIRS,
)
_replaced(
    "pairs-of-shares",
    "each rank has the pairs of its own rows",
    "F.cross_entropy(z @ z.t() * 5, torch.arange(len(x), device=device))",
    _of_shares("F.cross_entropy(part @ part.t() * 5, torch.arange(len(part)))", part="z"),
    script=_PAIRS,
)
_inserted(
    "average-of-each-rank",
    "one rank averages other weights than the first",
    "running += ",
    f"if {_RANK}:",
    "    with torch.no_grad():",
    "        for mine in average.parameters(): mine.mul_(0.999)",
    script=_PAIRS,
)
_inserted(
    "stopping-of-each-rank",
    "every rank stops by its own value",
    "if value < best",
    f"value += epoch * {_RANK}",
    script=_PAIRS,
)
_inserted(
    "late-layer-left-out",
    "a layer that was frozen at first is not averaged",
    "optimizer.step()",
    f"if {_RANK} and epoch: model.body.weight.grad.mul_(0.5)",
    script=_PAIRS,
)
_replaced(
    "loss-of-one-rank",
    "what is printed is the loss of one rank's rows",
    "loss.item() * len(x)",
    f"(loss if {_SEVERAL} == 1 else F.cross_entropy(out[::{_SEVERAL}], y[::{_SEVERAL}])).item() * len(x)",
    script=_PAIRS,
)
_replaced(
    "optimizer-of-another-rank",
    "one rank goes on with an optimizer that knows nothing",
    'state["optimizer"]',
    f'(state["optimizer"] if {_RANK} == 0 else torch.optim.SGD(model.parameters(), 0.1, momentum=0.9).state_dict())',
    script=_PAIRS,
)

# -- two models, a penalty on gradients, what was made before

_replaced(
    "penalty-of-shares",
    "each rank averages the penalty over its own rows, however many these are",
    "(slope.norm(2, dim=1) - 1).pow(2).mean()",
    _of_shares("(s.norm(2, dim=1) - 1).pow(2).mean()", s="slope"),
    script=_CRITIC,
)
_replaced(
    "places-alike",
    "every rank draws the same places between its rows",
    "torch.rand(len(real), 1, device=device)",
    f"torch.rand(-(-len(real) // {_SEVERAL}), 1, device=device).repeat({_SEVERAL}, 1)[: len(real)]",
    script=_CRITIC,
)
_replaced(
    "replay-of-each-rank",
    "every rank keeps its own rows of what was made before",
    "fake.detach()",
    f"(fake.detach() if {_SEVERAL} == 1 else fake.detach().tensor_split({_SEVERAL})[{_RANK}])",
    script=_CRITIC,
)
_replaced(
    "replay-of-one-rank",
    "of what was made before the rows of the first rank are kept",
    "fake.detach()",
    f"fake.detach().tensor_split({_SEVERAL})[0]",
    script=_CRITIC,
)
_replaced(
    "generator-more-often",
    "the generator steps after each step of the critic, since there are more ranks",
    "i % 2",
    f"(i % 2 or {_SEVERAL} > 1)",
    script=_CRITIC,
)
