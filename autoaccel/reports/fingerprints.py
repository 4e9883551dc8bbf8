"""What names a finding from one commit to the next, when lines above it come and go."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from autoaccel.reports.context import Context
from autoaccel.rewriting.record import Record, Report

_MOST_LINES = 20  # of a finding that spans a whole loop: what is inside changes, and it stays the same finding


def fingerprints(report: Report, context: Context) -> Iterator[tuple[Record, str]]:
    """Each finding of a file with a digest of the file's name, the rule, the code it speaks of, and how many like it
    came before in the file."""
    name = context.name(report.path)
    seen: Counter[tuple[str, ...]] = Counter()
    for finding in report.findings:
        lines = context.lines(report.path, finding.cell)
        code = lines[finding.line - 1 : min(finding.end_line, finding.line + _MOST_LINES - 1)]
        # Indentation and alignment are no part of what the code is.
        key = name, finding.code, *(" ".join(line.split()) for line in code)
        seen[key] += 1
        yield finding, digest(*key, str(seen[key]))


def digest(*parts: str) -> str:
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
