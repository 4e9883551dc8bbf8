"""The measurements as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

_PEER = "torchfix"


def report(trees: Mapping[str, Any]) -> str:
    """`throughput.md`, of what `throughput.json` holds."""
    lines = [
        "# Throughput of `autoaccel lint`",
        "",
        "Files per second of CPU time (the whole process tree, the start of the interpreter included). Made by",
        "`python -m benchmarks.throughput`; how it is measured is in [its README](../throughput/README.md).",
    ]
    for name, measured in trees.items():
        lines += ["", *_tree(name, measured)]
    return "\n".join(lines) + "\n"


def _tree(name: str, measured: Mapping[str, Any]) -> Iterator[str]:
    facts, versions = measured["facts"], measured["versions"]
    at = f" at {facts['revision']}" if facts["revision"] else ""
    yield f"## {name}"
    yield ""
    yield (
        f"{facts['files']:,} Python files{at}, {facts['size'] / 1e6:.1f} MB, {facts['with_torch']:,} mention torch. "
        f"{', '.join(f'{key} {value}' for key, value in versions.items())}."
    )
    yield ""
    yield "| contender | CPU-s (best) | CPU-s (median) | wall s | rounds | files per CPU-s | against TorchFix |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in measured["runs"]:
        groups.setdefault(run["contender"], []).append(run)
    peer = min((run["cpu"] for run in groups.get(_PEER, ())), default=None)
    for contender, runs in groups.items():
        best = min(run["cpu"] for run in runs)
        ratio = "" if peer is None or contender == _PEER else f"{peer / best:,.0f}x"
        yield (
            f"| {contender} | {best:.2f} | {statistics.median(run['cpu'] for run in runs):.2f} "
            f"| {min(run['wall'] for run in runs):.2f} | {len(runs)} | {facts['files'] / best:,.1f} | {ratio} |"
        )
