"""Images that come as bytes: the loop sees the batches of the plain loader, bit for bit, and nobody else sees bytes."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torch.utils.data._utils.collate import default_collate

from autoaccel import runtime as accel
from autoaccel.measure.observing.host_prefetch import HostCopyStream
from autoaccel.runtime import devices
from autoaccel.runtime.in_memory.image_transforms import Pipeline
from autoaccel.runtime.loading import image_bytes, loader_settings, prefetcher, worker_count
from autoaccel.runtime.loading.image_bytes import AsBytes
from autoaccel.runtime.loading.loader_settings import WorkerCount
from autoaccel.runtime.loading.worker_count import Machine, WorkerDecision
from tests.runtime.in_memory.comparing import content, watch

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of two CPUs

CPU = torch.device("cpu")
COUNT = 13
Make = Callable[..., DataLoader[Any]]

PIPELINES: dict[str, Callable[[Any], list[Any]]] = {
    "resized": lambda t: [t.Resize((17, 23)), t.ToTensor(), t.Normalize((0.4,), (0.3,))],
    "of three channels": lambda t: [
        t.Grayscale(3), t.ToTensor(), t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    ],
    "grey": lambda t: [t.Grayscale(), t.ToTensor(), t.Normalize([0.5], [0.5], inplace=True)],
    "floats alone": lambda t: [t.RandomHorizontalFlip(), t.ToTensor()],
    "augmented": lambda t: [
        t.RandomResizedCrop(19), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize((0.1, 0.2, 0.3), (7.0, 8.0, 9.0))
    ],
    "nested": lambda t: [t.Compose([t.RandomCrop(20), t.Compose([])]), t.ToTensor(), t.Normalize((0.5,), (2,))],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of images: two classes."""
    pixels = np.random.RandomState(0).randint(0, 256, (COUNT, 28, 31, 3)).astype(np.uint8)
    for number, each in enumerate(pixels):
        place = tmp_path / "images" / f"class {number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(each).save(place / f"{number}.png")
    return tmp_path / "images"


