"""Images that are fetched as bytes, and made floats and normalised a batch at a time, where the loop wants them.

`ToTensor` and `Normalize` at the end of a pipeline make four bytes of each, sample by sample, which workers then hand
over, pin and copy. Here a pass fetches from a copy of the dataset whose pipeline ends before them, and does both with
whole batches: on the device, or on the host where the process that trains fetches by itself. Each value depends on one
byte and its channel alone, so what comes out is the same bit for bit (`in_memory.image_transforms`).

The script's own dataset, pipeline and loader are not changed: whoever else reads them, meanwhile or later, gets floats.
Nothing is assumed of a batch either: one that comes as floats nevertheless is handed on.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch.utils import data

from ..environment import Decision, disabled, note
from ..in_memory.eligible_loaders import collated_otherwise
from ..in_memory.image_transforms import Pipeline
from ..in_memory.mutation_guard import MutationGuard, Unsupported, is_librarys
from ..in_memory.torchvision_datasets import TransformReader, is_torchvisions, steps_of
from .loader_statistics import named
from .rebuild_batch import PartsToMove
from .torch_iterators import altered, is_torchs, known

# torchvision's, whose samples are an image, through `transform`, and what belongs to it.
DATASETS: Final = frozenset(
    """MNIST FashionMNIST KMNIST EMNIST USPS CIFAR10 CIFAR100 SVHN STL10 FakeData ImageFolder ImageNet CelebA Country211
    DTD EuroSAT FGVCAircraft Flowers102 Food101 GTSRB Imagenette RenderedSST2 StanfordCars SUN397""".split()
)
# What makes no image of an image, or what is not torchvision's to know.
_NO_IMAGES: Final = frozenset({"Lambda", "ToTensor", "PILToTensor", "ToPILImage", "FiveCrop", "TenCrop"})
_OF_OTHERS: Final = frozenset({"Compose", "RandomApply", "RandomChoice", "RandomOrder"})
# Of Pillow's modes those with one byte a channel, which `ToTensor` divides by 255.
_MODES: Final = frozenset({"L", "P", "RGB", "RGBA", "CMYK", "YCbCr"})
# Of the host's arithmetic so many numbers at once, or one image: they stay in the cache from one operation to the next,
# and torch asks no other threads, which on a busy machine can take longer than all of it.
_AT_ONCE: Final = 2**15


class AsBytes:
    """Stands in a pipeline for the last transforms, and gives what they would have got: the image, as a CHW tensor.

    What is no image of bytes goes through them. Both in one batch would be put together as if they were the same kind.
    """

    def __init__(self, plain: Sequence[Any]) -> None:
        self._plain: Final = tuple(plain)
        self._gives_bytes: bool | None = None

    def __call__(self, image: Any) -> Any:
        pillow = sys.modules.get("PIL.Image")
        fits = pillow is not None and isinstance(image, pillow.Image) and image.mode in _MODES
        if self._gives_bytes is None:
            self._gives_bytes = fits
        if self._gives_bytes and not fits:
            what = f"a {getattr(image, 'mode', type(image).__name__)!s} image"
            raise TypeError(
                f"autoaccel: {what} among images of bytes: set AUTOACCEL_DISABLE=normalize to normalise one by one"
            )
        if not self._gives_bytes:
            for each in self._plain:
                image = each(image)
            return image
        numpy: Any = sys.modules["numpy"]
        pixels = numpy.asarray(image)
        planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        return torch.from_numpy(numpy.array(planes, order="C"))


class ImageBytes:
    """The images of one loader as bytes, as long as its dataset is what was read.

    Args:
        loader: Of a dataset that is understood, or `Unsupported` is raised.
        device: Where bytes become floats. None is here, by the process that trains, which has to fetch by itself.
    """

    def __init__(self, loader: data.DataLoader[Any], device: torch.device | None) -> None:
        if reason := _unfit(loader, device):
            raise Unsupported(reason)
        self._guard: Final = MutationGuard()
        self.device: Final = device
        self._values: Pipeline | None = None
        self._dataset: Final = self._copied(loader.dataset)
        # the iterator whose workers serve later passes, as a loader keeps it
        self.keeper: Final[dict[str, Any]] = {"_iterator": None}

    def dataset(self) -> Any:
        """A dataset of bytes; None if the script has changed its own since."""
        return self._dataset if self._guard.same() else None

    @contextlib.contextmanager
    def instead(self, loader: data.DataLoader[Any]) -> Iterator[None]:
        """Let workers that start now, and those that were kept, send bytes."""
        if not loader.num_workers:
            yield
            return
        with altered(loader, dataset=self._dataset, **self.keeper):
            yield
            self.keeper["_iterator"] = vars(loader)["_iterator"]

    def serve(self, batches: Any) -> None:
        """Let an iterator of the loader give bytes; one with workers got them when they were started.

        `in_floats` gives its batches as the plain loader's, to whoever watches (`verify`).
        """
        assert self._values is not None
        batches.in_floats = functools.partial(on_host, self._values)
        if (fetcher := getattr(batches, "_dataset_fetcher", None)) is not None:
            batches._dataset_fetcher = _Fetcher(fetcher, self)  # noqa: SLF001

    def finished(self, batch: Any) -> Any:
        """A batch with floats in the place of bytes, which go to the device before."""
        assert self._values is not None
        if _is_bytes(batch) and self.device is not None and self.device.type != "cpu":
            with contextlib.suppress(torch.OutOfMemoryError):  # the loop did without the memory of the arithmetic
                images = batch[0].to(self.device, non_blocking=batch[0].is_cpu and batch[0].is_pinned())
                return [self._values(images), *batch[1:]]
        return on_host(self._values, batch)

    def _copied(self, dataset: Any) -> Any:
        """A dataset like another, of the same objects but for the end of its pipeline."""
        kind: Any = type(dataset)
        if kind is not data.Subset and not _is_known(kind):
            raise Unsupported(f"a {kind.__name__} is not known to give images")
        own = {name: self._guard.attribute(dataset, name) for name in vars(dataset)}
        if kind is data.Subset:
            own["dataset"] = self._copied(own["dataset"])
        elif "loader" in own and not is_librarys(own["loader"], "torchvision", "default_loader"):
            raise Unsupported("its images are read by a function of the script")
        else:
            own["transform"] = self._shortened(own.get("transform"))
        copied = kind.__new__(kind)
        vars(copied).update(own)
        return copied

    def _shortened(self, transform: Any) -> Any:
        """A pipeline with `AsBytes` in the place of `ToTensor`, alone or followed by `Normalize`, at its end."""
        if type(transform).__name__ != "Compose":
            return self._last([transform])
        if not is_torchvisions(transform, "transforms", "__call__"):
            raise Unsupported("the transform Compose is not known")
        steps = steps_of(transform, self._guard)
        first = len(steps) - (2 if type(steps[-1]).__name__ == "Normalize" else 1) if steps else 0
        last = self._last(steps[max(0, first) :])
        if not all(map(_gives_images, steps[:first])):
            raise Unsupported("its pipeline is not one of torchvision's transforms of images")
        shorter = copy.copy(transform)
        shorter.transforms = [*steps[:first], last]
        return shorter

    def _last(self, steps: Sequence[Any]) -> AsBytes:
        if [type(each).__name__ for each in steps] not in (["ToTensor"], ["ToTensor", "Normalize"]):
            raise Unsupported("its pipeline does not end with ToTensor, or ToTensor and Normalize")
        channels = max(_length(getattr(each, name, 0)) for each in steps for name in ("mean", "std"))
        reading = TransformReader(self._guard, 1, 1, channels)
        for each in steps:
            reading.read(each)
        self._values = Pipeline("CHW", (), tuple(reading.values))
        return AsBytes(steps)


class _Fetcher:
    """Stands before the fetcher of an iterator without workers, and fetches bytes where the dataset is as it was."""

    def __init__(self, plain: Any, images: ImageBytes) -> None:
        self._plain: Final = plain
        self._images: Final = images

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def fetch(self, indices: Any) -> Any:
        dataset = self._images.dataset()
        if dataset is None:
            return self._plain.fetch(indices)
        fetcher = copy.copy(self._plain)
        fetcher.dataset = dataset
        batch = fetcher.fetch(indices)
        vars(self._plain).update({**vars(fetcher), "dataset": self._plain.dataset})  # what others have noted there
        return batch if self._images.device is not None else self._images.finished(batch)


def on_host(values: Pipeline, batch: Any) -> Any:
    """A batch with floats in the place of bytes."""
    if not _is_bytes(batch):
        return batch
    images = batch[0].cpu()
    floats = torch.empty(images.shape)
    rows = max(1, _AT_ONCE // max(1, floats[:1].numel()))
    for first in range(0, len(images), rows):
        some = floats[first : first + rows]
        some.copy_(images[first : first + rows]).div_(255)
        for each in values.values[1:]:
            each(some)
    return [floats, *batch[1:]]


def _is_bytes(batch: Any) -> bool:
    return type(batch) is list and len(batch) > 0 and type(batch[0]) is torch.Tensor and batch[0].dtype == torch.uint8


def _unfit(loader: data.DataLoader[Any], device: torch.device | None) -> str:
    """Why a loader's samples are fetched as they are, whatever its dataset."""
    hashed: Any = type(loader).__hash__
    if not is_torchs(loader) or not known(loader) or hashed is not object.__hash__:
        return f"a {type(loader).__name__} makes its iterators itself"
    if device is None and loader.num_workers:
        return "workers make the floats, and the device is the CPU that trains"
    if reason := collated_otherwise(loader):
        return reason
    if loader.worker_init_fn is not None:
        return "its workers begin with a function of the script, which may look at their dataset"
    if torch.get_default_device().type != "cpu":
        return "tensors are made on a device"
    return ""


