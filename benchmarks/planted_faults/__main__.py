"""`python -m benchmarks.planted_faults [--only TEXT] [--state FILE] …`; see README.md."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from autoaccel import sources
from autoaccel.analysis import Project
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.verifying.originals import STEPS, Limits
from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.engine import Analysis
from autoaccel.rewriting.rule import Rule
from benchmarks.planted_faults import judging
from benchmarks.planted_faults.catalogue import Fault, faults
from benchmarks.planted_faults.planting import alone, plant
from benchmarks.planted_faults.running import distributing, judged
from tests.measure.forking import Forking, ForkingRanks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="faults whose name contains this")
    parser.add_argument(
        "--state", type=Path, default=Path("planted_faults.jsonl"), help="verdicts, where a run goes on"
    )
    parser.add_argument("--again", action="store_true", help="verify again what has a verdict already")
    parser.add_argument("--missed", action="store_true", help="verify again what was missed")
    parser.add_argument("--steps", type=int, default=STEPS, help="optimizer steps of each run")
    parser.add_argument("--report", type=Path, metavar="FILE", help="all verdicts so far, in Markdown")
    parser.add_argument("--show", action="store_true", help="only show what is planted, as a diff to the right rewrite")
    arguments = parser.parse_args()
    chosen = list(faults(tuple(arguments.only)))
    if arguments.show:
        for fault in chosen:
            print(f"# {fault.name}: {fault.wrong}\n{shown(fault)}")
        return 0
    known = judging.known(arguments.state)
    ranks = max((fault.ranks for fault in chosen), default=0)
    launches: list[int] = []

    def launch(request: Request, environment: Mapping[str, str], folder: Path, count: int) -> tuple[RunRecord, ...]:
        launches.append(count)
        return together.run(request, environment, folder, count)

    with Forking() as forking, ForkingRanks(forking, ranks) as together:
        for fault in chosen:
            verdict = known.get(fault.name)
            if verdict is None or arguments.again or (arguments.missed and not verdict.killed):
                verdict = judged(fault, forking.run, Limits(steps=arguments.steps, at_least=0.0), launch)
                judging.keep(verdict, arguments.state)
            state = "killed" if verdict.killed else "caught" if verdict.caught else "MISSED"
            print(
                f"{state:7} {verdict.seconds:6.1f} s  {fault.name:50} {verdict.planted:30} {_told(verdict)}", flush=True
            )
    verdicts = judging.known(arguments.state)
    # In the order of the catalogue, without faults that it no longer has.
    verdicts = {fault.name: verdicts[fault.name] for fault in faults() if fault.name in verdicts}
    killed, every = judging.score(verdicts)
    print(f"mutation score: {killed} of {every}; launches of several ranks: {len(launches)}")
    if arguments.report:
        arguments.report.write_text(judging.page(verdicts), encoding="utf-8")
    unexpected = [each for each in verdicts.values() if not each.killed and not each.unseen]
    return 1 if unexpected else 0


def _told(verdict: judging.Verdict) -> str:
    if verdict.killed:
        return verdict.first
    return f"named {', '.join(verdict.named)}: {verdict.first}" if verdict.caught else verdict.status


def shown(fault: Fault) -> str:
    """What the fault does to the rewritten file, as a diff."""
    if fault.by_hand[0]:
        before, after = fault.path.read_text(encoding="utf-8"), fault.other_version
        return "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    folder = fault.path.parent
    rules = distributing(folder).rules if fault.ranks else [rule for rule in registry.rules() if not rule.opt_in]
    paths = tuple(sorted(folder.glob("*.py"))) if fault.file else (fault.path,)
    analysis = _analysis(fault.planted_in, paths, tuple(rules))
    altered, _ = plant(analysis, fault.plant)
    right, wrong = (engine.apply(each, each.findings).splitlines(keepends=True) for each in (analysis, altered))
    name = fault.planted_in.name
    return "".join(difflib.unified_diff(right, wrong, f"right/{name}", f"wrong/{name}", n=1))


@cache
def _analysis(path: Path, paths: tuple[Path, ...], rules: tuple[Rule, ...]) -> Analysis:
    texts = {alone(each): sources.read(each).text for each in paths}
    return engine.analyse(texts[alone(path)], alone(path), rules, project=Project(texts, texts))


if __name__ == "__main__":
    sys.exit(main())
