"""Trains two scripts as they are and rewritten, in turns, and compares how long that took.

    python -m benchmarks.divided_loading --rounds 7

Without an accelerator the runtime starts no workers; here it is told how many. Samples are computed, or they wait two
milliseconds each, as for storage that is far away. Only AA203 or AA204 is applied.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from autoaccel.rewriting import engine, registry

TAIL = """
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = time.perf_counter()
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(time.perf_counter() - began)
"""
HEAD = """
import json
import time
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.manual_seed(0)
torch.set_num_threads(1)
"""
SAMPLES = (("wait", "NOISES, WAITS = 1, 0.002\n", 4), ("are computed", "NOISES, WAITS = 40, 0.0\n", 1))
SCRIPTS = {
    "AA203": """
class Noisy(Dataset):
    def __init__(self, count):
        self.count, self.rng = count, np.random.default_rng(0)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = np.sin(np.arange(256) * (1 + index % 7))
        for _ in range(NOISES):
            x = x + 0.01 * self.rng.normal(size=256)
        time.sleep(WAITS)
        return torch.from_numpy(x).float(), index % 2

loader = DataLoader(Noisy(1280), batch_size=64)
""",
    "AA204": """
class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                row = json.loads(line)
                time.sleep(WAITS)
                yield torch.tensor(row["x"]), row["y"]

loader = DataLoader(Lines("rows.jsonl"), batch_size=64)
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with TemporaryDirectory() as name:
        folder = Path(name)
        row = '{"x": [' + ", ".join(f"{number / 7:.6f}" for number in range(256)) + '], "y": %d}\n'
        (folder / "rows.jsonl").write_text("".join(row % (number % 2) for number in range(1280)))
        for (code, text), (what, settings, workers) in itertools.product(SCRIPTS.items(), SAMPLES):
            plain = HEAD + settings + text + TAIL
            (folder / "before.py").write_text(plain)
            (folder / "after.py").write_text(rewritten(plain, code))
            pairs = [[seconds(folder / name, workers) for name in ("before.py", "after.py")] for _ in range(rounds)]
            ratios = sorted(before / now for before, now in pairs)
            before, now = (statistics.median(each) for each in zip(*pairs, strict=True))
            figures = f"{before:.2f} s | {now:.2f} s | {statistics.median(ratios):.2f}"
            print(f"| {code} | {what} | {workers} | {figures} | {ratios[0]:.2f} to {ratios[-1]:.2f} |", flush=True)


def rewritten(plain: str, code: str) -> str:
    """The script after the rule of this code alone."""
    rules = [rule for rule in registry.rules() if rule.code == code]
    return engine.rewrite(plain, None, rules).after


def seconds(script: Path, workers: int) -> float:
    """How long a script trains, with so many workers where it asks the runtime."""
    environment = {**os.environ, "AUTOACCEL_NUM_WORKERS": str(workers)}
    command = [sys.executable, script.name]
    done = subprocess.run(command, cwd=script.parent, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
