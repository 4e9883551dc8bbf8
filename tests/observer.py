"""Runs scripts under the observer of `benchmarks/public_scripts`, each in a process forked from one that has torch.

Importing torch takes longer than training a small script. The server (this file as a program) imports it once; every
line on its standard input is a request, for which it forks, and answers with the exit status of the fork.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
OBSERVE = REPOSITORY / "benchmarks" / "public_scripts" / "observe.py"
STANDINS = REPOSITORY / "tests" / "standins"


@dataclass(frozen=True)
class Run:
    """What one run did: `record` is what the observer wrote down."""

    record: dict[str, Any]
    output: str

    def same_training(self) -> dict[str, Any]:
        """What must be equal for two runs to have trained the same."""
        return {key: value for key, value in self.record.items() if key != "seconds"}


class Observer:
    """The client's side of the server; a context manager."""

    def __enter__(self) -> Observer:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AUTOACCEL_")}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join([str(STANDINS), str(REPOSITORY)]),
                "PYTHONHASHSEED": "0",
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
                "MPLBACKEND": "Agg",
                "STANDIN_SAMPLES": "256",
                "STANDIN_TEST_SAMPLES": "100",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.communicate()

    def run(self, script: Path, variables: dict[str, str]) -> Run:
        """Run a script in its own folder; fails with what it wrote to stderr unless it ends well."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"script": str(script), "variables": variables}) + "\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        assert status == 0, (script.parent / "stderr").read_text(encoding="utf-8")
        record = json.loads((script.parent / "record.json").read_text(encoding="utf-8"))
        return Run(record, (script.parent / "stdout").read_text(encoding="utf-8"))


def _serve() -> None:
    importlib.import_module("torch._dynamo")  # the first optimizer step would import it, in every fork
    observe = _load(OBSERVE)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _observe(observe, Path(request["script"]), request["variables"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _observe(observe: ModuleType, script: Path, variables: dict[str, str]) -> None:
    """In the fork: become `python script.py` under observation; does not return."""
    os.chdir(script.parent)
    os.environ.update(variables)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
    try:
        observe.main(Path("record.json").resolve(), {"stop_after": 10_000, "count": "step", "shims": []}, script, [])
    finally:
        os._exit(1)  # the observer ends the process itself


if __name__ == "__main__":
    _serve()
