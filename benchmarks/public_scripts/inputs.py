"""Inputs that scripts expect on disk, generated: pictures, text, a citation graph, captions."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image


def write_picture(path: Path, size: tuple[int, int], draw: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = Image.frombytes("RGB", (8, 8), draw.randbytes(192))  # upsampled noise: looks like a photograph to a codec
    coarse.resize(size, Image.Resampling.BICUBIC).save(path)


def picture(target: Path, options: dict[str, Any], draw: random.Random) -> None:
    """One picture."""
    width, height = options.get("size", (64, 64))
    write_picture(target, (width, height), draw)


def pictures(target: Path, options: dict[str, Any], draw: random.Random) -> None:
    """A folder of pictures; with `classes`, one subfolder a class."""
    width, height = options.get("size", (64, 64))
    folders = [target / f"class{number}" for number in range(options["classes"])] if "classes" in options else [target]
    for folder in folders:
        for number in range(options.get("count", 8)):
            write_picture(folder / f"{number:03}.png", (width, height), draw)


def text(target: Path, options: dict[str, Any], draw: random.Random) -> None:
    """Lines of words from a small vocabulary, after an optional `opening`."""
    words = [f"{draw.choice('bcdfghklmnprst')}{draw.choice('aeiou')}{draw.choice('lmnrst')}" for _ in range(60)]
    lines = [" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(options.get("lines", 60))]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join([options.get("opening", ""), *lines]) + "\n", encoding="utf-8")


def graph(target: Path, options: dict[str, Any], draw: random.Random) -> None:
    """A citation graph in the layout of the Cora archive: `cora/cora.content`, `cora/cora.cites`."""
    nodes, features, classes = options.get("nodes", 1800), 24, 5
    content = "".join(
        "\t".join([str(1000 + n), *(str(int(draw.random() < 0.2)) for _ in range(features)), f"topic{n % classes}"])
        + "\n"
        for n in range(nodes)
    )
    cites = "".join(f"{1000 + draw.randrange(nodes)}\t{1000 + n}\n" for n in range(nodes))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:gz") as archive:
        for name, data in (("cora/cora.content", content), ("cora/cora.cites", cites)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data.encode()))


def captions(target: Path, options: dict[str, Any], draw: random.Random) -> None:
    """Captioned pictures: `annotations.json` in COCO's layout and a folder `images`."""
    count = options.get("count", 16)
    words = ["a", "red", "small", "dog", "cat", "runs", "sits", "grass", "house", "near"]
    pictures(target / "images", {"count": count, "size": options.get("size", (64, 64))}, draw)
    content = {
        "images": [{"id": n, "file_name": f"{n:03}.png"} for n in range(count)],
        "annotations": [
            {"id": n, "image_id": n, "caption": " ".join(draw.choices(words, k=draw.randint(3, 7)))}
            for n in range(count)
        ],
    }
    (target / "annotations.json").write_text(json.dumps(content), encoding="utf-8")


KINDS: dict[str, Callable[[Path, dict[str, Any], random.Random], None]] = {
    "picture": picture,
    "pictures": pictures,
    "text": text,
    "graph": graph,
    "captions": captions,
}


def generate(folder: Path, kind: str, to: str, options: dict[str, Any]) -> None:
    """Make one input below `folder`; the same content every time."""
    KINDS[kind](folder / to, options, random.Random(f"{kind} {to}"))