@pytest.fixture
def make(torchvision: ModuleType, folder: Path) -> Make:
    """Makes a loader of files of images, with a pipeline of this name or these steps."""

    def made(pipeline: Any = "augmented", **options: Any) -> DataLoader[Any]:
        t = torchvision.transforms
        steps = PIPELINES[pipeline](t) if isinstance(pipeline, str) else pipeline
        dataset = torchvision.datasets.ImageFolder(str(folder), t.Compose(steps))
        return DataLoader(dataset, **{"batch_size": 4, "shuffle": True, **options})

    return made


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host, as a device to which copies are made ahead."""
    stream = HostCopyStream()
    monkeypatch.setattr(prefetcher, "overlaps", lambda device: True)
    monkeypatch.setattr(prefetcher, "pinned", lambda loader: True)
    monkeypatch.setattr(prefetcher, "copy_stream_of", lambda device: stream)
    monkeypatch.setattr(prefetcher, "SMALLEST_BATCH", 0)


def ahead(loader: Any) -> Iterator[Any]:
    return iter(accel.prefetch(loader, CPU, move=(0,), normalize=True))


def images(loader: DataLoader[Any]) -> image_bytes.ImageBytes:
    (known,) = image_bytes._known[loader].values()
    return known


def same(make: Callable[[], DataLoader[Any]], passes: int = 2, leave: int | None = None) -> None:
    """Fails unless a loop gets what torch gives, and images were really fetched as bytes."""
    loaders: list[DataLoader[Any]] = []
    fetched: list[torch.dtype] = []

    def made() -> DataLoader[Any]:
        loaders.append(make())
        return loaders[-1]

    def noted(loader: DataLoader[Any]) -> Iterator[Any]:
        batches = ahead(loader)
        plain = images(loader).finished

        def finished(batch: Any) -> Any:
            fetched.append(batch[0].dtype)
            return plain(batch)

        vars(images(loader))["finished"] = finished
        return batches

    want = watch(iter, made, passes, leave)
    assert watch(noted, made, passes, leave) == want
    assert {*fetched} == {torch.uint8}


# ---------------------------------------------------------------- the same bits


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_on_the_host(make: Make, pipeline: str) -> None:
    same(lambda: make(pipeline))
    same(lambda: make(pipeline, drop_last=True), leave=1)
    same(lambda: make(pipeline, batch_size=1), passes=1)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.usefixtures("device")
def test_on_a_device(make: Make, pipeline: str) -> None:
    same(lambda: make(pipeline))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.usefixtures("device")
def test_from_workers_of_the_script(make: Make, kept: bool) -> None:
    """Each worker draws from a stream of its own, which crops and flips: they get the very same."""
    same(lambda: make(num_workers=2, persistent_workers=kept), passes=3)


@pytest.mark.usefixtures("device")
def test_from_workers_that_were_asked_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "1")
    plain = make("resized")
    loader = make("resized", num_workers=WorkerCount(1), persistent_workers=True)
    assert watch(ahead, lambda: loader, 3, None) == watch(iter, lambda: plain, 3, None)
    assert images(loader).keeper["_iterator"] is not None


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.usefixtures("device")
def test_from_workers_that_come_in_the_middle(make: Make, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """The first batches are fetched here, and are bytes as well."""
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(loader_settings, "machine", lambda: Machine(16.0, math.inf, math.inf))
    monkeypatch.setattr(worker_count, "decide_workers", lambda *_: WorkerDecision(1, "chosen by the test", yet=True))
    monkeypatch.setattr(worker_count, "helps", lambda fetch, wait: True)
    plain = make("resized", batch_size=1)
    loader = make("resized", batch_size=1, num_workers=WorkerCount(2), persistent_workers=kept)
    assert watch(ahead, lambda: loader, 3, 9) == watch(iter, lambda: plain, 3, 9)
    assert (images(loader).keeper["_iterator"] is not None) is kept
    assert loader._iterator is None, "who iterates the loader itself has workers of its own, which send floats"
    assert {batch[0].dtype for batch in loader} == {torch.float32}


@pytest.mark.parametrize("name", ["MNIST", "CIFAR10", "SVHN", "FakeData"])
def test_datasets(torchvision: ModuleType, name: str) -> None:
    t = torchvision.transforms
    pipeline = t.Compose([t.RandomCrop(24), t.Resize(20), t.ToTensor(), t.Normalize((0.2,), (0.7,))])
    dataset: Any = getattr(torchvision.datasets, name)(
        **{"transform": pipeline, **({"size": 40} if name == "FakeData" else {"root": "x"})}
    )
    same(lambda: DataLoader(Subset(Subset(dataset, range(3, 33)), range(2, 21)), batch_size=5, shuffle=True))


def test_what_lies_in_memory_is_looked_up_whole(torchvision: ModuleType) -> None:
    t = torchvision.transforms
    dataset = torchvision.datasets.MNIST("x", transform=t.Compose([t.ToTensor(), t.Normalize((0.1,), (0.3,))]))
    loader = DataLoader(dataset, batch_size=50)
    assert [*map(content, ahead(loader))] == [*map(content, loader)]
    assert accel.prefetch(loader, CPU, normalize=True)._ahead is None


def test_larger_than_what_is_computed_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_bytes, "_AT_ONCE", 3 * 19 * 19 * 3 + 1)
    same(lambda: make(batch_size=8))


def test_every_value_by_the_table_of_a_device(make: Make, torchvision: ModuleType) -> None:
    """A device may divide otherwise; there each byte is looked up in a table that the host has made."""
    loader = make("of three channels")
    found = image_bytes.ImageBytes(loader, CPU)
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).repeat(2, 3, 1, 1)
    plain = loader.dataset.transform  # type: ignore[attr-defined]
    want = torch.stack([plain(Image.fromarray(each.permute(1, 2, 0).numpy())) for each in pixels])
    assert found._values is not None
    assert torch.equal(found._values._from_table(pixels), want)
    assert torch.equal(found.finished([pixels, 1])[0], want)


def test_another_default_dtype(make: Make) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        same(lambda: make("resized"))
    finally:
        torch.set_default_dtype(torch.float32)


def test_without_room_on_the_device(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop moves floats itself, as it did."""

    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    found = image_bytes.ImageBytes(make(), torch.device("meta"))
    want = image_bytes.ImageBytes(make(), CPU)
    batch = [torch.randint(0, 256, (2, 3, 9, 9), dtype=torch.uint8), torch.arange(2)]
    assert found.finished(batch)[0].is_meta
    monkeypatch.setattr(Pipeline, "__call__", full)
    assert content(found.finished(batch)) == content(want.finished(batch))


