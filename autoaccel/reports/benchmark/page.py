"""A benchmark as one HTML page that needs nothing else: no network, no scripts, no fonts."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import PurePath

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from autoaccel import HOME, __version__
from autoaccel.measure.benching.report import BenchReport
from autoaccel.reports.benchmark import charts, quantities, summary

# HTML has no place for these, escaped or not: control characters and lone surrogates (file names that are no text).
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def page(report: BenchReport) -> str:
    """`page.html` filled in. It is read from top to bottom: what was gained, what binds, the figures, and then how and
    on what they were measured."""
    names = (summary.ORIGINAL, summary.AGAIN, summary.REWRITTEN)
    columns = [each for name in names if (each := report.column(name))]
    rewritten, found = report.column(summary.REWRITTEN), report.diagnosis
    filled = _template().render(
        report=report,
        home=HOME,
        version=__version__,
        script=PurePath(report.script).name or report.script,
        columns=columns,
        rewritten=rewritten,
        shares=[each for each in found.shares if 0 < each.share < math.inf] if found else [],
        rules_are_named=found is not None and any(each in found.sentence for each in found.rules),
        figures=[(each.name, *each.cells) for each in summary.figures(columns)],
        contributions=[summary.contribution(each) for each in report.contributions],
        decisions=[
            (each.topic.replace("_", " "), each.value, each.reason)
            for each in (rewritten.decisions if rewritten else ())
        ],
        charts=charts,
        summary=summary,
    )
    return _UNSPEAKABLE.sub("�", filled)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("autoaccel.reports.benchmark", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(bound=quantities.bound, percent=quantities.percent)
    return environment.get_template("page.html")
