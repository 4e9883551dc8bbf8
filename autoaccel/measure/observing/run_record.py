"""What was seen of one run: plain data, which comes from its process as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoaccel.measure.observing.messages import Message

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
KERNELS = ("capturable", "foreach", "fused")
"""Options of optimizers that say by which kernels they update, which may be decided when they run."""


@dataclass(frozen=True, slots=True)
class RunFailure(Message):
    """Why a run failed: one line for the user, and the traceback as Python would have printed it."""

    kind: str
    """The exception's type, `exit status`, `signal`, `timeout`, `overwrites` (a protected file), or `died`."""
    message: str
    where: str = ""
    """`file:line` of the innermost frame that is the project's own."""
    traceback: str = ""
    status: int | None = None
    """The exit status, where the script itself chose to end with one."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One root of one backward, unscaled. `exact` is without rounding: hexadecimal, or a hash of several numbers."""

    exact: str
    value: float | None
    """None where the root is not a single number."""
    step: int
    """How many optimizer steps had been made."""
    where: str = ""
    """`file:line` of the project from which it went backward, of a run that is traced."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the state after the last step."""

    name: str
    kind: str
    """parameter, buffer, optimizer, or saved: in a file."""
    dtype: str
    shape: tuple[int, ...]
    digest: str
    """Of its bytes: equal digests are equal bits."""
    norm: float
    """Euclidean, in float64."""
    sketch: tuple[float, ...]
    """Projections on fixed random directions of length one per element, which depend on the number of elements alone:
    the mean square of two tensors' differences here estimates the square of the norm of their difference."""
    is_saved: bool = True
    """False of a buffer that no checkpoint holds, such as a mask that is kept rather than made in each step."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One iteration over a DataLoader in the process of the script."""

    loader: int
    """Which loader, in the order in which they were first iterated."""
    length: int | None
    """`len(loader)`, None where it has none."""
    batches: tuple[str, ...]
    """A hash of each batch that the loop got, before anything was done with it."""
    complete: bool
    """Whether the loader ran out of batches of its own."""
    draws: tuple[str, ...] = ()
    """Streams that the dataset drew random numbers from, as far as it works in this process: python, numpy, torch."""
    samples: str = ""
    """A hash of all samples in their order, whatever batches they came in: of a complete pass in which nothing went
    backward, where it was asked for."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the runtime decided, and why."""

    topic: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Written:
    """A file that the script's own process opened to write to."""

    path: str
    where: str
    """`file:line` of the project, the first time."""
    holds: tuple[str, ...] = ()
    """What `torch.save` put there the last time: a line for each leaf, with its keys and what sort of value it is."""
    contents: tuple[str, ...] = ()
    """What is in it at the end: the lines of a text, a hash for each line of `holds`, or one of all bytes; nothing
    where it is gone."""
    is_text: bool = False
    numbers: tuple[Entry, ...] = ()
    """Of what it holds that may be rounded, named by its line of `holds`: how large it is, and its sketch."""
    is_gone: bool = False
    """Whether it is not there at the end: it was written beside its place, or removed."""


@dataclass(frozen=True, slots=True)
class RunRecord(Message):
    """One run."""

    ending: str
    failure: RunFailure | None = None
    losses: tuple[Loss, ...] = ()
    steps: int = 0
    """Optimizer steps, those that a scaler left out included."""
    backwards: int = 0
    skipped_steps: int = 0
    """Steps that a scaler left out because gradients overflowed."""
    optimizers: int = 0
    scalers: int = 0
    """Gradient scalers that were made, whether or not they are on."""
    overflows: int = 0
    """Of gradients, that were provoked."""
    scales: tuple[float, ...] = ()
    """Of each scaler of torch's that scaled a loss its scale at the end, in a run with overflows."""
    state: tuple[Entry, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    """What else is state, by name, exactly spelled: groups of optimizers (lr, weight decay …), schedulers, and whether
    modules are in training mode."""
    random: dict[str, str] = field(default_factory=dict)
    """Where each stream of random numbers stands, as a hash: python, numpy, torch, cuda:0 …"""
    passes: tuple[Pass, ...] = ()
    printed: tuple[str, ...] = ()
    """The lines of the script's standard output."""
    errors: tuple[str, ...] | None = None
    """The lines of its standard error, where they were asked for."""
    marks: dict[str, int] = field(default_factory=dict)
    """How often something was seen that no good rewrite does; the key is a phrase for the user."""
    decisions: tuple[Decision, ...] = ()
    written: tuple[Written, ...] = ()
    """Files of the project, and others that may not be changed."""
    files: tuple[str, ...] = ()
    """The project's files that were run or imported, by real path, the script first."""
    reached: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Lines of the files as they are on disk that were run, by real path."""
    seconds: float = 0.0
    """Since the process was started."""
    device: str = "cpu"
    """The type of device that parameters of the optimizers are on."""
    torch: str = ""
    python: str = ""
    profile: dict[str, float] = field(default_factory=dict)
    """Of a run in the mode `profile`: where the time of a step goes, by class (`timelines.CLASSES`), in shares
    that add up to 1; empty if it was too short."""

    @property
    def exit_status(self) -> int | None:
        """With which the script came to its end; None where it was stopped, or something went wrong."""
        if self.ending == FINISHED:
            return 0
        return None if self.failure is None else self.failure.status

    @property
    def went_wrong(self) -> bool:
        """Whether it failed, and did not choose to end the way it did."""
        return self.ending == FAILED and self.exit_status is None
