"""Which datasets are understood: those whose samples are elements of tensors, arrays and lists, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from torch.utils import data

from .columns import column
from .mutation_guard import MutationGuard, Unsupported, is_librarys
from .row_indices import RowIndices
from .sample_structure import Route, Sample, SamplePart, map_parts


def read_samples(dataset: Any, guard: MutationGuard) -> Sample:
    """What the dataset's samples are made of. Unsupported says why a dataset is left to torch."""
    kind = type(dataset)
    if isinstance(dataset, data.IterableDataset):
        raise Unsupported("an IterableDataset has no indices")
    guard.method(kind, "__getitem__")
    if isinstance(dataset, data.Subset):
        return _of_subset(dataset, guard)
    if getattr(dataset, "__getitems__", None) is not None:
        raise Unsupported(f"{kind.__name__} has a __getitems__ of its own")
    if isinstance(dataset, data.TensorDataset) and is_librarys(kind.__getitem__, "torch", "TensorDataset.__getitem__"):
        tensors = guard.attribute(dataset, "tensors")
        if type(tensors) not in (list, tuple):
            raise Unsupported("TensorDataset.tensors is not a tuple")
        return [_part(tensor, kind.__name__) for tensor in guard.contents(tensors)]
    if kind in (list, tuple):
        raise Unsupported("a list of samples is stacked as fast by torch")
    if kind.__module__.startswith("torchvision"):
        from . import torchvision_datasets  # most scripts can do without, and start a little sooner

        found = torchvision_datasets.read_samples(dataset, guard)
        if found is not None:
            return found
    from . import getitem_interpreter

    return getitem_interpreter.read_samples(dataset, guard)


def _part(source: Any, name: str) -> SamplePart:
    found = column(source)
    if found is None:
        raise Unsupported(f"a part of {name} is not plain numbers in memory")
    return SamplePart(found)


def _of_subset(dataset: Any, guard: MutationGuard) -> Sample:
    for name in ("__getitem__", "__getitems__"):  # torch's fetcher asks for the latter, where there is one
        method = getattr(type(dataset), name, None)
        if method is not None and not is_librarys(method, "torch", f"Subset.{name}"):
            raise Unsupported(f"{type(dataset).__name__} is not torch's own Subset")
    indices = guard.attribute(dataset, "indices")
    inner = read_samples(guard.attribute(dataset, "dataset"), guard)
    return cast(Sample, map_parts(inner, lambda part, _: _routed(part, lambda rows: rows.through(indices))))


def _routed(part: SamplePart, route: Route) -> SamplePart:
    """The same part at other indices."""
    then = part.route

    def both(rows: RowIndices) -> RowIndices:
        return route(rows) if then is None else then(route(rows))

    return replace(part, route=both)
