"""`python -m benchmarks.wrong_rewrites [--count N | --minutes M] …`; see README.md."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.wrong_rewrites import planted, reporting, running
from benchmarks.wrong_rewrites.hunting import SAME_KIND, Caught, Hunt, Tally
from benchmarks.wrong_rewrites.ordering import Others

_BATCH = 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--minutes", type=float, help="how long; without this and --count one minute")
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others follow")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", action="append", default=[], metavar="NAME=OPTION", help="programs with this feature")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the table, in Markdown")
    parser.add_argument("--finds", type=Path, default=Path("wrong_rewrites"), metavar="DIR", help="where finds go")
    parser.add_argument("--planted", choices=planted.RULES, help="this wrong rule and no other: it must be found")
    parser.add_argument("--first", action="store_true", help="end with the first find")
    parser.add_argument("--fast", action="store_true", help="without workers and captured graphs")
    arguments = parser.parse_args()
    running.warm()
    began = time.monotonic()
    context = multiprocessing.get_context("fork")
    queue: Any = context.Queue()
    workers = [context.Process(target=_work, args=(arguments, number, queue)) for number in range(arguments.jobs)]
    for each in workers:
        each.start()
    tally = Tally()
    for _ in workers:
        tally.add(queue.get())
    for each in workers:
        each.join()
    text = reporting.table(tally, time.monotonic() - began)
    print(text)
    if arguments.report:
        arguments.report.write_text(f"# Wrong rewrites\n\n{text}\n", encoding="utf-8")
    return 1 if tally.kinds else 0


def _work(arguments: argparse.Namespace, number: int, queue: Any) -> None:
    fixed = dict(each.split("=", 1) for each in arguments.only)
    minutes = arguments.minutes if arguments.minutes or arguments.count else 1.0
    others = [Others(11, False, arguments.planted or ""), Others(12, True, arguments.planted or "")]

    def tell(caught: Caught) -> None:
        home = reporting.keep(caught, arguments.finds)
        print(f"{home}: {caught.find.what}", flush=True)

    rules = [planted.RULES[arguments.planted]] if arguments.planted else None
    hunt = Hunt(rules, others, tell, slow=not arguments.fast, same_kind=1 if arguments.first else SAME_KIND)
    gc.disable()  # once in a batch is enough
    began = told = time.monotonic()
    seed = arguments.seed + number
    try:
        while True:
            left = 1 if arguments.first else _BATCH
            if arguments.count:
                left = min(
                    left, (arguments.count + arguments.jobs - 1 - number) // arguments.jobs - hunt.tally.programs
                )
            if arguments.first and hunt.tally.kinds:
                break
            if left <= 0 or (minutes and time.monotonic() - began > 60 * minutes):
                break
            hunt.look([seed + arguments.jobs * index for index in range(left)], fixed)
            gc.collect()
            seed += arguments.jobs * left
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(f"{hunt.tally.programs} programs, {sum(hunt.tally.kinds.values())} finds", file=sys.stderr)
    finally:
        queue.put(hunt.tally)
        for each in others:
            each.close()


if __name__ == "__main__":
    sys.exit(main())