def test_workers_that_get_everything_pickled(
    make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(torchvision.__file__ or "").parents[1])
    loader = make("resized", num_workers=1, multiprocessing_context="spawn")
    found = image_bytes.ImageBytes(loader, CPU)
    want = [content(each) for each in watched(loader)]
    with found.instead(loader):
        batches = iter(loader)
    fetched = [*batches]
    assert {each[0].dtype for each in fetched} == {torch.uint8}
    torch.manual_seed(0)
    assert [content(found.finished(each)) for each in fetched] == want


def watched(loader: DataLoader[Any]) -> list[Any]:
    torch.manual_seed(0)
    found = [*loader]
    torch.manual_seed(0)
    return found


# ---------------------------------------------------------------- nobody else sees bytes


@pytest.mark.usefixtures("device")
def test_who_else_reads_the_data_gets_floats(make: Make) -> None:
    loader = make("resized", num_workers=1, persistent_workers=True)
    settings = {**vars(loader)}
    transform = loader.dataset.transform  # type: ignore[attr-defined]
    steps = [*transform.transforms]
    for _ in range(2):
        for batch in ahead(loader):
            assert batch[0].dtype == torch.float32
            assert loader.dataset[0][0].dtype == torch.float32
            assert vars(loader) == settings
            assert transform.transforms == steps
    assert {batch[0].dtype for batch in loader} == {torch.float32}
    assert [content(batch) for batch in watched(loader)] == [content(batch) for batch in seeded(ahead, loader)]


def seeded(iterate: Callable[[Any], Iterator[Any]], loader: DataLoader[Any]) -> list[Any]:
    torch.manual_seed(0)
    return [*iterate(loader)]


@pytest.mark.usefixtures("device")
def test_workers_go_with_their_loader(make: Make) -> None:
    loader = make("resized", num_workers=1, persistent_workers=True)
    [*ahead(loader)]
    (worker,) = images(loader).keeper["_iterator"]._workers
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    worker.join(10)
    assert not worker.is_alive()


# ---------------------------------------------------------------- what the script changes shows


def test_a_pipeline_that_changes_in_a_pass(make: Make, torchvision: ModuleType) -> None:
    t = torchvision.transforms

    def changing(iterate: Callable[[Any], Any]) -> list[Any]:
        loader = make("resized", batch_size=2)
        dataset: Any = loader.dataset
        torch.manual_seed(0)
        found = []
        for _ in range(2):
            for number, batch in enumerate(iterate(loader)):
                found.append(content(batch))
                if number == 1:
                    dataset.transform.transforms[-1] = t.Normalize((0.9 + number,), (0.1,))
                if number == 3:
                    dataset.transform = t.Compose([t.Resize((5, 6)), t.ToTensor(), t.Normalize((0.2,), (0.1,))])
        return found

    assert changing(ahead) == changing(iter)


@pytest.mark.usefixtures("device")
def test_kept_workers_have_the_pipeline_of_their_first_pass(make: Make, torchvision: ModuleType) -> None:
    """As with torch's own, whoever changes the dataset later."""

    def changing(iterate: Callable[[Any], Any]) -> list[Any]:
        loader = make("resized", num_workers=1, persistent_workers=True)
        torch.manual_seed(0)
        found = [content(batch) for batch in iterate(loader)]
        vars(loader.dataset)["transform"] = torchvision.transforms.ToTensor()
        return found + [content(batch) for batch in iterate(loader)]

    assert changing(ahead) == changing(iter)


# ---------------------------------------------------------------- left as it is


def _collated(samples: list[Any]) -> Any:
    put_together: Any = default_collate
    return put_together(samples)


def _function(image: Any) -> Any:
    return image


def _root(make: Make) -> Any:
    return vars(make().dataset)["root"]


def _other_loader(path: str) -> Any:
    return Image.open(path)


