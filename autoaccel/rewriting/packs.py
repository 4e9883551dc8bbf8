"""Distributions that announce rules, found by a look into the folders of the search path.

`importlib.metadata` finds them, too, but its import takes longer than a whole run may, and few environments have one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

GROUP = "autoaccel.codemods"


def announced() -> Iterator[tuple[str, str]]:
    """The name of each distribution that announces rules, or may do so, and its entry points."""
    for place in dict.fromkeys(sys.path):
        if os.path.isfile(place):  # a zip, which is not looked into
            status = os.stat(place)
            yield place, f"{status.st_size} {status.st_mtime_ns}"
            continue
        try:
            with os.scandir(place or ".") as entries:
                found = [entry for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for entry in found:
            try:
                with open(os.path.join(entry.path, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except (OSError, ValueError):
                continue
            if GROUP in text:
                yield entry.name, text
