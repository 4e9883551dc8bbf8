"""The suite's generated data are in the formats that torchvision's datasets read."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.suite import data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    data.write(folder, "small")
    return folder


@pytest.mark.parametrize(("part", "count"), [("train", 2_000), ("t10k", 500)])
def test_digits_have_the_headers_of_mnist(folder: Path, part: str, count: int) -> None:
    images = (folder / "MNIST" / "raw" / f"{part}-images-idx3-ubyte").read_bytes()
    labels = (folder / "MNIST" / "raw" / f"{part}-labels-idx1-ubyte").read_bytes()
    assert struct.unpack(">4I", images[:16]) == (0x803, count, 28, 28)
    assert struct.unpack(">2I", labels[:8]) == (0x801, count)
    assert len(images) == 16 + count * 28 * 28
    assert set(labels[8:]) == set(range(10))
    assert len(labels) == 8 + count


def test_digits_of_a_class_are_alike(folder: Path) -> None:
    raw = folder / "MNIST" / "raw"
    images = np.frombuffer((raw / "train-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 784)
    labels = np.frombuffer((raw / "train-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    means = np.stack([images[labels == digit].mean(0) for digit in range(10)])
    nearest = ((images[:200, None].astype(np.float32) - means) ** 2).sum(2).argmin(1)
    assert (nearest == labels[:200]).all()


def test_pictures_lie_in_the_folders_of_their_classes(folder: Path) -> None:
    count, classes, side = data.PICTURES["small"]
    pictures = sorted((folder / "imagenet").rglob("*.jpg"))
    assert len(pictures) == count
    assert {each.parent.name for each in pictures} == {f"class{label:02d}" for label in range(classes)}
    with Image.open(pictures[0]) as first:
        assert (first.format, first.mode, first.size) == ("JPEG", "RGB", (side, side * 3 // 4))


def test_a_picture_depends_on_its_number_alone() -> None:
    assert data.picture(5, 8, 96).tobytes() == data.picture(5, 8, 96).tobytes()
    assert data.picture(5, 8, 96).tobytes() != data.picture(13, 8, 96).tobytes()


def test_what_is_there_is_left_alone(folder: Path) -> None:
    before = (folder / "generated.txt").stat().st_mtime_ns
    data.write(folder, "small")
    assert (folder / "generated.txt").stat().st_mtime_ns == before


def test_data_of_another_size_are_not_mixed_in(folder: Path) -> None:
    with pytest.raises(SystemExit, match="holds other data"):
        data.write(folder, "full")