LEFT: dict[str, tuple[Callable[[Make, Any], DataLoader[Any]], str]] = {
    "a tensor is changed afterwards": (
        lambda make, tv: make([tv.transforms.ToTensor(), tv.transforms.RandomHorizontalFlip()]), "does not end with"),
    "twice": (
        lambda make, tv: make([tv.transforms.ToTensor(), *[tv.transforms.Normalize((0.5,), (0.5,))] * 2]),
        "does not end with"),
    "no floats": (lambda make, tv: make([tv.transforms.PILToTensor()]), "does not end with"),
    "nothing": (lambda make, tv: make([]), "does not end with"),
    "a function before": (lambda make, tv: make([_function, tv.transforms.ToTensor()]), "not one of torchvision's"),
    "Lambda before": (
        lambda make, tv: make([tv.transforms.Lambda(_function), tv.transforms.ToTensor()]), "not one of torchvision's"),
    "a subclass": (lambda make, tv: make([type("ToTensor", (tv.transforms.ToTensor,), {})()]), "ToTensor is not known"),
    "no deviation": (
        lambda make, tv: make([tv.transforms.ToTensor(), tv.transforms.Normalize((0.5,), (0.0,))]), "that fails"),
    "collated otherwise": (
        lambda make, tv: make(collate_fn=_collated), "a function of the script"),
    "samples": (lambda make, tv: make(batch_size=None, shuffle=False), "samples, not batches"),
    "workers that begin with a function": (
        lambda make, tv: make(worker_init_fn=lambda number: None), "a function of the script"),
    "workers on the host": (lambda make, tv: make(num_workers=1), "the CPU that trains"),
    "several datasets": (
        lambda make, tv: DataLoader(ConcatDataset([make().dataset]), batch_size=2), "a ConcatDataset is not known"),
    "another reader": (
        lambda make, tv: DataLoader(
            tv.datasets.ImageFolder(_root(make), tv.transforms.ToTensor(), loader=_other_loader), batch_size=2),
        "are read by a function"),
    "a dataset of the script": (
        lambda make, tv: DataLoader(
            type("ImageFolder", (tv.datasets.ImageFolder,), {})(_root(make), tv.transforms.ToTensor()), 2),
        "a ImageFolder is not known"),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_left_as_it_is(
    make: Make, torchvision: ModuleType, case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    given, reason = LEFT[case]
    loader = given(make, torchvision)
    assert accel.prefetch(loader, CPU, normalize=True) is loader
    said = capsys.readouterr().err
    assert "normalize " in said
    assert reason in said


@pytest.mark.parametrize("name", ["all", "prefetch", "normalize"])
def test_switched_off(make: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", name)
    loader = make()
    assert accel.prefetch(loader, CPU, normalize=True) is loader


def test_images_that_the_loop_does_not_move(make: Make) -> None:
    loader = make()
    assert accel.prefetch(loader, CPU, move=(1,), normalize=True) is loader
    assert accel.prefetch(loader, CPU) is loader


def test_tensors_that_are_made_on_a_device(make: Make) -> None:
    loader = make()
    with torch.device("meta"):
        assert accel.prefetch(loader, CPU, normalize=True) is loader


# ---------------------------------------------------------------- the end of a pipeline


def test_what_is_no_image_of_bytes_goes_the_plain_way(torchvision: ModuleType) -> None:
    plain = torchvision.transforms.ToTensor(), torchvision.transforms.Normalize((0.5,), (0.5,))
    for other in (np.ones((3, 2, 1), np.float32), Image.new("F", (2, 3), 0.25)):
        want = plain[1](plain[0](other))
        assert content(AsBytes(plain)(other)) == content(want)
    with pytest.raises(type(_failure(plain[0])), match=str(_failure(plain[0]))[:8]):
        AsBytes(plain)("no image")


def _failure(transform: Any) -> Exception:
    try:
        transform("no image")
    except Exception as failure:
        return failure
    raise AssertionError


@pytest.mark.parametrize("mode", sorted(image_bytes._MODES))
def test_every_mode_of_bytes(torchvision: ModuleType, mode: str) -> None:
    tensor = torchvision.transforms.ToTensor()
    numbers = np.random.RandomState(0).randint(0, 256, (5, 4, 3)).astype(np.uint8)
    image = Image.fromarray(numbers).convert(mode)
    given = AsBytes([tensor])(image)
    assert given.dtype == torch.uint8
    assert given.is_contiguous()
    assert torch.equal(given.to(torch.float32).div(255), tensor(image))


def test_both_kinds_are_not_mixed(torchvision: ModuleType) -> None:
    """In one batch bytes would become floats from 0 to 255 without a word."""
    tail = AsBytes([torchvision.transforms.ToTensor()])
    tail(Image.new("L", (2, 2)))
    with pytest.raises(TypeError, match="a F image among images of bytes: set AUTOACCEL_DISABLE=normalize"):
        tail(Image.new("F", (2, 2)))
