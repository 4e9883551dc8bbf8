# ruff: noqa: E501 - a case is one line of a script
"""The stand-ins must look like what they stand for, where scripts look, and say what they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.measure.forking import Forking

STANDINS = Path(__file__).parent / "standins"
PACKAGES = sorted(path.parent.name for path in STANDINS.glob("*/__init__.py"))


Say = Callable[..., str]


@pytest.fixture
def say(forking: Forking, tmp_path: Path) -> Say:
    """What a program prints that finds the stand-ins."""

    def run(code: str, **variables: str) -> str:
        done = forking.python(["-c", code], tmp_path, {**os.environ, "PYTHONPATH": str(STANDINS), **variables})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_every_package_says_that_it_is_a_stand_in(say: Say) -> None:
    code = f"import importlib; print({{importlib.import_module(n).__version__ for n in {PACKAGES!r}}})"
    assert say(code) == "{'0.0+stand-in'}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            "d = datasets.MNIST('x', train=True, download=True); print(d.data.shape, d.data.dtype, len(d.targets), d[0][0].mode)",
            "torch.Size([50, 28, 28]) torch.uint8 50 L",
            id="MNIST",
        ),
        pytest.param(
            "d = datasets.CIFAR10('x', train=False, transform=t.ToTensor()); print(len(d), d[0][0].shape, type(d.targets).__name__)",
            "20 torch.Size([3, 32, 32]) list",
            id="CIFAR10",
        ),
        pytest.param(
            "a, b = datasets.MNIST('x'), datasets.MNIST('y'); print(torch.equal(a.data, b.data), sorted(set(a.targets.tolist())))",
            "True [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
            id="the same data every time, all classes",
        ),
        pytest.param(
            "s = torch.get_rng_state(); datasets.MNIST('x'); datasets.FakeData()[3]; print(torch.equal(s, torch.get_rng_state()))",
            "True",
            id="data leave the script's random stream alone",
        ),
        pytest.param(
            "torch.manual_seed(0); t.RandomHorizontalFlip()(image); a = torch.rand(1); torch.manual_seed(0); torch.rand(1); print(torch.equal(a, torch.rand(1)))",
            "True",
            id="a flip draws one number from torch",
        ),
        pytest.param(
            "torch.manual_seed(0); print(t.RandomCrop(8, padding=2)(image).size, t.RandomResizedCrop(5)(image).size, t.Resize(6)(image).size, t.Resize((3, 4))(image).size)",
            "(8, 8) (5, 5) (12, 6) (4, 3)",
            id="sizes of crops",
        ),
        pytest.param(
            "print(t.Compose([t.ToTensor(), t.Normalize((0.5,) * 3, (0.5,) * 3)])(image).min().item())",
            "-1.0",
            id="normalisation",
        ),
        pytest.param(
            "m = models.resnet18(weights=None); m.fc = torch.nn.Linear(m.fc.in_features, 7); print(m(torch.ones(2, 3, 32, 32)).shape)",
            "torch.Size([2, 7])",
            id="a network with another head",
        ),
        pytest.param(
            "print([type(models.vgg16().features[i]).__name__ for i in (3, 4, 16, 22)])",
            "['ReLU', 'MaxPool2d', 'MaxPool2d', 'ReLU']",
            id="VGG's layer numbers",
        ),
        pytest.param(
            "utils.save_image(torch.rand(5, 1, 4, 4), 'grid.png', nrow=3, normalize=True); print(Image.open('grid.png').size)",
            "(20, 14)",
            id="a grid of images",
        ),
    ],
)  # fmt: skip
def test_torchvision(code: str, expected: str, say: Say) -> None:
    start = "import torch; from PIL import Image; from torchvision import datasets, models, transforms as t, utils; "
    image = "image = Image.new('RGB', (16, 8)); "
    assert say(start + image + code, STANDIN_SAMPLES="50", STANDIN_TEST_SAMPLES="20") == expected
