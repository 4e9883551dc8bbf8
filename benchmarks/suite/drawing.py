"""A run of the suite as a picture: times faster than the original, on a logarithmic axis, as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from autoaccel.reports.benchmark.plotting import Axis
from benchmarks.suite.catalogue import ACCELERATE, CAPTURED, COMPILED, DEFAULT, EXACT, EXPERT, FABRIC, LIMIT
from benchmarks.suite.results import Result, Run

_SHOWN = {
    # column: colour, shape; readable on light and dark ground
    LIMIT: ("#9a9a9a", "bar"),
    EXACT: ("#8fb8de", "dot"),
    COMPILED: ("#d0587e", "dot"),
    CAPTURED: ("#8f2d56", "dot"),
    FABRIC: ("#b07cc6", "dot"),
    ACCELERATE: ("#cf8a3c", "dot"),
    EXPERT: ("#3f9e6b", "dot"),
    DEFAULT: ("#2266cc", "large"),
}
_LEFT, _RIGHT, _TOP, _ROW, _WIDTH = 110.0, 60.0, 56.0, 26.0, 860.0

_STYLE = (
    "text{fill:#333}.quiet{fill:#777}.grid{stroke:#ccc}.one{stroke:#666}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.quiet{fill:#aaa}.grid{stroke:#444}.one{stroke:#aaa}}"
)


def draw(run: Run) -> str:
    """The whole picture."""
    highest = max([2.0, *(ratio for each in run.results for name in _SHOWN if (ratio := each.speedup(name)))])
    lowest = min([0.8, *(ratio for each in run.results for name in _SHOWN if (ratio := each.speedup(name)))])
    scale = Axis(lowest * 0.95, highest * 1.1, _LEFT, _WIDTH - _RIGHT, logarithmic=True)
    bottom = _TOP + _ROW * len(run.results)
    hardware = run.machine.get("accelerator" if run.device == "cuda" else "processor", "")
    title = f"Times faster than the plain script, {hardware}"
    parts = [*_axis(scale, bottom), *_legend(run)]
    for number, each in enumerate(run.results):
        parts += _row(each, _TOP + _ROW * (number + 0.5), scale)
    size = f"0 0 {_WIDTH:.0f} {bottom + 30:.0f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text x="{_LEFT:.0f}" y="18" font-weight="600">{escape(title)}</text>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _axis(scale: Axis, bottom: float) -> Iterator[str]:
    for tick, label in scale.labelled(8):
        x, kind = scale(tick), "one" if tick == 1.0 else "grid"
        yield f'<line x1="{x:.1f}" y1="{_TOP:.0f}" x2="{x:.1f}" y2="{bottom:.0f}" class="{kind}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18:.0f}" text-anchor="middle" class="quiet">{label}x</text>'


def _legend(run: Run) -> Iterator[str]:
    x = _LEFT
    for name, (colour, shape) in reversed(_SHOWN.items()):
        if any(each.speedup(name) for each in run.results):
            yield _mark(x + 5, 38, colour, shape, "")
            yield f'<text x="{x + 15:.0f}" y="42">{name}</text>'
            x += 34 + 7.5 * len(name)


def _row(result: Result, y: float, scale: Axis) -> Iterator[str]:
    kind = ' class="quiet"' if result.control else ""
    yield f'<text x="{_LEFT - 12:.0f}" y="{y + 4:.1f}" text-anchor="end"{kind}>{escape(result.id)}</text>'
    for name, (colour, shape) in _SHOWN.items():
        column = result.column(name)
        if column is None or column.ratio is None:
            continue
        ratio = column.ratio
        if name == DEFAULT:
            low, high = scale(ratio.low), scale(ratio.high)
            yield f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="3"/>'
        yield _mark(scale(ratio.median), y, colour, shape, f"{result.id}, {name}: {ratio.median:.2f}x")


def _mark(x: float, y: float, colour: str, shape: str, hint: str) -> str:
    told = f"<title>{escape(hint)}</title>" if hint else ""
    if shape == "bar":
        return f'<rect x="{x - 1.5:.1f}" y="{y - 8:.1f}" width="3" height="16" fill="{colour}">{told}</rect>'
    radius = 6.5 if shape == "large" else 4.5
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">{told}</circle>'
