"""`python -m benchmarks.distributed.ports`: one script, brought to two processes by hand and by three tools.

`scripts/plain.py` is what one process runs. The others are what each tool's own guide makes of it, with the batch
divided among the processes; `distributed.py` is what `autoaccel distribute` writes. All compute in float64, over gloo
on the CPU. Needed beside torch: lightning-fabric and accelerate.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch

SCRIPTS = Path(__file__).parent / "scripts"
RESULT = Path(__file__).parents[1] / "results" / "distributed_ports.md"
PORTS = {
    "distributed": "`autoaccel distribute`",
    "by_hand": "DistributedDataParallel by hand",
    "fabric": "Lightning Fabric",
    "accelerated": "Accelerate",
}
_LINE = re.compile(r"train (\S+) test (\S+) seen (\d+) steps (\d+) lr (\S+)")


def main() -> None:
    plain = ran("plain")
    print(plain)
    rows = [row(name, plain) for name in PORTS]
    RESULT.write_text("\n".join([*head(plain), *rows]) + "\n", encoding="utf-8")


def ran(name: str) -> dict[str, list[str]]:
    """What a script prints and saves: by one process, or by two."""
    script = str(SCRIPTS / f"{name}.py")
    start = [] if name == "plain" else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *start, script], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        keys = [*torch.load(Path(folder, "net.pt"), weights_only=True)]
    figures = zip(*_LINE.findall(done.stdout), strict=True)
    return {**dict(zip(("train", "test", "seen", "steps", "lr"), map(list, figures), strict=True)), "keys": keys}


def row(name: str, plain: dict[str, list[str]]) -> str:
    """Of the table."""
    port = ran(name)
    print(name, port)
    lines = [*difflib.ndiff(*((SCRIPTS / f"{each}.py").read_text().splitlines() for each in ("plain", name)))]
    new = sum(line.startswith("+ ") and line[2:].strip() != "" for line in lines)
    gone = sum(line.startswith("- ") for line in lines)
    off = [
        max(distance(one, other) for one, other in zip(plain[key], port[key], strict=True)) for key in ("train", "test")
    ]
    same = ["same" if port[key] == plain[key] else port[key][-1] for key in ("steps", "lr", "seen")]
    keys = "same" if port["keys"] == plain["keys"] else f"`{port['keys'][0]}` …"
    return f"| {PORTS[name]} | {new} | {gone} | {off[0]:.0e} | {off[1]:.0e} | {' | '.join([*same, keys])} |"


def distance(one: str, other: str) -> float:
    return abs(float(one) - float(other)) / abs(float(one))


def head(plain: dict[str, list[str]]) -> list[str]:
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "lightning-fabric", "accelerate"))
    return f"""# One script by two processes, by hand and by tools

Made by `python -m benchmarks.distributed.ports`, which says what is compared: scripts of
`benchmarks/distributed/scripts`, float64, over gloo on the CPU, {versions}. One process makes {plain["steps"][-1]}
steps an epoch and counts {plain["seen"][-1]} samples in its evaluation. Losses are held
against its own, relative to them, as each script prints them. Of steps,
learning rate, samples and keys it is told where they are others.

| | lines added | removed | loss of an epoch | of the evaluation | steps | learning rate | samples counted | keys |
|---|---:|---:|---:|---:|---|---|---|---|""".splitlines()


if __name__ == "__main__":
    main()
