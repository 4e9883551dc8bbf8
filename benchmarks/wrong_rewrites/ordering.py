"""Rewriters in processes of their own, with other hash seeds and other orders, which must say the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2]


class Others:
    """One such process, which starts when it is asked for the first time."""

    def __init__(self, seed: int, backwards: bool, planted: str = "") -> None:
        self._name = f"hash seed {seed}{', files and rules backwards' if backwards else ''}"
        self._seed = seed
        self._arguments = ["backwards" if backwards else "forwards", planted]

    @cached_property
    def _process(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.wrong_rewrites.ordering", *self._arguments],
            env={
                **os.environ,
                "PYTHONHASHSEED": str(self._seed),
                "PYTHONPATH": os.pathsep.join([str(_PROJECT), str(_PROJECT / "codemods")]),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __str__(self) -> str:
        return self._name

    def send(self, texts: Mapping[str, str]) -> None:
        """Ask for the rewritten form of a program."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dict(texts)) + "\n")
        self._process.stdin.flush()

    def receive(self) -> str:
        """The digest of what was asked for first."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        if "_process" in vars(self):
            self._process.communicate()


def _serve(backwards: bool, planted: str) -> None:
    from benchmarks.wrong_rewrites import rewriting
    from benchmarks.wrong_rewrites.planted import RULES

    rules = [RULES[planted]] if planted else None
    for line in sys.stdin:
        print(rewriting.digest(rewriting.default_form(json.loads(line), rules, backwards=backwards)), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1] == "backwards", sys.argv[2])
