"""A small run as reports see it: findings, odd names and characters, a file that cannot be parsed, a useless path.

Records are written by hand, so that goldens change with reports alone.
"""

from __future__ import annotations

from pathlib import Path

from autoaccel.edits import Tier
from autoaccel.reports.context import Context
from autoaccel.rewriting.record import Failure, Range, Record, Report, TextEdit
from autoaccel.rewriting.rule import Rule

TRAIN = """\
import torch

for batch in loader:
\tbatch = batch.to(device)\t# 宽 & "quoted"
\tloss = model(batch)
"""
ODD = '"""Déjà vu."""\r\nx = "é%", torch.zeros(2).cuda()'
TEXTS = {"src/train.py": TRAIN, "src/déjà vu, 1:2.py": ODD}

IMPORT = TextEdit(Range(2, 1, 2, 1), "from autoaccel import runtime as accel\n")

MOVED = Record(
    "AA103",
    "non-blocking",
    "exact",
    "the host waits for this copy to the device",
    Range(4, 10, 4, 26),
    fix=("`batch.to(device)` -> `batch.to(device, non_blocking=True)`",),
    url="https://example.org/non-blocking",
    changes=(TextEdit(Range(4, 1, 5, 1), '\tbatch = batch.to(device, non_blocking=True)\t# 宽 & "quoted"\n'),),
)
FETCHED = Record(
    "AA202",
    "prefetch",
    "exact",
    "the step waits for its batch",
    Range(3, 1, 3, 20),
    fix=("`loader` -> `accel.prefetch(loader, device)`", "`from autoaccel import runtime as accel` among the imports"),
    changes=(IMPORT, TextEdit(Range(3, 1, 4, 1), "for batch in accel.prefetch(loader, device):\n")),
)
CREATED = Record(
    "AA101",
    "create-on-device",
    "equivalent",
    "`torch.zeros` is filled on the host: 100%,\nthen copied <slowly>",
    Range(2, 11, 2, 32),
    fix=('`torch.zeros(2).cuda()` -> `torch.zeros(2, device="cuda")`',),
    url="https://example.org/create-on-device",
    changes=(TextEdit(Range(2, 1, 2, 32), 'x = "é%", torch.zeros(2, device="cuda")'),),
)
DECLINED = Record("AA301", "autocast", "numerics", "the loss is not known", Range(5, 9, 5, 21))

REPORTS = (
    Report(
        "src/broken.py",
        failures=(Failure("src/broken.py:7: cannot parse: bad\tluck \x1b", 7, 3, "", "invalid-syntax"),),
    ),
    Report("src/clean.py"),
    Report("src/déjà vu, 1:2.py", (CREATED,), suppressed=1),
    Report("src/train.py", (FETCHED, MOVED), (DECLINED,)),
)

NON_BLOCKING = Rule("AA103", "non-blocking", Tier.EXACT, (), ("https://example.org/non-blocking",), module=__name__)


def context(**changes: object) -> Context:
    given: dict[str, object] = {
        "here": Path("/home/me/repo"),
        "root": Path("/home/me/repo"),
        "text": TEXTS.__getitem__,
        "rules": lambda: (NON_BLOCKING,),
        "problems": ("none.py: no such file or folder",),
    }
    return Context(**given | changes)  # type: ignore[arg-type]
