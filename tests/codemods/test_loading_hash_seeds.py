"""What is said of loops and their batches is the same for every order in which Python iterates sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SHAPES = sorted(
    path for rule in ("prefetch", "non-blocking") for path in (FIXTURES / rule).glob("*.py") if ".out." not in path.name
)
SHARED = [path for path in SHAPES if "helper" in path.name or "share" in path.name]
PROGRAM = """\
import sys
from pathlib import Path
from autoaccel.rewriting import engine, registry
from autoaccel.analysis import Project

rules = [rule for rule in registry.rules() if rule.code in ("AA103", "AA201", "AA202")]
for source in map(Path, sys.argv[1:]):
    text = source.read_text()
    path = Path("/alone", source.name)  # what lies beside it need not be read
    result = engine.rewrite(text, path, rules, project=Project({path: text}, {path: text}))
    print(path, result.after, [(each.code, each.line, each.message) for each in result.skipped])
"""


def test_every_hash_seed_gives_the_same_bytes() -> None:
    assert len(SHARED) > 8
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, SHARED)],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in range(4)
    }
    assert len(outputs) == 1
