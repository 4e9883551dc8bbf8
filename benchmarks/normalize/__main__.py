"""`python -m benchmarks.normalize`; see the README beside this file."""

from __future__ import annotations

import importlib
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from autoaccel import runtime as accel
from autoaccel.runtime.loading.image_bytes import ImageBytes

_STANDINS = Path(__file__).resolve().parents[2] / "tests" / "standins"
_PHOTOS = 32


@dataclass(frozen=True, slots=True)
class Contest:
    """Passes over the same images, as floats and as bytes."""

    images: str
    what: str
    plain: Callable[[], None]
    bytes: Callable[[], None]
    batches: int  # in one pass


def torchvision() -> Any:
    """torchvision, or what stands in for it."""
    try:
        return importlib.import_module("torchvision")
    except Exception:  # none, or one for another torch
        sys.path.insert(0, str(_STANDINS))
        return importlib.import_module("torchvision")


def contests(folder: Path, samples: int) -> Iterator[Contest]:
    """The images of PyTorch-GAN's scripts, of DCGAN's and of ImageNet's, at full size."""
    os.environ["STANDIN_SAMPLES"] = str(samples)
    os.environ["AUTOACCEL_DISABLE"] = "resident"  # or images in memory are resized in the first pass alone
    tv = torchvision()
    t = tv.transforms
    digits = t.Compose([t.Resize(32), t.ToTensor(), t.Normalize([0.5], [0.5])])
    small = t.Compose([t.Resize(64), t.ToTensor(), t.Normalize((0.5,) * 3, (0.5,) * 3)])
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    large = t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(mean, std)])
    kinds = (
        ("digits, 28 to 32 pixels, batches of 64", tv.datasets.MNIST(str(folder), transform=digits), 64),
        ("pictures, 32 to 64 pixels, batches of 64", tv.datasets.CIFAR10(str(folder), transform=small), 64),
        ("photos, JPEG, crops of 224 pixels, batches of 16", tv.datasets.ImageFolder(_photos(folder), large), 16),
    )
    for name, dataset, size in kinds:
        loader = DataLoader(dataset, batch_size=size, shuffle=True, drop_last=True)
        images = ImageBytes(loader, torch.device("cpu"))
        plain, as_bytes = accel.prefetch(loader, "cpu"), accel.prefetch(loader, "cpu", normalize=True)
        yield Contest(name, "a batch", _pass(plain), _pass(as_bytes), len(loader))
        sent = DataLoader(images.dataset(), batch_size=size, shuffle=True, drop_last=True)
        yield Contest(name, "what workers do for one", _pass(loader), _pass(sent), len(loader))
        step = _step(next(iter(loader))[0])
        yield Contest(name, "a step", _pass(plain, step), _pass(as_bytes, step), len(loader))


def _photos(folder: Path) -> str:
    """A folder of photos: noise that is smooth enough to be compressed as photos are."""
    image: Any = importlib.import_module("PIL.Image")
    numbers = np.random.RandomState(0)
    place = folder / "photos" / "one class"
    place.mkdir(parents=True, exist_ok=True)
    for number in range(_PHOTOS):
        coarse = image.fromarray(numbers.randint(0, 256, (32, 42, 3)).astype(np.uint8))
        coarse.resize((500, 375), image.Resampling.BICUBIC).save(place / f"{number}.jpg", quality=90)
    return str(place.parent)


def _step(images: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """The training step of a small network."""
    layers = [nn.Conv2d(images.shape[1], 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(inputs: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels % 10).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return train


def _pass(loader: Any, step: Callable[[torch.Tensor, torch.Tensor], None] | None = None) -> Callable[[], None]:
    def run() -> None:
        for images, labels in loader:
            if step is not None:
                step(images, labels)

    return run


def measure(contest: Contest, turns: int) -> tuple[float, float, tuple[float, float, float]]:
    """Milliseconds for a batch as floats and as bytes, and their ratio: first quartile, median, third quartile."""
    contest.plain()
    contest.bytes()
    plain, as_bytes, ratios = [], [], []
    for turn in range(turns):
        order = (contest.plain, contest.bytes)[:: 1 if turn % 2 else -1]
        times = {run: _timed(run, contest.batches) for run in order}
        plain.append(times[contest.plain])
        as_bytes.append(times[contest.bytes])
        ratios.append(plain[-1] / as_bytes[-1])
    low, median, high = statistics.quantiles(ratios, n=4)
    return statistics.median(plain), statistics.median(as_bytes), (low, median, high)


def _timed(run: Callable[[], None], batches: int) -> float:
    start = time.process_time()  # of the only thread
    run()
    return (time.process_time() - start) / batches * 1e3


@click.command()
@click.option("--turns", type=click.IntRange(min=2), default=21, show_default=True, help="Passes of each kind.")
@click.option("--samples", type=click.IntRange(min=64), default=640, show_default=True, help="Generated small images.")
def main(turns: int, samples: int) -> None:
    """Measure, with one thread."""
    torch.set_num_threads(1)
    click.echo(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, one thread, {turns} turns.\n")
    click.echo("| images | | as floats / as bytes | ms |\n|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for contest in contests(Path(folder), samples):
            plain, as_bytes, (low, median, high) = measure(contest, turns)
            ratio = f"{median:.2f}x ({low:.2f} to {high:.2f})"
            click.echo(f"| {contest.images} | {contest.what} | {ratio} | {plain:.1f} → {as_bytes:.1f} |")


if __name__ == "__main__":
    main()
