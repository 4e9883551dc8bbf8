"""How two versions of a script are compared, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.measure.verifying.originals import Limits
from autoaccel.measure.verifying.report import Verdict, Verification

Compare = Callable[..., Verification]
LIMITS = Limits(steps=8, patience=None, at_least=0.0)


def reasons(report: Verification) -> list[str]:
    return [each.reason for each in report.of(Verdict.FAILED)]
