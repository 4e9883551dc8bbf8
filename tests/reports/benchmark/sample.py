"""Benchmarks as the page sees them, made by hand: a rich one, and all that can be missing or odd."""

from __future__ import annotations

import dataclasses
import math
import random

from autoaccel.measure.benching.report import (
    BenchReport,
    BreakEven,
    Column,
    Contribution,
    Diagnosis,
    Interval,
    TimeShare,
)
from autoaccel.measure.observing.run_record import Decision

_MIB = 1 << 20


def times(typical: float, count: int, *, seed: int, slow: float = 0.02) -> tuple[float, ...]:
    """Step times as they are: skewed to the right, a few of them far out."""
    draw = random.Random(seed)
    return tuple(
        typical * (0.93 + draw.lognormvariate(-2.7, 0.5)) * (2.5 + draw.random() if draw.random() < slow else 1.0)
        for _ in range(count)
    )


def losses(count: int, *, seed: int = 1, noise: float = 0.15) -> tuple[tuple[int, float], ...]:
    draw = random.Random(seed)
    return tuple(
        (step, (0.25 + 2.05 * math.exp(-step / (count / 5 + 1))) * (1 + noise * draw.gauss(0, 1) / 2))
        for step in range(count)
    )


def column(
    name: str,
    typical: float,
    *,
    count: int = 240,
    seed: int = 1,
    speedup: Interval | None = None,
    start: float = 3.1,
    changes: int = 0,
    loader: float = 0.41,
    losses: tuple[tuple[int, float], ...] = (),
    decisions: tuple[Decision, ...] = (),
) -> Column:
    step_times = times(typical, count, seed=seed)
    warm_up = 20
    return Column(
        name=name,
        changes=changes,
        steps=count,
        step_times=step_times,
        samples_per_second=Interval(64 / typical, 63 / typical, 64.8 / typical),
        step_seconds=Interval(typical, typical * 0.985, typical * 1.017),
        speedup=speedup or Interval(1.0, 1.0, 1.0),
        first_step_seconds=start,
        total_seconds=start + typical * warm_up + sum(step_times),
        total_steps=count + warm_up,
        loader_share=loader,
        host_memory=812 * _MIB,
        device_memory=1433 * _MIB,
        device_busy=0.37 if name != "rewritten" else 0.81,
        losses=losses,
        decisions=decisions,
    )


DECISIONS = (
    Decision("device", "cuda", "the current accelerator"),
    Decision("amp", "bfloat16", "compute capability 9.0 has bfloat16"),
    Decision("grad_scaler", "False", "needed for float16 only"),
    Decision("compile", "default", "work on cuda profits"),
    Decision("loader_workers", "4", "16 cores, 1 process; the dataset reads files"),
    Decision("prefetch", "2", "batches are copied to the device ahead of the step"),
)
DIAGNOSIS = Diagnosis(
    "The loader binds: 41 % of a step the script waits for its next batch, which AA201 and AA202 address.",
    (
        TimeShare("loader", 0.41),
        TimeShare("compute", 0.27),
        TimeShare("launch", 0.13),
        TimeShare("optimizer", 0.09),
        TimeShare("transfer", 0.05),
        TimeShare("sync", 0.035),
        TimeShare("other", 0.015),
    ),
    ("AA201", "AA202"),
)
CONTRIBUTIONS = (
    Contribution("AA101", "create-on-device", 2, Interval(1.01, 0.99, 1.03), Interval(1.83, 1.78, 1.88)),
    Contribution("AA103", "non-blocking", 2, Interval(1.03, 1.01, 1.05), Interval(1.80, 1.76, 1.85)),
    Contribution("AA201", "loader-workers", 1, Interval(1.38, 1.33, 1.43), Interval(1.31, 1.27, 1.35)),
    Contribution("AA202", "prefetch", 1, None, Interval(1.77, 1.72, 1.81)),
    Contribution("AA301", "autocast", 3, Interval(1.12, 1.09, 1.15), Interval(1.58, 1.53, 1.63)),
    Contribution("AA501", "compile", 1, Interval(0.98, 0.96, 0.995), Interval(1.70, 1.65, 1.75)),
)
_LOSSES = losses(260)

RICH = BenchReport(
    script="examples/cifar/train.py",
    command="autoaccel bench examples/cifar/train.py --steps 240 --ablate --html cifar.html -- --epochs 2 --lr 0.1",
    machine={
        "device": "NVIDIA A100, 80 GiB",
        "processor": "16 cores",
        "torch": "2.13.0+cu130",
        "python": "3.11.9",
        "system": "Linux 6.8 x86_64",
    },
    diagnosis=DIAGNOSIS,
    columns=(
        column("original", 0.0149, seed=1, losses=_LOSSES),
        column("again", 0.0149, seed=2, speedup=Interval(1.002, 0.989, 1.013), losses=_LOSSES),
        column(
            "rewritten",
            0.0081,
            seed=3,
            speedup=Interval(1.84, 1.79, 1.90),
            start=5.9,
            changes=10,
            loader=0.02,
            losses=tuple((step, loss * (1 + 0.004 * math.sin(step))) for step, loss in _LOSSES),
            decisions=DECISIONS,
        ),
    ),
    break_even=BreakEven(412, measured=False),
    contributions=CONTRIBUTIONS,
    notes=(
        "The run is short: 240 steps were timed, after 20 of warm-up.",
        "GPU time was sampled; short kernels are seen less well.",
    ),
)


def replaced(report: BenchReport, name: str, **changes: object) -> BenchReport:
    """The report with one column changed."""
    columns = tuple(
        dataclasses.replace(each, **changes) if each.name == name else each  # type: ignore[arg-type]
        for each in report.columns
    )
    return dataclasses.replace(report, columns=columns)


