"""Fetch images as bytes.

`ToTensor` and `Normalize` at the end of a pipeline make four bytes of each, image by image; as floats the images go
from workers into pinned memory and to the device. With this, they come as the bytes that they are, a quarter of that,
and both transforms are done for a whole batch, after the copy. Each value depends on one byte and its channel, so it is
looked up in a table that the CPU has computed: the same images bit for bit on every device.

On the CPU, images that workers fetch are left to them; where the training process fetches by itself, it does both for a
whole batch as well, which takes a fraction of the time.

Nobody but this loop sees bytes: dataset, pipeline and loader are the script's own, and give everybody else floats. The
runtime reads the pipeline anew for each pass, and what it does not know it leaves as it is.

Left alone:
- pipelines that end otherwise, with something random after `ToTensor` (`RandomErasing`) or a function;
- functions of the script, and `Lambda`, before `ToTensor`: what they give may be no image of bytes;
- datasets of the script, and those of torchvision that give more than an image and what belongs to it;
- images that lie in memory and are looked up by the batch as it is (MNIST with `ToTensor` and `Normalize`);
- loaders with `collate_fn` or `worker_init_fn`, which may look at the samples or at the dataset;
- loops that do not move their images.

Before:
    for images, labels in accel.prefetch(loader, device):

After:
    for images, labels in accel.prefetch(loader, device, normalize=True):
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.bounds import TRANSFORMS
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import AddArguments, Code, Finding, Skipped, Tier
from autoaccel.pytorch import datasets
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods.prefetch.in_memory import is_looked_up

RULE = Rule(
    code="AA105",
    name="normalize-on-device",
    tier=Tier.EQUIVALENT,
    needles=(b".prefetch(",),
    references=(
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html",
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Normalize.html",
    ),
    addresses=("loader", "transfer"),
    under_determinism=UnderDeterminism.REPEATED,
    order=91,
)
_VISION = "torchvision.datasets."
# Those that give an image and what belongs to it, with the place of `transform` among their arguments, if it has one.
DATASETS = {
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "USPS", "CIFAR10", "CIFAR100", "SVHN"), 2),
    **dict.fromkeys(
        ("FGVCAircraft", "Flowers102", "Food101", "GTSRB", "RenderedSST2", "StanfordCars", "Country211"), 2
    ),
    **dict.fromkeys(("STL10", "FakeData", "CelebA", "DTD"), 3),
    **dict.fromkeys(("ImageFolder", "EuroSAT", "SUN397"), 1),
    **dict.fromkeys(("EMNIST", "ImageNet", "Imagenette"), None),
}
_TRANSFORMS = "torchvision.transforms."
_NO_IMAGES = frozenset(
    "ToTensor PILToTensor ToPILImage ConvertImageDtype Normalize RandomErasing FiveCrop TenCrop".split()
)
_OF_OTHERS = frozenset("Compose RandomApply RandomChoice RandomOrder".split())
_Made: TypeAlias = tuple[Script, LoaderCall]
_Source: TypeAlias = tuple[Script, LoaderCall, Value]
_SECOND = re.compile(r"transforms(\.| +import +.*\b)v2\b")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.runtime_calls("prefetch"):
        if not call.args or len(call.args) > 3 or any(each.arg in (None, "normalize") for each in call.keywords):
            continue
        made = _made(script, call.args[0])
        sources = [
            (file, each, source)
            for file, each in made
            if "dataset" in each.settings
            for source in datasets.origins(file, each.settings["dataset"])
        ]
        if not any(_has_images(file, source) for file, _, source in sources):
            continue
        problem = (
            _of_others(script, call.args[0], made, sources)
            or next(filter(None, (_of_loader(each) for _, each in made)), None)
            or _of_datasets(sources)
            or _of_loop(call)
        )
        if problem is not None:
            yield RULE.skip(call, problem)
        else:
            edit = AddArguments(call, (("normalize", Code("True")),))
            yield RULE.finding(call, "images are made floats one by one, before they are handed over", edit)


def _made(script: Script, loader: ast.expr) -> list[_Made]:
    """The calls that may have made a loader."""
    return [(file, made) for file, call in script.creations(loader) for made in loader_calls(file) if made.call is call]


def _has_images(script: Script, source: Value) -> bool:
    """Whether a dataset is seen to give images, which somebody makes tensors of."""
    if source.cls is not None:
        return "ToTensor" in source.cls.script.text or "ToTensor" in script.text
    return (source.name or "").startswith(_VISION)


def _of_loop(call: ast.Call) -> str | None:
    """Whether images, which come first in a batch, are among what a loop moves."""
    moved = call.args[2] if len(call.args) > 2 else given_as(call, "move")
    match moved:
        case None | ast.Constant(value="all"):
            return None
        case ast.Tuple(elts=parts) if any(isinstance(each, ast.Constant) and each.value == 0 for each in parts):
            return None
        case _:
            return "its images are not what the loop moves"


def _of_others(script: Script, loader: ast.expr, made: Sequence[_Made], sources: Sequence[_Source]) -> str | None:
    """Whether there may be other loaders or datasets than those that are seen."""
    if sum(value.kind is not Kind.NONE for value in script.values(loader)) != len(made):
        return "its loader may be another one, too"
    known = all(source.cls is not None or (source.name or "").startswith(_VISION) for _, _, source in sources)
    return None if known else "its dataset may be another one, too"


def _of_loader(made: LoaderCall) -> str | None:
    """Why a loader's samples are what its dataset gives."""
    if made.problem is not None:
        return made.problem
    for name in ("collate_fn", "worker_init_fn"):
        value = made.settings.get(name)
        if (value is None and name in made.possible) or not (value is None or is_constant(value, None)):
            return f"its {name}= may look at what the workers get"
    if "batch_size" in made.settings and is_constant(made.settings["batch_size"], None):
        return "it hands out samples, not batches"
    return None


