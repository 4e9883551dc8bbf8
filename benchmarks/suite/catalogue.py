"""The scripts of the suite, and the columns that each is measured in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"

ORIGINAL, AGAIN, EXACT, DEFAULT = "original", "again", "exact", "default"
COMPILED, CAPTURED = "compiled", "captured"
EXPERT, FABRIC, ACCELERATE = "expert", "fabric", "accelerate"
LIMIT, WORKERS = "limit", "workers"

COLUMNS = {
    ORIGINAL: "the plain script",
    AGAIN: "the plain script once more: the noise",
    EXACT: "rewritten, exact tier only",
    DEFAULT: "rewritten with default settings",
    COMPILED: "rewritten, told to compile from the first step on",
    CAPTURED: "rewritten in full precision, its steps captured as CUDA graphs (AA403)",
    EXPERT: "written by hand by an expert, frozen before tuning",
    FABRIC: "moved to Lightning Fabric by hand",
    ACCELERATE: "moved to Accelerate by hand",
    LIMIT: "a batch that already is on the device, nothing but the step",
    WORKERS: "the plain script with workers and pinned memory",
}
REWRITTEN = (EXACT, DEFAULT, COMPILED, CAPTURED)
PAIRED = (ORIGINAL, AGAIN, EXACT, DEFAULT)
"""Columns that something is promised of: measured with several processes. One process says enough of the others."""
WRITTEN = (EXPERT, FABRIC, ACCELERATE, LIMIT, WORKERS)
"""Columns that are files of their own."""


@dataclass(frozen=True, slots=True)
class Script:
    """One of them; `id` is the name of its folder."""

    id: str
    title: str
    binds: str
    """What the plain script spends its time on, on a GPU."""
    control: bool = False
    """Whether there is nothing to gain: it must not lose."""
    batch: tuple[int, int] | None = None
    """Samples of a step, small and full, where no DataLoader hands them out."""
    loss: str = ""
    """The variable with a step's loss, where nothing goes backward."""
    whole: int | None = None
    """A run of so many steps is timed from its start to its end."""
    varied: bool = False
    """Whether steps differ in length: then only the very same steps are compared."""
    compiled: bool = False
    """Whether there is a compiled column on a CPU, too: it takes too long to have it everywhere."""
    generated: bool = False
    """Whether its data set is the stand-in's: no file can be generated for it."""
    goals: tuple[float, float] | None = None
    """On an H200: default settings, moonshot."""

    def file(self, column: str, folder: Path = SCRIPTS) -> Path:
        if column == ACCELERATE:
            return folder / self.id / "with_accelerate.py"  # beside a file of its name the package is not found
        return folder / self.id / f"{column if column in WRITTEN else ORIGINAL}.py"

    def columns(self, wanted: Collection[str], folder: Path = SCRIPTS, device: str = "cpu") -> tuple[str, ...]:
        """Those that there are, in their order; the original is never left out."""
        left_out = {COMPILED} if self.control or (device == "cpu" and not self.compiled) else set()
        if device == "cpu":
            left_out.add(CAPTURED)
        chosen = [each for each in COLUMNS if each == ORIGINAL or (each in wanted and each not in left_out)]
        return tuple(each for each in chosen if self.file(each, folder).is_file())


SUITE = (
    Script("mnist", "MNIST CNN of the articles", "loader, launch", goals=(5, 25)),
    Script("cifar", "ResNet-18, crop and flip", "loader, convolutions", compiled=True, generated=True, goals=(5, 8)),
    Script("imagenet", "ResNet-50 on JPEG files", "decoding", goals=(4, 10)),
    Script("lstm", "word language model", "RNN, logits", batch=(20, 20), goals=(1.3, 2)),
    Script("gpt", "GPT, 6 layers", "matrix products", compiled=True, goals=(4, 7)),
    Script("dcgan", "DCGAN, two optimizers", "loader, convolutions", goals=(6, 15)),
    Script("unet", "U-Net segmentation", "bytes of convolutions", goals=(2.5, 4)),
    Script("vae", "MLP VAE", "loader, launch", goals=(6, 50)),
    Script("tabular", "MLP on a table", "indexing", goals=(4, 40)),
    Script("rl", "DQN on a simulator", "launch, waiting", batch=(512, 1024), goals=(1.5, 5)),
    Script("evaluate", "ResNet-50 evaluation", "forward, memory", loss="loss", goals=(4, 9)),
    Script("seq2seq", "GRU with attention", "launch, shapes", varied=True, goals=(1.0, 4)),
    Script("tuned", "cifar, already tuned", "nothing to gain", control=True, batch=(32, 512), generated=True),
    Script("short", "30 steps", "start", control=True, whole=30),
    Script("waiting", "a dataset that sleeps", "loader", control=True),
    Script("mutating", "a dataset changed in the loop", "nothing to gain", control=True),
)


def modules(script: Path) -> list[Path]:
    """The modules that a plain script imports from its folder: those that are no column."""
    columns = {SUITE[0].file(column).name for column in COLUMNS}
    return [path for path in script.parent.glob("*.py") if path.name not in columns]


def chosen(only: Collection[str], suite: tuple[Script, ...] = SUITE) -> tuple[Script, ...]:
    """Raises `ValueError` for a name that there is not."""
    known = {each.id for each in suite}
    if unknown := [name for name in only if name not in known]:
        raise ValueError(f"no script {', '.join(unknown)}; there are {', '.join(each.id for each in suite)}")
    return tuple(each for each in suite if not only or each.id in only)


def shard(scripts: tuple[Script, ...], number: int, count: int) -> tuple[Script, ...]:
    """Every `count`-th script, so that heavy neighbours part."""
    return scripts[number - 1 :: count]
