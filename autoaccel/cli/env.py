"""`autoaccel env`: versions, hardware and what the runtime would decide here; made to be pasted into an issue."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

import autoaccel
from autoaccel.cli.options import Choice
from autoaccel.reports.aligned_columns import aligned

# In a process of its own: importing torch takes seconds and may fail in ways that no except clause catches.
_PROBE = """
import json, sys, torch
sys.path.append(sys.argv[1])
from autoaccel import runtime
place = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
name = "none" if place is None else torch.cuda.get_device_name() if place.type == "cuda" else place.type
versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "accelerator": name}
print(json.dumps(versions | {"decisions": runtime.decisions()}))
"""
_PROBE_SECONDS = 120
_HOME = Path(autoaccel.__file__).resolve().parent.parent
_SWITCH = {True: "on", False: "off"}


@click.command(short_help="Show versions and what the runtime would decide.")
@click.option("--output-format", type=Choice(["text", "json"]), default="text", show_default=True)
def env(output_format: str) -> int:
    """Show versions, the accelerator, and what rewritten scripts would decide on this machine."""
    switches = {name: value for name, value in sorted(os.environ.items()) if name.startswith("AUTOACCEL_")}
    facts = tool_facts() | runtime_facts() | switches
    if output_format == "json":
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(aligned([*facts.items()], "<<", "  ")))
    return 0


def tool_facts() -> dict[str, str]:
    facts = {
        "autoaccel": autoaccel.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "processors": str(os.cpu_count()),
    }
    for package in ("click", "libcst"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def runtime_facts() -> dict[str, str]:
    """torch, the accelerator and the runtime's decisions under this Python, or one line on why they cannot be had."""
    try:
        done = subprocess.run(
            # -P: a torch.py in the working directory is not torch.
            [sys.executable, "-P", "-c", _PROBE, str(_HOME)],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"runtime": f"not available: {error}"}
    if done.returncode == 0:
        # torch may greet on stdout; the facts are the last line.
        return _spelled(json.loads(done.stdout.splitlines()[-1]))
    lines = done.stderr.strip().splitlines()
    if any("No module named 'torch'" in line for line in lines):
        return {"torch": "not installed here; run `python -m autoaccel env` in the environment that trains"}
    return {"runtime": f"not available: {lines[-1] if lines else f'exit status {done.returncode}'}"}


def _spelled(found: dict[str, Any]) -> dict[str, str]:
    decisions = {
        name: f"{_SWITCH.get(value, value) if isinstance(value, bool) else value} ({reason})"
        for name, (value, reason) in found.pop("decisions").items()
    }
    return {name: str(value) for name, value in found.items() if value is not None} | decisions