def _of_datasets(sources: Sequence[_Source]) -> str | None:
    """Why all images have to be fetched as floats. Of several datasets one is enough: the runtime tells them apart."""
    reasons = [_of_dataset(*each) for each in sources]
    return None if None in reasons else reasons[0]


def _of_dataset(script: Script, made: LoaderCall, source: Value) -> str | None:
    if source.cls is not None:
        return "its images come from a dataset of the script"
    name, call, file = (source.name or "").removeprefix(_VISION), source.node, source.script or script
    if not isinstance(call, ast.Call):
        return "its dataset is not seen to be made"
    if name not in DATASETS:
        return f"{name} does not give an image and what belongs to it, in all that is known of it"
    if given_as(call, "loader") is not None:
        return "its images are read by a function of the script"
    at = DATASETS[name]
    hidden = any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)
    transform = given_as(call, "transform")
    if transform is None and at is not None and not hidden and len(call.args) > at:
        transform = call.args[at]
    if transform is None:
        return "its transforms are not visible" if hidden or call.args[3:] else "it makes no tensors of its images"
    if _SECOND.search(file.text):
        return "its transforms may be those of `torchvision.transforms.v2`"
    return _of_pipeline(file, transform) or (
        "its images lie in memory, and are looked up by the batch as it is" if is_looked_up(script, made) else None
    )


def _of_pipeline(script: Script, transform: ast.expr) -> str | None:
    """Why the end of a pipeline cannot be done for a whole batch."""
    for value in script.values(transform):
        steps = _steps(value, script)
        if steps is None:
            return "its pipeline is not visible as a whole"
        names = [_name(file, each) for file, each in steps]
        last = 2 if names[-2:] == ["ToTensor", "Normalize"] else 1
        if names[-last:] not in (["ToTensor"], ["ToTensor", "Normalize"]):
            return "its pipeline does not end with ToTensor, or ToTensor and Normalize"
        if not all(_gives_images(file, each) for file, each in steps[:-last]):
            return "what comes before ToTensor may give no image of bytes"
    return None


def _steps(value: Value, script: Script) -> list[tuple[Script, ast.expr]] | None:
    """The transforms of a pipeline, in order; None where they are not all in sight."""
    file = value.script or script
    match value.node:
        case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts)], keywords=[]) if (
            value.name == f"{_TRANSFORMS}Compose"
        ):
            return None if any(isinstance(each, ast.Starred) for each in parts) else [(file, each) for each in parts]
        case ast.Call() as call if value.name == f"{_TRANSFORMS}ToTensor":
            return [(file, call)]
        case _:
            return None


def _name(script: Script, step: ast.expr) -> str | None:
    """The name of the class of torchvision's that a transform is of."""
    names = {value.name if isinstance(value.node, ast.Call) else None for value in script.values(step)}
    name = next(iter(names)) if len(names) == 1 else None
    return None if name is None or not name.startswith(_TRANSFORMS) else name.removeprefix(_TRANSFORMS)


def _gives_images(script: Script, step: ast.expr, depth: int = TRANSFORMS) -> bool:
    """Whether a transform gives an image of one byte a channel where it gets one."""
    name = _name(script, step)
    if name is None or name == "Lambda" or name in _NO_IMAGES:
        return False
    if name not in _OF_OTHERS:
        return True
    inner = [
        value.node.args[0].elts if isinstance(value.node.args[0], ast.List | ast.Tuple) else None
        for value in script.values(step)
        if isinstance(value.node, ast.Call) and value.node.args
    ]
    return (
        depth > 0
        and bool(inner)
        and all(parts is not None and all(_gives_images(script, each, depth - 1) for each in parts) for parts in inner)
    )
