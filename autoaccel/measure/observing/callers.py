"""Who is about to do something: what the frames of the caller say."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_DOWNLOADERS = (
    "gdown",
    "huggingface_hub",
    "kagglehub",
    "nltk.downloader",
    "sklearn.datasets",
    "torch.hub",
    "torch_geometric.data",
    "torchaudio.datasets",
    "torchtext.",
    "torchvision.datasets",
    "urllib.request",
)

_TOOL = str(Path(__file__).parent.parent.parent) + os.sep


def in_script(frame: FrameType | None) -> tuple[str, str]:
    """`file:line` of the innermost frame that is the script's own, and the traceback down to it."""
    frames = list(_frames(frame))
    own = [index for index, each in enumerate(frames) if _is_own(each.f_code.co_filename)]
    if not own:
        return "", ""
    inner, outer = own[0], own[-1]
    shown = [(each, each.f_lineno) for each in reversed(frames[inner : outer + 1]) if not _is_tools(each)]
    lines = traceback.StackSummary.extract(iter(shown)).format()
    where = f"{frames[inner].f_code.co_filename}:{frames[inner].f_lineno}"
    return where, "Traceback (most recent call last):\n" + "".join(lines)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_downloading(frame: FrameType | None) -> bool:
    """Whether a library gets data that it will not get again if it is there: that stays, as after any run."""
    return any(str(each.f_globals.get("__name__")).startswith(_DOWNLOADERS) for each in _frames(frame))


def _is_own(path: str) -> bool:
    if path.startswith("<") or "site-packages" in path or "dist-packages" in path:
        return False
    library = sysconfig.get_path("stdlib")
    real = os.path.realpath(path)
    return not path.startswith((library, _TOOL)) and not real.startswith((library, os.path.realpath(_TOOL)))


def _is_tools(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_TOOL)
