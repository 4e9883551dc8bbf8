"""One observed run: a fresh copy of the repository, generated inputs, a process of its own, a time limit."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.public_scripts import inputs
from benchmarks.public_scripts.manifest import Run

PROJECT = Path(__file__).resolve().parents[2]
STANDINS = PROJECT / "tests" / "standins"
OBSERVE = Path(__file__).with_name("observe.py")
GRAD_FN = re.compile(r",\s*grad_fn=<[^>]*>")  # a printed tensor shows whether a graph was built, which no_grad changes
LARGEST_COPIED = 4_000_000  # bytes; slides, figures and archives of a repository are not needed to run it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did. `status` is finished, stopped (after enough steps), failed, timeout or unprepared."""

    status: str
    error: str = ""
    losses: tuple[str, ...] = ()
    steps: int = 0
    optimizers: int = 0
    state: str = ""
    random: str = ""
    seconds: float = 0.0
    output: tuple[str, ...] = ()

    @property
    def trained(self) -> bool:
        return bool(self.losses)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        content: dict[str, Any] = json.loads(text)
        return cls(**{**content, "losses": tuple(content["losses"]), "output": tuple(content["output"])})


def skip_large(folder: str, names: list[str]) -> set[str]:
    """For copytree: version control and big files stay behind."""
    here = Path(folder)
    return {
        name
        for name in names
        if name in (".git", "__pycache__")
        or ((here / name).is_file() and (here / name).stat().st_size > LARGEST_COPIED)
        or name.endswith((".pdf", ".pptx", ".gif", ".ipynb"))
    }


@contextmanager
def workspace(tree: Path, run: Run) -> Iterator[Path]:
    """A copy of `tree/<repository>` with the run's inputs in it; removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="public-scripts-", ignore_cleanup_errors=True) as scratch:
        repository = Path(scratch) / run.repository
        shutil.copytree(tree / run.repository, repository, ignore=skip_large)
        for item in run.inputs:
            inputs.generate(repository, item.kind, item.to, item.options)
        yield repository


def environment(run: Run, repository: Path, extra: dict[str, str]) -> dict[str, str]:
    """The process environment: stand-ins first, one thread, a fixed hash seed, no display."""
    own = {**run.environment, **extra}
    search = [str(repository / own.pop("PYTHONPATH"))] if "PYTHONPATH" in own else []
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AUTOACCEL_", "CUDA_VISIBLE"))},
        "PYTHONPATH": os.pathsep.join([*search, str(STANDINS), str(PROJECT)]),
        "PATH": os.pathsep.join([str(STANDINS / "bin"), os.environ.get("PATH", "")]),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "CUDA_VISIBLE_DEVICES": "",
        "STANDIN_SAMPLES": str(run.samples),
        "STANDIN_TEST_SAMPLES": str(run.test_samples),
        "STANDIN_DOWNLOADS": str(repository / "downloads"),
        **own,
    }


def limited(command: list[str], folder: Path, variables: dict[str, str], timeout: float) -> tuple[int | None, str, str]:
    """Run a command in its own process group; `None` as status when it ran past the limit."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, "", ""
        return process.returncode, out, err


def execute(tree: Path, run: Run, extra: dict[str, str] | None = None) -> Outcome:
    """Run a script of `tree` under observation."""
    with workspace(tree, run) as repository:
        script = repository / run.path
        folder = script.parent if run.directory is None else repository / run.directory
        variables = environment(run, repository, extra or {})
        for path, *arguments in run.before:
            status, _, err = limited(
                [sys.executable, str(repository / path), *arguments], folder, variables, run.timeout
            )
            if status != 0:
                return Outcome("unprepared", f"{path}: {err.strip().splitlines()[-1] if err.strip() else status}")
        result = repository.parent / "result.json"
        options = json.dumps({"stop_after": run.stop_after, "count": run.count, "shims": run.shims})
        command = [sys.executable, str(OBSERVE), str(result), options, str(script), *run.args]
        status, out, err = limited(command, folder, variables, run.timeout)
        if status is None:
            return Outcome("timeout", f"over {run.timeout} s")
        if not result.exists():
            return Outcome("failed", err.strip().splitlines()[-1] if err.strip() else f"exit status {status}")
        record: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        lines = GRAD_FN.sub("", out.replace(str(repository), "<repository>")).splitlines()
        return Outcome(**{**record, "losses": tuple(record["losses"]), "output": tuple(lines)})
