"""Generated data for the suite's scripts, written in the formats that torchvision's datasets read.

    python benchmarks/suite/data.py DIR [--size small|full]

`DIR/MNIST/raw` holds IDX files (torchvision's MNIST looks only whether they exist), `DIR/imagenet` a folder of JPEGs
for each class (`ImageFolder`). Images are a pattern of their class plus noise, so that losses fall. The CIFAR10 of
torchvision compares checksums, which no generated file can match: without the real files cifar runs on the stand-in of
`tests/standins`. What is there already is left alone.
"""

from __future__ import annotations

import argparse
import functools
import os
import struct
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

Array = np.ndarray[Any, Any]

DIGITS: Final = {"small": (2_000, 500), "full": (60_000, 10_000)}
# pictures, classes, side of the longer edge
PICTURES: Final = {"small": (256, 8, 96), "full": (2_000, 20, 500)}
# pixels from which on a picture is as detailed and as slow to write as a photograph
FINE: Final = 200


def labelled(count: int, shape: tuple[int, ...], classes: int, seed: int) -> tuple[Array, Array]:
    """`count` uint8 images of `shape` and their labels."""
    random = np.random.Generator(np.random.PCG64(seed))
    labels = random.permutation(np.arange(count) % classes).astype(np.uint8)
    patterns = np.random.Generator(np.random.PCG64(1234)).integers(0, 192, (classes, *shape), dtype=np.uint8)
    return patterns[labels] + random.integers(0, 64, (count, *shape), dtype=np.uint8), labels


def idx(array: Array) -> bytes:
    """An array of bytes in MNIST's file format."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_digits(folder: Path, size: str) -> None:
    """MNIST's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count, seed in zip(("train", "t10k"), DIGITS[size], (1, 2), strict=True):
        images, labels = labelled(count, (28, 28), 10, seed)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))


def picture(number: int, classes: int, side: int) -> Image.Image:
    """Stripes whose direction and colour tell the class, over noise of the fineness of a photograph's detail."""
    label = number % classes
    random = np.random.Generator(np.random.PCG64([3, number]))
    height, width = side * 3 // 4, side
    angle = np.pi * label / classes
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    phase, waves = random.uniform(0, 2 * np.pi), random.uniform(6, 9)
    stripes = np.sin((2 * np.pi * waves / width) * (np.cos(angle) * x + np.sin(angle) * y) + phase, dtype=np.float32)
    colour = np.random.Generator(np.random.PCG64(label)).uniform(20, 100, 3).astype(np.float32)
    # a photograph of this size has about 110 kB and takes some 2 ms to decode
    fine = 4 if side < FINE else 2
    detail = random.integers(-40, 40, (height // fine + 1, width // fine + 1, 3), dtype=np.int8)
    detail = detail.repeat(fine, 0).repeat(fine, 1)[:height, :width]
    return Image.fromarray((128 + stripes[..., None] * colour + detail).clip(0, 255).astype(np.uint8))


def write_picture(folder: Path, classes: int, side: int, number: int) -> None:
    """One JPEG, in the folder of its class."""
    picture(number, classes, side).save(folder / f"class{number % classes:02d}" / f"{number:05d}.jpg", quality=90)


def write_pictures(folder: Path, size: str) -> None:
    """One folder of JPEGs for each class."""
    count, classes, side = PICTURES[size]
    for label in range(classes):
        (folder / f"class{label:02d}").mkdir(parents=True, exist_ok=True)
    task = functools.partial(write_picture, folder, classes, side)
    if side < FINE:
        for number in range(count):
            task(number)
        return
    # each takes some 20 ms: a process for every CPU
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(task, range(count), chunksize=20))


def write(folder: Path, size: str) -> None:
    """All data of a size below `folder`, unless they are there."""
    stamp = folder / "generated.txt"
    contents = f"{size} {DIGITS[size]} {PICTURES[size]}\n"
    if stamp.is_file() and stamp.read_text() == contents:
        return
    if stamp.exists():
        raise SystemExit(f"{folder} holds other data: {stamp.read_text().strip()}")
    write_digits(folder / "MNIST" / "raw", size)
    write_pictures(folder / "imagenet", size)
    stamp.write_text(contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--size", choices=sorted(DIGITS), default="small")
    args = parser.parse_args()
    write(args.folder, args.size)


if __name__ == "__main__":
    main()
