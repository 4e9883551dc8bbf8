"""What the script's Python says: torch, its threads, image libraries."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, fields

# In a process of its own: importing torch takes seconds and may fail in ways that no except clause catches. A torch.py
# in the working directory is not torch.
_PROBE = """
import importlib.metadata, importlib.util, json, os, sys
sys.path = [path for path in sys.path if path]
found = {}
try:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda, threads=torch.get_num_threads())
    found.update(sees_gpu=torch.cuda.is_available())
except ImportError:
    pass
try:
    from PIL import Image, features
    found.update(pillow=importlib.import_module("PIL").__version__, turbo=features.check_feature("libjpeg_turbo"))
except ImportError:
    pass
spec = importlib.util.find_spec("torchvision")
if spec is not None:
    names = [name for folder in spec.submodule_search_locations or () for name in os.listdir(folder)]
    found.update(decodes=any(name.startswith("image.") and not name.endswith(".py") for name in names))
    try:
        found.update(torchvision=importlib.metadata.version("torchvision"))
    except importlib.metadata.PackageNotFoundError:
        found.update(torchvision="")
print(json.dumps(found))
"""
_PROBE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """None where a library is not there."""

    torch: str | None = None
    """Its version, as of the others."""
    cuda: str | None = None
    """The version of CUDA that torch was built for."""
    threads: int | None = None
    """That torch computes with."""
    sees_gpu: bool | None = None
    pillow: str | None = None
    turbo: bool | None = None
    """Whether Pillow decodes by libjpeg-turbo."""
    torchvision: str | None = None
    decodes: bool | None = None
    """Whether torchvision.io has its decoders."""


def ask(python: str) -> PythonFacts | str:
    """What an interpreter says, or why nothing is known."""
    try:
        done = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python}: {getattr(error, 'strerror', None) or 'no answer'}"
    try:
        # Libraries may greet on stdout; the answer is the last line.
        answer = json.loads(done.stdout.splitlines()[-1])
        return PythonFacts(**{each.name: answer.get(each.name) for each in fields(PythonFacts)})
    except (AttributeError, IndexError, ValueError):
        said = done.stderr.strip().splitlines()
        return f"{python}: {said[-1] if said else f'exit status {done.returncode}'}"