def _is_known(kind: type) -> bool:
    """Whether a class is one of torchvision's, unchanged, that give an image and what belongs to it."""
    module, method = sys.modules.get("torchvision.datasets"), getattr(kind, "__getitem__", None)
    name = kind.__name__
    return (
        name in DATASETS
        and getattr(module, name, None) is kind
        and is_librarys(method, "torchvision", getattr(method, "__qualname__", ""))
    )


def _length(numbers: Any) -> int:
    return len(numbers) if type(numbers) in (list, tuple) else 1


def _gives_images(transform: Any) -> bool:
    """Whether a transform is one of torchvision's that make an image, of one byte a channel, of such an image."""
    name = type(transform).__name__
    if getattr(sys.modules.get("torchvision.transforms"), name, None) is not type(transform) or name in _NO_IMAGES:
        return False
    if name not in _OF_OTHERS:
        return True
    inner = transform.transforms
    return type(inner) in (list, tuple) and all(map(_gives_images, inner))


_known: Final[weakref.WeakKeyDictionary[Any, dict[torch.device | None, ImageBytes]]] = weakref.WeakKeyDictionary()


def images_of(loader: Any, device: torch.device | None, move: PartsToMove) -> ImageBytes | None:
    """What lets a pass over a loader that begins now fetch bytes; None where samples are fetched as they are.

    device: where the loop moves its images, if bytes can be copied there meanwhile.
    move: as in `prefetch`; the images come first in a batch.
    """
    if disabled("normalize") or disabled("prefetch") or not (isinstance(move, str) or 0 in move):
        return None
    if not isinstance(loader, data.DataLoader) or type(loader).__hash__ is not object.__hash__:
        return None
    images = _known.get(loader, {}).get(device)
    # workers that were kept have the dataset of the pass that they began with, as the script's own would
    if images is None or (images.dataset() is None and images.keeper["_iterator"] is None) or _unfit(loader, device):
        _known.get(loader, {}).pop(device, None)
        try:
            images = ImageBytes(loader, device)
        except Unsupported as reason:
            note(f"normalize {named(loader)}", Decision(False, str(reason)))
            return None
        _known.setdefault(loader, {})[device] = images
    where = "the host" if device is None else str(device)
    note(f"normalize {named(loader)}", Decision(where, "images are fetched as bytes"))
    return images
