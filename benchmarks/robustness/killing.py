"""Whether a file survives a `rewrite` that is killed while it writes.

    python -m benchmarks.robustness.killing --kills 200

A process writes a folder of scripts again and again, and is killed (SIGKILL) at a random moment. Every file must then
be, byte for byte, what it was or what it was to become, and the next run must not be disturbed by what was left behind.
Analysis is left out of the loop, so that most kills meet a process that writes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from autoaccel import discovery
from autoaccel.cli import undo
from autoaccel.cli.main import cli
from autoaccel.config import configure
from autoaccel.jobs import conversion
from autoaccel.jobs.conversion import Outcome, Rewritten

SCRIPT = """\
import torch

def step(model, loader: torch.utils.data.DataLoader, optimizer: torch.optim.Optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()

"""


@dataclass(slots=True)
class Tally:
    """What the kills met."""

    kills: int = 0
    begun: int = 0
    """Kills after which some files were written and others not."""
    files: int = 0
    """Files that were compared."""
    left: int = 0
    """Temporary files that were left behind."""
    broken: int = 0
    """Files that were neither what they were nor what they were to become."""


def scripts(folder: Path, number: int) -> dict[Path, bytes]:
    """Scripts from one kilobyte to ten, with several encodings and line ends."""
    made = {}
    for index in range(number):
        text = SCRIPT + f"TABLE_{index} = [\n" + "    'é', 0.125, None,\n" * (50 << (index % 4)) + "]\n"
        data = text.replace("\n", "\r\n").encode() if index % 3 == 0 else text.encode()
        path = folder / f"part{index % 5}" / f"script{index}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        made[path] = data
    return made


def kill_often(folder: Path, *, kills: int, files: int = 60, seed: int = 0) -> Tally:
    """Kill so many times a process that writes so many files."""
    chance = random.Random(seed)
    before = scripts(folder, files)
    outcomes = {
        each.path: each for each in conversion.rewrite_files(tuple(before), configure(folder), texts=True, jobs=1)
    }
    after = {path: _bytes(outcomes[path]) for path in before}
    assert all(after[path] != data for path, data in before.items())
    # What remains of the command is reading, comparing and writing.
    conversion.rewrite_files = lambda paths, *_, **__: [outcomes[path] for path in paths]  # type: ignore[assignment]
    undo.keep = lambda *_, **__: undo.Kept(None)  # type: ignore[assignment]
    tally = Tally()
    whole = _time_of_a_round(folder, before)
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            _write_forever(folder, before)
        time.sleep(0.01 + chance.random() * 2 * whole)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        _judge(folder, before, after, tally)
    return tally


def _bytes(outcome: Outcome) -> bytes:
    assert isinstance(outcome, Rewritten)
    return outcome.source.encode(outcome.result.after)


def _time_of_a_round(folder: Path, before: dict[Path, bytes]) -> float:
    _write_once(folder)
    _restore(before)
    begun = time.monotonic()
    _write_once(folder)
    _restore(before)
    return time.monotonic() - begun


def _write_forever(folder: Path, before: dict[Path, bytes]) -> None:
    """In a process that knows no end but the kill."""
    try:
        while True:
            _write_once(folder)
            _restore(before)
    finally:
        os._exit(7)


def _write_once(folder: Path) -> None:
    """The command itself, as far as it writes."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        cli.main(["rewrite", "--isolated", str(folder)])


def _restore(before: dict[Path, bytes]) -> None:
    """Put back what was there, whole at every moment, too, by means of this module's own."""
    for path, data in before.items():
        spare = path.with_suffix(".spare")
        spare.write_bytes(data)
        spare.replace(path)


def _judge(folder: Path, before: dict[Path, bytes], after: dict[Path, bytes], tally: Tally) -> None:
    found = {path: path.read_bytes() for path in before}
    broken = [path for path, data in found.items() if data not in (before[path], after[path])]
    for path in broken:
        print(f"neither before nor after: {path} ({len(found[path])} bytes)")
        path.write_bytes(before[path])
    left = [path for path in folder.rglob("*") if path.is_file() and path not in before and path.suffix != ".spare"]
    sighted = set(discovery.find([folder]).files) - set(before)
    assert not sighted, f"taken for sources: {sighted}"
    tally.kills += 1
    tally.files += len(found)
    tally.broken += len(broken)
    tally.begun += len({data == after[path] for path, data in found.items()}) == 2
    tally.left += len(left)
    for path in left:
        path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")
        place = Path(folder) / "scripts"
        place.mkdir()
        tally = kill_often(place, kills=options.kills, files=options.files, seed=options.seed)
    print(f"{tally.kills} kills, {tally.begun} of them between the first and the last file")
    print(f"{tally.files} files compared, {tally.broken} truncated or mixed")
    print(f"{tally.left} temporary files left behind, none taken for a source")
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
