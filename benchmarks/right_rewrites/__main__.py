"""`python -m benchmarks.right_rewrites --corpus DIR [--state FILE] …`; see README.md."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from benchmarks.right_rewrites.cases import cases
from benchmarks.right_rewrites.reporting import page
from benchmarks.right_rewrites.verifying import keep, known, verified
from tests.measure.forking import Forking


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="the folder with the public repositories, side by side")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--state", type=Path, default=Path("right_rewrites.jsonl"), help="where a run goes on")
    parser.add_argument("--again", action="store_true", help="verify again what has a verdict already")
    parser.add_argument("--open", action="store_true", help="verify again what did not end with the verdict `same`")
    parser.add_argument("--report", type=Path, metavar="FILE", help="all verdicts so far, in Markdown")
    parser.add_argument("--forks", action="store_true", help="fork runs from a process that has torch: faster")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    arguments = parser.parse_args()
    chosen = cases(tuple(arguments.only))
    if arguments.list:
        print(*(each.key for each in chosen), sep="\n")
        return 0
    before = known(arguments.state, forked=False)
    if arguments.forks:
        before |= known(arguments.state, forked=True)
    with Forking() if arguments.forks else contextlib.nullcontext() as forking:
        for case in chosen:
            verdict = before.get(case.key)
            if verdict is None or arguments.again or (arguments.open and verdict.status not in ("same", "nothing")):
                verdict = verified(case, arguments.corpus, None if forking is None else forking.run)
                keep(verdict, arguments.state)
            counts = ", ".join(f"{number} {what}" for what, number in verdict.counts)
            print(f"{verdict.status:10} {verdict.seconds:6.1f} s  {case.key:80} {counts} {verdict.said}", flush=True)
    commands = known(arguments.state, forked=False)
    found = commands | known(arguments.state, forked=True)
    verdicts = [found[case.key] for case in cases() if case.key in found]
    counted = [each for each in verdicts if each.counted]
    alarms = sum(each.false_alarm for each in counted)
    print(f"{len(counted)} verifications, {alarms} false alarms")
    if arguments.report:
        arguments.report.write_text(page(verdicts, commands), encoding="utf-8")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
