"""Loops over samples that lie in the memory of what trains, on the CPU or a device: a batch is one look-up there."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.bounds import TRANSFORMS
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.pytorch import datasets, device_expressions
from autoaccel.pytorch.forwards import forward_calls
from autoaccel.pytorch.gradients import asks_for_gradients
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls
from autoaccel.pytorch.loader_changes import loader_state
from autoaccel.pytorch.loader_loops import LoaderLoop
from autoaccel.pytorch.sample_code import uses_device

_LOADER = "torch.utils.data.DataLoader"
_OWN_WAY = frozenset({"collate_fn", "multiprocessing_context", "prefetch_factor"})
_SEVERAL = "torch.utils.data.ConcatDataset"
_VISION = frozenset(
    f"torchvision.datasets.{name}" for name in "MNIST FashionMNIST KMNIST EMNIST USPS CIFAR10 CIFAR100 SVHN".split()
)
_TRANSFORM = 2  # position among the arguments of these datasets
_COMPOSE = "torchvision.transforms.Compose"
_TRANSFORMS = frozenset(
    f"torchvision.transforms.{name}" for name in "ToTensor Normalize RandomHorizontalFlip RandomCrop Pad".split()
)
# Those that the runtime does once, image by image, where no workers do them while a device computes.
_ONCE = frozenset(f"torchvision.transforms.{name}" for name in "Resize CenterCrop Grayscale".split())


def is_indexed_in_place(script: Script, loop: LoaderLoop) -> bool:
    """Whether a loop trains or evaluates where its samples lie, with batches that torch's loader collates of them: on
    the CPU, in a script that never leaves it, or on a device."""
    calls = {made.call: (file, made) for file, made in _made(script, loop)}
    made = [value.node for value in script.values(loop.loader) if value.kind is not Kind.NONE]
    return (
        bool(made)
        and all(isinstance(node, ast.Call) and node in calls for node in made)
        and all(_collates(each) and _in_memory(file, each, _TRANSFORMS | _ONCE) for file, each in calls.values())
        and works(script, loop.node)
        and (not device_expressions.is_used(script) or may_be_on_device(script, loop))
    )


def may_be_on_device(script: Script, loop: LoaderLoop) -> bool:
    """Whether the samples of each loader that a loop goes over may lie on a device."""
    datasets_of = [(file, made.settings.get("dataset")) for file, made in _made(script, loop)]
    return bool(datasets_of) and all(each is not None and uses_device(file, each) for file, each in datasets_of)


def _made(script: Script, loop: LoaderLoop) -> list[tuple[Script, LoaderCall]]:
    return [
        (file, made)
        for file, call in script.creations(loop.loader)
        for made in loader_calls(file)
        if made.call is call and file.qualname(call.func) == _LOADER
    ]


def is_looked_up(script: Script, made: LoaderCall) -> bool:
    """Whether the runtime looks up a loader's batches whole, whatever the device."""
    workers = made.settings.get("num_workers")
    ours = isinstance(workers, ast.Call) and script.runtime_name(workers.func) == "num_workers"
    return (ours or _collates(made)) and not _OWN_WAY & made.settings.keys() and _in_memory(script, made, _TRANSFORMS)


def works(script: Script, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a model runs in the loop; others that only look at the data are short."""
    return any(True for _ in forward_calls(script, loop)) or asks_for_gradients(script, loop) is not None


def _collates(made: LoaderCall) -> bool:
    """Whether batches are put together by torch, in the process that trains."""
    if made.problem is not None or _OWN_WAY & (made.settings.keys() | made.possible):
        return False
    if {"num_workers", "batch_size"} & (made.possible - made.settings.keys()):
        return False
    workers, size = made.settings.get("num_workers"), made.settings.get("batch_size")
    alone = workers is None or (isinstance(workers, ast.Constant) and not workers.value)
    return alone and not is_constant(size, None)


def _in_memory(script: Script, made: LoaderCall, transforms: frozenset[str]) -> bool:
    dataset = made.settings.get("dataset")
    if dataset is None or any(value.name == _SEVERAL for value in script.values(dataset)):
        return False
    sources = tuple(datasets.origins(script, dataset))
    if loader_state(script, made, in_workers=True).keeper is not None:
        return False
    return bool(sources) and all(_lies_in_memory(script, source, transforms) for source in sources)


def _lies_in_memory(script: Script, source: Value, transforms: frozenset[str]) -> bool:
    if source.cls is not None:
        return _looks_up(source, source.cls)
    if source.name in _VISION:
        return isinstance(source.node, ast.Call) and _is_known(source.script or script, source.node, transforms)
    return source.name == "torch.utils.data.TensorDataset"


def _looks_up(source: Value, cls: ClassRef) -> bool:
    """Whether a dataset of the project only indexes tensors and arrays that it holds."""
    if datasets.is_iterable(source) or not datasets.only_indexes(source):
        return False
    if datasets.keeps_generator(cls):
        return False
    owners = [
        (file, item.value)
        for file, method in datasets.item_methods(cls)
        for item in file.within(method, ast.Subscript)
        if isinstance(item.value, ast.Attribute)
    ]
    return bool(owners) and all(file.kind(owner) in (Kind.TENSOR, Kind.ARRAY) for file, owner in owners)


def _is_known(script: Script, call: ast.Call, transforms: frozenset[str]) -> bool:
    """Whether all that happens to a picture is what can be done to many at once."""
    settings = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in settings or "target_transform" in settings or len(call.args) > _TRANSFORM + 1:
        return False
    transform = call.args[_TRANSFORM] if len(call.args) > _TRANSFORM else settings.get("transform")
    return transform is not None and _is_batchable(script, transform, transforms)


def _is_batchable(script: Script, transform: ast.expr, known: frozenset[str], depth: int = TRANSFORMS) -> bool:
    match transform:
        case ast.Call(func=function, args=[ast.List(elts=parts) | ast.Tuple(elts=parts)], keywords=[]) if (
            script.qualname(function) == _COMPOSE
        ):
            return all(_is_batchable(script, part, known, depth) for part in parts)
        case ast.Call(func=function):
            return script.qualname(function) in known
        case ast.Name() if depth:
            values = [each.value for each in script.definitions(transform) if each.how == "assign" and not each.path]
            whole = len(values) == len(script.definitions(transform)) > 0
            return whole and all(each is not None and _is_batchable(script, each, known, depth - 1) for each in values)
        case _:
            return False
