"""`python -m benchmarks.soundness [FOLDER…]`: see README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from autoaccel.jobs.pool import collecting_afterwards
from benchmarks.soundness import properties


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soundness")
    parser.add_argument(
        "folders", nargs="*", type=Path, help="public repositories, checked out; fixtures are always in"
    )
    parser.add_argument("--seeds", type=int, default=4, help="hash seeds and orders to compare")
    parser.add_argument("--every", type=int, default=1, help="only every n-th project (a quick look)")
    parser.add_argument("--start", type=int, default=0, help="the first project: with --every, another part of them")
    parser.add_argument("--root", type=Path, default=properties.ROOT, help="a repository of other fixtures")
    parser.add_argument("--digest", action="store_true", help="print the digest of all rewrites and end")
    options = parser.parse_args()
    part = slice(options.start, None, options.every)
    fixtures, repositories = list(properties.fixtures(options.root)), list(properties.repositories(options.folders))
    projects = [*fixtures, *repositories][part]
    if options.digest:
        with collecting_afterwards():
            print(properties.digest(projects))
        return 0
    arguments = [
        *map(str, options.folders),
        "--root",
        str(options.root),
        "--every",
        str(options.every),
        "--start",
        str(options.start),
    ]
    lower = dict(properties.variants())
    findings, wrong = 0, Counter[str]()
    for given, texts in zip(projects, [*map(properties.alone, fixtures), *repositories][part], strict=True):
        full = properties.said(texts)
        full_given = full if given is texts else properties.said(given)
        findings += sum(map(len, full.values()))
        for name, bounds in lower.items():
            beside = name.partition("=")[0] in properties.BESIDE
            for each in (
                properties.gained(given, bounds, full_given) if beside else properties.gained(texts, bounds, full)
            ):
                wrong[name] += 1
                print(f"gained with {name}: {each}", file=sys.stderr)
        ordered = properties.in_order(texts)
        for seed in range(1, options.seeds):
            shuffled = properties.in_another_order(texts, seed)
            for path in texts:
                for each in sorted(ordered[path] ^ shuffled[path]):
                    wrong["order"] += 1
                    print(f"order {seed}: {path}: {each}", file=sys.stderr)
        if len(texts) > 1:
            with tempfile.TemporaryDirectory() as folder:
                on_disk = given if given is texts else properties.in_a_repository(given, Path(folder, "repository"))
                for each in properties.named_alone(on_disk):
                    wrong["named alone"] += 1
                    print(f"named alone: {each}", file=sys.stderr)
    started = [properties.digest_elsewhere(seed, *arguments) for seed in range(options.seeds)]
    digests = {process.communicate()[0] for process in started}
    wrong["hash seeds"] += len(digests) - 1
    print(f"{len(projects)} projects, {findings} findings\n\n| property | violations |\n|---|---:|")
    for name in (*lower, "order", "named alone", "hash seeds"):
        print(f"| {name} | {wrong[name]} |")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