def without(report: BenchReport, *names: str) -> BenchReport:
    """The report with columns left out."""
    return dataclasses.replace(report, columns=tuple(each for each in report.columns if each.name not in names))


SAME = dataclasses.replace(
    replaced(
        replaced(
            replaced(RICH, "again", device_memory=0),
            "rewritten",
            speedup=Interval(1.004, 0.988, 1.021),
            step_times=times(0.0148, 240, seed=5),
            step_seconds=Interval(0.0148, 0.0146, 0.0151),
            losses=_LOSSES,
            first_step_seconds=3.2,
            total_seconds=7.4,
            device_memory=0,
        ),
        "original",
        device_memory=0,
    ),
    script="train.py",
    command="autoaccel bench train.py",
    contributions=(),
    break_even=BreakEven(None, measured=False),
    machine={"processor": "2 cores", "torch": "2.13.0+cpu", "python": "3.11.2"},
    notes=(),
)
SLOWER = dataclasses.replace(
    replaced(RICH, "rewritten", speedup=Interval(0.71, 0.68, 0.73), step_seconds=Interval(0.021, 0.0207, 0.0213)),
    break_even=BreakEven(None, measured=False),
    contributions=(),
    diagnosis=None,
)
HUGE = dataclasses.replace(
    replaced(
        replaced(
            RICH,
            "rewritten",
            speedup=Interval(24.6, 23.1, 26.0),
            step_times=times(0.00061, 12_000, seed=8, slow=0.001),
            steps=12_000,
            step_seconds=Interval(0.00061, 0.0006, 0.00062),
            samples_per_second=Interval(104_918.0, 103_000.0, 106_200.0),
            first_step_seconds=41.0,
            total_seconds=41.0 + 8.2,
            total_steps=12_100,
            losses=losses(12_100),
        ),
        "original",
        step_times=times(0.0149, 12_000, seed=9, slow=0.001),
        steps=12_000,
        total_seconds=185.0,
        total_steps=12_100,
        losses=losses(12_100),
    ),
    break_even=BreakEven(2_648, measured=True),
)
_ADVERSARIAL = tuple(
    (step, loss)
    for step in range(120)
    for loss in (0.7 + 0.05 * math.sin(step), 0.65 - 0.001 * step, 2.1 + 0.01 * step)
)
ADVERSARIAL = replaced(
    replaced(RICH, "original", losses=_ADVERSARIAL),
    "rewritten",
    losses=_ADVERSARIAL[:200] + tuple((step, math.nan) for step, _ in _ADVERSARIAL[200:]),
)
NASTY = dataclasses.replace(
    replaced(RICH, "rewritten", decisions=(Decision("<b>", "'\"&", "</td><script>alert(1)</script>"),)),
    script="</title><script>alert('x')</script>\udcff\x00.py",
    command="autoaccel bench '<img src=x onerror=alert(1)>' && echo \"&amp;\"",
    machine={"<i>": '"><svg onload=alert(1)>'},
    diagnosis=Diagnosis("<script>alert(2)</script> binds", (TimeShare("<u>", 1.0),), ("<AA>",)),
    contributions=(Contribution("<AA1>", "</svg><script>", 1, Interval(1.1, 1.0, 1.2), None),),
    notes=("]]><!-- & --><script>alert(3)</script>",),
)
BARE = BenchReport(
    script="train.py",
    command="autoaccel bench train.py",
    machine={},
    diagnosis=None,
    columns=(
        dataclasses.replace(
            column("original", 0.002, count=0),
            samples_per_second=None,
            device_memory=0,
            device_busy=None,
            losses=(),
            step_times=(),
            steps=0,
            total_steps=0,
            total_seconds=0.0,
            step_seconds=Interval(math.nan, math.nan, math.nan),
            speedup=Interval(math.nan, math.nan, math.nan),
        ),
    ),
    break_even=BreakEven(None, measured=False),
    notes=("The rewritten script failed: ModuleNotFoundError: No module named 'timm' (train.py:3).",),
)
NOTHING = BenchReport("train.py", "autoaccel bench train.py", {}, None, (), BreakEven(None, measured=False))
FEW = dataclasses.replace(
    replaced(
        replaced(
            RICH,
            "rewritten",
            step_times=(1.9, 2.1, 2.0),
            steps=3,
            total_steps=4,
            total_seconds=9.0,
            first_step_seconds=3.0,
            losses=((0, 2.3), (1, math.inf), (2, 1.9)),
            step_seconds=Interval(2.0, 1.9, 2.1),
        ),
        "original",
        step_times=(3.0, 3.0, 3.0),
        steps=3,
        total_steps=4,
        total_seconds=13.0,
        first_step_seconds=4.0,
        losses=((0, 2.3), (1, 2.1), (2, 1.9)),
        step_seconds=Interval(3.0, 3.0, 3.0),
    ),
    break_even=BreakEven(0, measured=True),
    contributions=CONTRIBUTIONS[:1],
)

FAR_AWAY = dataclasses.replace(
    replaced(RICH, "rewritten", speedup=Interval(1.02, 1.015, 1.025), step_seconds=Interval(0.0146, 0.0145, 0.0147)),
    break_even=BreakEven(1_250_000, measured=False),
)

REPORTS = {
    "rich": RICH,
    "same": SAME,
    "slower": SLOWER,
    "huge": HUGE,
    "adversarial": ADVERSARIAL,
    "nasty": NASTY,
    "bare": BARE,
    "nothing": NOTHING,
    "few": FEW,
    "no rewritten": without(RICH, "rewritten"),
    "no again": without(RICH, "again"),
    "ahead at once": dataclasses.replace(RICH, break_even=BreakEven(0, measured=True)),
    "far away": FAR_AWAY,
}
