"""What is asked of an observed run: plain data, which goes to its process as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoaccel.measure.observing.messages import Message

SCALER, COMPILE, WORKERS, PREFETCH = "scaler", "compile", "workers", "prefetch"
REHEARSALS = (SCALER, COMPILE, WORKERS, PREFETCH)
FUSED = "fused"  # which rounds otherwise, so that it is rehearsed by itself


@dataclass(frozen=True, slots=True)
class Request(Message):
    """One run: what to run, with which texts, how far, and what to look at."""

    script: str
    """A path as the user gave it or, with `is_module`, what follows `python -m`."""
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    root: str = ""
    """The folder of the project: files below it are the project's."""
    origin: str = ""
    """In a copy: the folder that it is a copy of. Installed projects are imported from there."""
    copy: str = ""
    """In a copy: the temporary folder that holds it, with what lies around it."""
    texts: dict[str, str] = field(default_factory=dict)
    """Rewritten texts by the real path of the file that they stand for; all other files are as they are."""
    seed: int = 0
    """With 0 the seeds that the script sets stand; another number shifts each. What it leaves alone gets it."""
    steps: int | None = None
    """Stop after so many optimizer steps (or backwards, where no optimizer is seen); None runs to the end."""
    at_least: float = 0.0
    """Go on after `steps` until so many seconds have passed since the first step."""
    patience: float | None = None
    """Stop after the first optimizer step that ends more than so many seconds after the first of all."""
    pass_batches: int | None = None
    """Every pass over a loader ends after so many batches."""
    batch_scale: int = 1
    """Loaders get batches so many times as large as the script says."""
    mode: str = "record"
    """`record` writes down everything; `turns` only times, and runs when it is told to; `profile` says what binds."""
    batches: bool = False
    """Whether a step is what is done with one batch: for scripts that train nothing."""
    marked: bool = False
    """Whether the texts say where a step is over, and not optimizers; see `training.Marking`."""
    rehearse: tuple[str, ...] = ()
    """What the runtime is made to do although it would not on this machine; see `rehearsal`."""
    overflows: tuple[int, ...] = ()
    """After how many optimizer steps the gradients of the next loss that is scaled are to overflow; scalers are on."""
    perturbation: float = 0.0
    """After the first optimizer step every trained number is multiplied by one plus so much of a standard normal."""
    lines: bool = False
    """Whether to note which lines of the project's files were reached; slower."""
    samples: bool = False
    """Whether samples of evaluations are told from the batches that they come in."""
    own_lines: bool = False
    """Whether lines of rewritten texts are those of these texts."""
    import_original: bool = False
    """Whether who imports the script's file gets what is on disk: its text is that of another file."""
    by_kind: bool = False
    """Whether what is trained is called by its kind and order, and not by the script's names for it."""
    protected: tuple[str, ...] = ()
    """Folders below which no file may be changed that was there before the run."""
    double: bool = False
    """Whether all is computed in float64: what is rounded otherwise stays far below what a mistake makes."""
    stderr: bool = False
    """Whether to note what is written to standard error, too."""
    traced: bool = False
    """Whether to note where losses go backward, and which files are written, where, with what saved in them."""
    rank: int = 0
    """Which of `ranks` processes this is that train together."""
    ranks: int = 1
    meeting: str = ""
    """A folder where those that are stopped wait for one another."""
