"""Trained before and after, the same bit for bit: on the host and as on a device, with workers and without."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from autoaccel.measure.observing.request import PREFETCH, WORKERS, Request
from autoaccel.measure.observing.run_record import FINISHED, RunRecord
from autoaccel.rewriting import engine, registry
from autoaccel.runtime.loading import image_bytes
from autoaccel_codemods import normalize_on_device
from tests.measure.forking import Forking

RULES = [rule for rule in registry.rules() if rule.code in ("AA105", "AA201", "AA202")]
SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_transform = transforms.Compose([
    transforms.RandomResizedCrop(12),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize((0.5, 0.4, 0.3), (0.25, 0.2, 0.3)),
])
test_transform = transforms.Compose([transforms.Pad(1), transforms.CenterCrop(12), transforms.ToTensor()])
train_set, held_out = random_split(datasets.CIFAR10("data", transform=train_transform), [200, 56])
train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
test_loader = DataLoader(datasets.CIFAR10("data", train=False, transform=test_transform), batch_size=30)
print(f"mean of a picture: {held_out[0][0].mean():.4f}")
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(2):
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    correct = 0
    with torch.no_grad():
        for images, labels in test_loader:
            images, labels = images.to(device), labels.to(device)
            correct += (model(images).argmax(1) == labels).sum().item()
    print(f"loss {loss.item():.4f}, accuracy {correct / 100}, {next(iter(train_loader))[0].mean():.4f}")
"""
# Workers have random streams of their own: for the same draws there have to be none. Pictures that are not padded
# first would be looked up whole.
DRAWS_NOTHING = SCRIPT.replace("RandomResizedCrop(12)", "Pad(1),\n    transforms.Resize((12, 12))")
DRAWS_NOTHING = DRAWS_NOTHING.replace("RandomHorizontalFlip()", "Grayscale(3)")


@dataclass(frozen=True)
class Training:
    forking: Forking
    folder: Path

    def run(self, text: str, *rehearse: str, **environment: str) -> RunRecord:
        script = self.folder / "train.py"
        script.write_text(text)
        return self.forking.run(Request(str(script), root=str(self.folder), rehearse=rehearse), environment)


@pytest.fixture
def training(forking: Forking, tmp_path: Path) -> Training:
    return Training(forking, tmp_path)


def rewritten(text: str) -> str:
    result = engine.rewrite(text, Path("/train.py"), RULES)
    assert not result.errors
    assert result.after.count("normalize=True") == 2
    return result.after


def same(one: RunRecord, other: RunRecord) -> bool:
    assert one.ending == other.ending == FINISHED
    assert len(one.losses) == 14
    names = ("losses", "steps", "state", "settings", "random", "printed")
    fetched = [[(each.batches, each.draws) for each in record.passes] for record in (one, other)]
    return all(getattr(one, name) == getattr(other, name) for name in names) and fetched[0] == fetched[1]


def places(record: RunRecord) -> list[str]:
    return [each.value for each in record.decisions if each.topic.startswith("normalize ")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "rehearse", "place"),
    [
        pytest.param(SCRIPT, (), "the host", id="on the host"),
        pytest.param(SCRIPT, (PREFETCH,), "cpu", id="on a device"),
        pytest.param(DRAWS_NOTHING, (PREFETCH, WORKERS), "cpu", id="on a device, from workers"),
    ],
)
def test_it_trains_the_same(training: Training, text: str, rehearse: tuple[str, ...], place: str) -> None:
    before, after = training.run(text), training.run(rewritten(text), *rehearse, AUTOACCEL_LOG="info")
    assert same(before, after)
    assert places(after) == [place] * 2, after.decisions


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all", "normalize"])
def test_switched_off_it_is_the_original(training: Training, name: str) -> None:
    before = training.run(SCRIPT)
    after = training.run(rewritten(SCRIPT), AUTOACCEL_LOG="info", AUTOACCEL_DISABLE=name)
    assert same(before, after)
    assert places(after) == []


@pytest.mark.slow
def test_another_normalisation_would_be_seen(training: Training) -> None:
    """The test of the tests."""
    changed = rewritten(SCRIPT).replace("0.25, 0.2, 0.3", "0.25, 0.2, 0.3000001")
    assert not same(training.run(SCRIPT), training.run(changed))


def test_the_rule_and_the_runtime_know_the_same_datasets() -> None:
    assert set(normalize_on_device.DATASETS) == image_bytes.DATASETS
