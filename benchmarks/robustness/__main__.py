"""`python -m benchmarks.robustness DIR... [--state FILE] [--limit N] …`; see README.md."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.robustness.commands import problems, sample
from benchmarks.robustness.reporting import Tally, page, tally, text
from benchmarks.robustness.running import Effort, collect, known, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--state", type=Path, default=Path("robustness.jsonl"), help="verdicts, where a run goes on")
    parser.add_argument("--all-rules", type=int, default=50, metavar="N", help="every N-th file under every rule")
    parser.add_argument("--probes", type=int, default=5, metavar="N", help="every N-th file with probes")
    parser.add_argument("--limit", type=int, help="so many files, drawn by chance")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time for one file")
    parser.add_argument("--commands", type=int, default=0, metavar="N", help="afterwards the commands, on 2 N files")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the counts of all verdicts so far, in Markdown")
    arguments = parser.parse_args()
    items = list(collect(arguments.folders))
    print(f"{len(items)} different files", file=sys.stderr)
    if arguments.limit is not None and arguments.limit < len(items):
        chosen = set(random.Random(0).sample(range(len(items)), arguments.limit))
        items = [item for index, item in enumerate(items) if index in chosen]
    result = Tally()
    for verdict in run(items, arguments.state, Effort(arguments.all_rules, arguments.probes, arguments.seconds)):
        for kind, said in verdict.problems:
            print(f"{kind}: {verdict.path}: {said}", file=sys.stderr)
        result.add(verdict)
    print(text(result))
    if arguments.report:
        arguments.report.write_text(page(tally(known(arguments.state).values())), encoding="utf-8")
    wrong = []
    if arguments.commands:
        files = sample(list(known(arguments.state).values()), arguments.commands)
        with tempfile.TemporaryDirectory() as place:
            wrong = list(problems(files, Path(place)))
        print(f"\ncommands on {len(files)} files: {len(wrong)} problems", *wrong, sep="\n  ")
    return 1 if result.problems or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
