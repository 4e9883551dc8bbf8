"""AA201 to AA204 gone wrong: other samples, another order, other random numbers, batches in the wrong place."""

from __future__ import annotations

from autoaccel.edits import AddArguments, Code, InsertBefore, Replace, Tier
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.planting import RUNTIME, Planted, Scene, also, made_up, reworded

_WORKERS = ("num_workers", Code("accel.num_workers()"))
_KEPT = ("persistent_workers", Code("accel.num_workers() > 0"))


def _with_workers(scene: Scene, call: str, *more: tuple[str, Code]) -> Planted:
    """Workers where the rule refuses them."""
    node = scene.call(call)
    edit = AddArguments(node, (_WORKERS, *more))
    message = "samples are loaded by the process that trains"
    return made_up(scene.rule("AA201"), node, message, RUNTIME, edit, tier=Tier.EQUIVALENT)


@fault("workers/stream-repeated", "stream", "each worker repeats the whole stream: nobody divides it among so many")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA204", "loader = DataLoader("), "accel.num_workers()", "2")


@fault("workers/stale-dataset", "curriculum", "kept workers do not see what the script changes in the dataset")
def _(scene: Scene) -> Planted:
    return _with_workers(scene, "DataLoader(dataset, batch_size=16, shuffle=True)", _KEPT)


@fault("workers/own-generator-repeated", "augmented", "each worker repeats the numbers of the dataset's own generator")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA203", "jittered = DataLoader("), "accel.seed_worker", "None")


@fault("workers/seeded-alike", "augmented", "every worker gets the same seed: their augmentations are the same")
def _(scene: Scene) -> Planted:
    finding = scene.finding("AA201", "noisy = DataLoader(")
    seed = ("worker_init_fn", Code("lambda worker: torch.manual_seed(0)"))
    return also(finding, AddArguments(scene.call("DataLoader(Noisy(), batch_size=12)"), (seed,)))


@fault("workers/generator", "mnist", "the shuffle gets a generator of its own")
def _(scene: Scene) -> Planted:
    call = scene.call("DataLoader(trainset, batch_size=64, shuffle=True)")
    return also(
        scene.finding("AA201", "trainloader = "),
        AddArguments(call, (("generator", Code("torch.Generator().manual_seed(0)")),)),
    )


@fault(
    "workers/last-batch-dropped",
    "project/main",
    "the last, smaller batch is dropped",
    file="data.py",
    arguments=("--batch-size", "32"),
)
def _(scene: Scene) -> Planted:
    call = scene.call("DataLoader(Moons(200), batch_size=batch_size, shuffle=True)")
    return also(scene.finding("AA201", "train_loader = "), AddArguments(call, (("drop_last", Code("True")),)))


@fault("workers/shuffle-lost", "mnist", "the training data are no longer shuffled")
def _(scene: Scene) -> Planted:
    call = scene.call("DataLoader(trainset, batch_size=64, shuffle=True)")
    return also(scene.finding("AA201", "trainloader = "), Replace(call.keywords[1].value, Code("False")))


@fault("workers/batch-size", "vae", "batches are twice as large")
def _(scene: Scene) -> Planted:
    finding = scene.finding("AA201", "train_loader = ")
    value = scene.expression("args.batch_size")
    return also(finding, Replace(value, Code("2 * {0}", (value,))))


@fault("prefetch/batch-repeated", "crlf", "every batch is yielded twice")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA202"), "accel.prefetch({0}, device)", "(each for each in {0} for _ in range(2))")


@fault("prefetch/last-batch-lost", "mnist_functions", "what is staged at the end of an epoch is lost")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA202"), "accel.prefetch({0}, device)", "list({0})[:-1]")


@fault("prefetch/out-of-order", "crlf_tabs", "batches overtake one another")
def _(scene: Scene) -> Planted:
    new = "[each for pair in zip(*[iter({0})] * 2) for each in reversed(pair)]"
    return reworded(scene.finding("AA202"), "accel.prefetch({0}, device)", new)


@fault("prefetch/other-loader", "mnist", "the evaluation reads the training data")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA202", "for images, labels in testloader"), "{0}", "trainloader")


@fault("prefetch/lengths-moved", "seq2seq", "lengths that packing wants on the host are moved to the device")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA202"), ", move=(0, 2)", "")


@fault("prefetch/drawn-ahead", "mixup", "fetching ahead draws the dataset's random numbers before the loop's")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA202"), "accel.prefetch({0}, device)", "list({0})")


_REUSED = """
def reused(batches):
    memory = None
    for batch in batches:
        memory = memory or [part.clone() for part in batch]
        for kept, part in zip(memory, batch):
            kept.copy_(part)
        yield memory
"""


@fault(
    "prefetch/memory-reused", "replay", "every batch comes in the memory of the one before, which the script still has"
)
def _(scene: Scene) -> Planted:
    planted = reworded(scene.finding("AA202"), "accel.prefetch({0}, device)", "reused({0})")
    return also(planted, InsertBefore(scene.statement("for epoch in"), Code(_REUSED.strip())))
