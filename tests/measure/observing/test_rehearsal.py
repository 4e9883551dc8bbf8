"""Rehearsed, the runtime does its work, and training is the same bit for bit; what is wrong shows."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from autoaccel import runtime as accel
from autoaccel.measure.observing import host_prefetch, invariants, loaders, rehearsal, training
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.request import COMPILE, PREFETCH, REHEARSALS, SCALER, WORKERS, Request
from autoaccel.runtime.amp.grad_scaler import Scaler
from autoaccel.runtime.compile import in_place_compile
from autoaccel.runtime.in_memory import eligible_loaders
from autoaccel.runtime.in_memory.batch_fetcher import WholeBatchFetcher
from autoaccel.runtime.loading import prefetcher

# What rehearsing puts hooks on.
HOOKED: tuple[Any, ...] = (
    accel,
    in_place_compile,
    prefetcher,
    DataLoader,
    Scaler,
    torch.Tensor,
    torch.autocast,
    torch.nn.functional,
    torch.nn.utils,
    torch.nn.utils.clip_grad,
    torch.utils.data.dataloader._MultiProcessingDataLoaderIter,
    torch.utils.data._utils.fetch._MapDatasetFetcher,
    torch.utils.data._utils.fetch._IterableDatasetFetcher,
    WholeBatchFetcher,
)


@pytest.fixture(autouse=True)
def unhooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything as it was, after the test."""
    for name in [name for name in os.environ if name.startswith("AUTOACCEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "float32")
    variables = dict(os.environ)
    before = [dict(vars(each)) for each in HOOKED]
    yield
    for owner, members in zip(HOOKED, before, strict=True):
        for name in set(vars(owner)) - set(members):
            delattr(owner, name)
        for name, value in members.items():
            if vars(owner)[name] is not value:
                setattr(owner, name, value)
    os.environ.clear()
    os.environ.update(variables)
    host_prefetch._stands.clear()
    host_prefetch._passes.clear()
    host_prefetch._batches.clear()
    assert invariants.CountedRegion.open == invariants.CountedRegion.exempt == 0


@pytest.fixture
def rehearse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Observation]:
    """Begins to rehearse in this process; what is marked is in the observation, after `marks_of`."""

    monkeypatch.setattr("autoaccel.runtime.amp.grad_scaler._latest", {})

    def begin(*names: str) -> Observation:
        observation = Observation(Request("script.py", rehearse=names), Exchange(tmp_path), 0.0)
        rehearsal.install(observation)
        return observation

    return begin


def marks_of(observation: Observation) -> dict[str, int]:
    for told in observation.endings:
        told("finished", None)
    return dict(observation.marks)


def streams() -> tuple[Any, ...]:
    numpy: Any = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numpy[1].tolist(), numpy[2]


Trained = dict[str, Any]


def trained(loop: Callable[[], tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]]) -> Trained:
    """All that a training loop leaves behind."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    losses, modules, optimizers = loop()
    state = [list(module.state_dict().values()) for module in modules]
    slots = [list(values.values()) for optimizer in optimizers for values in optimizer.state.values()]
    return {
        "losses": losses,
        "tensors": [each.tolist() for part in (*state, *slots) for each in part if isinstance(each, torch.Tensor)],
        "streams": streams(),
    }


# ---------------------------------------------------------------- what is asked of the runtime


def test_everything_that_is_not_rehearsed_and_not_exact_is_off() -> None:
    nothing = rehearsal.environment(())
    assert nothing["AUTOACCEL_COMPILE_MODE"] == "off"
    assert nothing["AUTOACCEL_NUM_WORKERS"] == "0"
    assert nothing["AUTOACCEL_GRAD_SCALER"] == ""
    assert nothing["AUTOACCEL_DISABLE"] == "prefetch"
    for names in ((), REHEARSALS):
        assert rehearsal.environment(names)["AUTOACCEL_AMP_DTYPE"] == "float32"
        assert rehearsal.environment(names).keys() == nothing.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SCALER, {"AUTOACCEL_GRAD_SCALER": "on"}),
        (COMPILE, {"AUTOACCEL_COMPILE_MODE": "eager"}),
        (WORKERS, {"AUTOACCEL_NUM_WORKERS": "2"}),
        (PREFETCH, {"AUTOACCEL_DISABLE": ""}),
    ],
)
def test_each_is_asked_for_alone(name: str, value: dict[str, str]) -> None:
    assert rehearsal.environment((name,)) == {**rehearsal.environment(()), **value}


def test_beginning_to_rehearse_touches_no_generator(rehearse: Callable[..., Observation]) -> None:
    before = streams()
    rehearse(*REHEARSALS)
    assert streams() == before
    assert os.environ["AUTOACCEL_GRAD_SCALER"] == "on"


# ---------------------------------------------------------------- gradient scaling


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "adam, amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "adam, fused": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "sgd, fused": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, centered=True),
    "rprop": lambda p: torch.optim.Rprop(p),
    "foreach": lambda p: torch.optim.NAdam(p, foreach=True),
}


@pytest.mark.parametrize("optimizer_of", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
@pytest.mark.parametrize("clip", ["norm", "value", "none"])
def test_scaled_training_is_the_same(
    rehearse: Callable[..., Observation], optimizer_of: Callable[[Any], torch.optim.Optimizer], clip: str
) -> None:
    """Accumulation, clipping, a schedule, a penalty from a second derivative, losses of all sizes."""

    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        model = small()
        optimizer = optimizer_of(model.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        scaler = accel.grad_scaler(optimizer)
        losses = []
        for number in range(12):
            x = torch.randn(5, 6, requires_grad=True)
            with accel.autocast("cpu"):
                y = model(x)
            slope = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
            loss = (y - 3).square().mean() * 10.0 ** -(number % 5 * 3) + slope.square().mean()
            if number == 5:
                loss = loss + 1e37  # scaled, it is infinite; its gradient is not
            scaler.scale(loss).backward(retain_graph=True)
            if number % 3 == 0:
                scaler.scale(loss).backward(gradient=torch.tensor(0.3))
            losses.append(loss.item())
            if number % 2:
                scaler.unscale_(optimizer)
                if clip == "norm":
                    losses.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
                elif clip == "value":
                    nn.utils.clip_grad_value_(model.parameters(), 0.05)
                scaler.step(optimizer)
                scaler.update()
                schedule.step()
                optimizer.zero_grad()
        return losses, [model], [optimizer]

    plain = trained(loop)
    observation = rehearse(SCALER)
    assert trained(loop) == plain
    assert marks_of(observation) == {}


def test_the_scale_changes_at_every_update_after_a_step(rehearse: Callable[..., Observation]) -> None:
    rehearse(SCALER)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = accel.grad_scaler(optimizer)
    scales = []
    for _ in range(6):
        scaler.scale(model(torch.randn(4, 6)).sum()).backward()
        scales.append(scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        scaler.update()  # nothing stepped: as in the runtime, this does nothing
    assert scales == [*rehearsal.SCALES, *rehearsal.SCALES[:2]]


def test_an_overflow_still_lowers_the_scale(rehearse: Callable[..., Observation]) -> None:
    rehearse(SCALER)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = accel.grad_scaler(optimizer)
    before = model.weight.clone()
    scaler.scale(model(torch.full((4, 6), float("inf"))).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == rehearsal.SCALES[0] / 2
    assert torch.equal(model.weight, before)


Faults = dict[str, Callable[..., None]]


def faulty_loop(
    fault: str,
) -> Callable[[], tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]]:
    """Two micro-batches a step, clipped: right, or with one of the mistakes that are easily made."""

    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scaler = accel.grad_scaler(optimizer)
        losses = []
        for number in range(8):
            loss = model(torch.randn(5, 6)).square().mean()
            losses.append(loss.item())
            if fault == "a backward is not scaled" and number % 2:
                loss.backward()
            else:
                scaler.scale(loss).backward()
            if fault == "unscaled at every micro-batch" and number % 2 == 0:
                scaler.unscale_(optimizer)
            if number % 2 == 0:
                continue
            if fault != "not unscaled before clipping":
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if fault == "stepped by itself":
                optimizer.step()
            else:
                scaler.step(optimizer)
            if fault == "updated twice, once too late":
                scaler.scale(model(torch.ones(2, 6)).sum() * 0).backward()
            scaler.update()
            optimizer.zero_grad()
        return losses, [model], [optimizer]

    return loop


@pytest.mark.parametrize(
    ("fault", "marked"),
    [
        ("a backward is not scaled", {}),
        ("unscaled at every micro-batch", {}),
        ("not unscaled before clipping", {invariants.CLIPPED_SCALED: 4}),
    ],
)
def test_wrong_scaling_shows(rehearse: Callable[..., Observation], fault: str, marked: dict[str, int]) -> None:
    plain = trained(faulty_loop("none"))
    assert trained(faulty_loop(fault)) == plain, "without scaling the mistake does nothing"
    observation = rehearse(SCALER)
    assert trained(faulty_loop("none")) == plain
    assert marks_of(observation) == {}
    assert trained(faulty_loop(fault)) != plain
    assert marks_of(observation) == marked


def test_an_update_between_micro_batches_shows(rehearse: Callable[..., Observation]) -> None:
    """Two optimizers share a scaler, one of them steps at every second batch only."""

    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        models: list[nn.Module] = [nn.Linear(3, 1), nn.Linear(3, 1)]
        often, seldom = (torch.optim.SGD(model.parameters(), lr=0.1) for model in models)
        scaler = accel.grad_scaler(often, seldom)
        for number in range(4):
            x = torch.randn(2, 3)
            scaler.scale((models[0](x) + models[1](x)).square().mean()).backward()
            scaler.step(often)
            often.zero_grad()
            if number % 2:
                scaler.step(seldom)
                seldom.zero_grad()
            scaler.update()
        return [], models, [often, seldom]

    plain = trained(loop)
    rehearse(SCALER)
    assert trained(loop) != plain


# ---------------------------------------------------------------- autocast regions


def test_regions_are_counted(rehearse: Callable[..., Observation]) -> None:
    rehearse(SCALER)
    assert invariants.CountedRegion.open == 0
    with accel.autocast("cpu"), accel.autocast("cpu"):
        assert invariants.CountedRegion.open == 2
    with pytest.raises(KeyError), accel.autocast("cpu"):
        raise KeyError
    assert invariants.CountedRegion.open == 0


def test_what_trains_inside_a_region_is_marked(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(SCALER)
    for depth in (0, 1):
        with accel.autocast("cpu") if depth else contextlib.nullcontext():
            observation.events.before_backward[-1]([])
            observation.events.before_step[-1](torch.optim.SGD([torch.ones(1)], 0.1))
        assert len(marks_of(observation)) == 2 * depth
    assert set(marks_of(observation)) == {training.BACKWARD_IN_AUTOCAST, training.STEP_IN_AUTOCAST}


def test_scalers_that_never_scale_are_marked(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(SCALER)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = accel.grad_scaler(optimizer)
    scaler.step(optimizer)  # nothing to step with
    assert marks_of(observation) == {}
    model(torch.randn(4, 6)).sum().backward()
    scaler.step(optimizer)
    scaler.update()
    assert marks_of(observation) == {invariants.NEVER_SCALED: 1}


def test_steps_past_the_scaler_are_marked(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(SCALER)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = accel.grad_scaler(optimizer)

    def before(stepping: torch.optim.Optimizer, *_: object) -> None:
        for told in observation.events.before_step:
            told(stepping)

    optimizer.register_step_pre_hook(before)

    def backward(scaled: bool) -> None:
        loss = model(torch.randn(4, 6)).sum()
        (scaler.scale(loss) if scaled else loss).backward()

    for _ in range(2):
        backward(True)
        scaler.step(optimizer)
        scaler.update()
    backward(False)
    optimizer.step()  # another loop of the script
    assert marks_of(observation) == {}
    backward(True)
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()
    assert marks_of(observation) == {invariants.STEPPED_ALONE: 1}


def test_cross_entropy_of_probabilities_inside_a_region_is_marked(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(SCALER)
    probability, label, loss = torch.rand(3), torch.ones(3), nn.BCELoss()
    loss(probability, label)
    with accel.autocast("cpu"), torch.autocast("cpu", enabled=False):
        loss(probability, label)
    assert marks_of(observation) == {}
    with accel.autocast("cpu"):
        loss(probability, label)
    assert marks_of(observation) == {invariants.CROSS_ENTROPY_INSIDE: 1}


# ---------------------------------------------------------------- batches on their way


class Samples(Dataset[tuple[torch.Tensor, torch.Tensor, str]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, str]:
        return torch.full((3,), float(index)), torch.tensor(index), str(index)


CPU = torch.device("cpu")


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loop_gets_its_batches(rehearse: Callable[..., Observation], workers: int) -> None:
    observation = rehearse(PREFETCH)
    loader = DataLoader(Samples(), batch_size=2, num_workers=workers)
    got = [
        (x.to(CPU), y.to(device=CPU, non_blocking=True).tolist(), names)
        for x, y, names in accel.prefetch(loader, CPU, move=(0, 1))
    ]
    assert [x[:, 0].tolist() for x, _, _ in got] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [y for _, y, _ in got] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert got[4][2] == ("8", "9")
    assert marks_of(observation) == {}


def test_no_tensor_is_the_loaders_own(rehearse: Callable[..., Observation]) -> None:
    rehearse(PREFETCH)
    given = [(torch.ones(3),), (torch.ones(3),)]
    epoch = host_prefetch.WatchedEpoch(iter(given), host_prefetch.HostCopyStream(), "all", 1)
    for (mine,), (theirs,) in zip(given, epoch, strict=True):
        assert theirs.data_ptr() != mine.data_ptr()
        assert torch.equal(theirs.to(CPU), mine)
        assert theirs.to(CPU) is theirs.to(CPU)


ASKED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "to": lambda x: x.to(CPU),
    "to, by name": lambda x: x.to("cpu", non_blocking=True),
    "to, by number type": lambda x: x.to(CPU, torch.float64).float(),
    "to, as another": lambda x: x.to(torch.zeros(1)),
    "a view": lambda x: x.view(-1, 2, 3).to(CPU).view(-1, 3),
    "a column": lambda x: x[:, 1:].to(CPU).expand(-1, 3) if x.size(1) == 2 else x.to(CPU),
    "transposed": lambda x: x.t().to(CPU).t(),
    "a variable": lambda x: torch.autograd.Variable(x).to(CPU),
    "converted before": lambda x: x.double().to(CPU).float(),
    "converted twice before": lambda x: x.long().float().to(CPU),
    "by type": lambda x: x.type("torch.FloatTensor"),
    "converted by to": lambda x: x.to(torch.float64).to(CPU).to(torch.float32),
    "copied before": lambda x: x.t().contiguous().reshape(3, -1).flatten(1).to(CPU).t(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED.keys())
def test_however_the_loop_asks(
    rehearse: Callable[..., Observation], ask: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    observation = rehearse(PREFETCH)
    loader = DataLoader(Samples(), batch_size=2)
    got = [ask(x).tolist() for x, *_ in accel.prefetch(loader, CPU, move=(0,))]
    assert got == [[[float(at)] * 3, [float(at + 1)] * 3] for at in range(0, 10, 2)]
    assert marks_of(observation) == {}


def test_what_the_loop_does_with_a_tensor_on_the_host_shows(rehearse: Callable[..., Observation]) -> None:
    """It moves the labels, and compares them on the host as well: on a GPU that fails."""
    rehearse(PREFETCH)
    seen = []
    for x, y, _ in accel.prefetch(DataLoader(Samples(), batch_size=2), CPU, move=(0, 1)):
        x.to(CPU), y.to(CPU)
        assert len(y) == y.size(0) == 2
        seen.append((x.isnan().all().item(), y.tolist()))
    assert [nans for nans, _ in seen] == [False, True, True, True, True]
    assert seen[1][1] == [-3, -4]


def test_a_part_that_the_loop_never_asks_for_is_marked(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(PREFETCH)
    labels = []
    for x, y, _ in accel.prefetch(DataLoader(Samples(), batch_size=2), CPU, move=(0, 1)):
        x.to(CPU)
        labels += y.tolist()
    assert labels == list(range(10))
    assert marks_of(observation) == {host_prefetch.KEPT_ON_HOST: 1}


def test_a_loop_that_moves_nothing_on_this_machine_is_left_alone(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(PREFETCH)
    labels = [y.tolist() for _, y, _ in accel.prefetch(DataLoader(Samples(), batch_size=5), CPU, move=(0, 1))]
    assert labels == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert marks_of(observation) == {}


def test_what_is_written_to_a_view_of_the_data_reaches_it(rehearse: Callable[..., Observation]) -> None:
    """On a CPU the script's own `.to` gives the view itself, rewritten or not."""
    observation = rehearse(PREFETCH)
    rows = torch.ones(4, 2)
    views: Any = list(rows)
    for x in accel.prefetch(DataLoader(views, batch_size=None), CPU):
        moved = x.to(CPU)
        moved *= 0.5
    assert rows.tolist() == [[0.5, 0.5]] * 4
    assert marks_of(observation) == {}


def test_a_loop_that_stops_before_it_asks_is_not_marked(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(PREFETCH)
    for x, _, _ in accel.prefetch(DataLoader(Samples(), batch_size=2), CPU, move=(0, 1)):
        x.to(CPU)
        break
    assert marks_of(observation) == {}


def test_old_batches_are_let_go(rehearse: Callable[..., Observation]) -> None:
    rehearse(PREFETCH)
    for _ in range(8):
        for x, _, _ in accel.prefetch(DataLoader(Samples(), batch_size=2), CPU, move=(0,)):
            x.double().to(CPU)
    assert len(host_prefetch._batches) == host_prefetch._REMEMBERED
    assert len(host_prefetch._stands) <= 2 * host_prefetch._REMEMBERED


def test_models_whose_parameters_have_no_shape_yet(rehearse: Callable[..., Observation]) -> None:
    rehearse(*REHEARSALS)
    model = nn.Sequential(nn.LazyLinear(3)).to("cpu").float()
    assert model(torch.ones(2, 5)).shape == (2, 3)


def test_looking_ahead_takes_no_random_number(rehearse: Callable[..., Observation]) -> None:
    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        loader = DataLoader(Samples(), batch_size=2, shuffle=True, num_workers=1)
        losses = []
        for _ in range(2):
            for number, (x, _, _) in enumerate(accel.prefetch(loader, CPU, move=(0,))):
                losses += [float(x.to(CPU).sum()), float(torch.rand(1)), random.random()]
                if number == 2:
                    break
        return losses, [], []

    plain = trained(loop)
    observation = rehearse(PREFETCH)
    assert trained(loop) == plain
    assert marks_of(observation) == {}


def test_other_loaders_are_handed_back(rehearse: Callable[..., Observation]) -> None:
    rehearse(PREFETCH)
    batches = [torch.ones(2)]
    assert accel.prefetch(batches, CPU) is batches


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool]
)
def test_nonsense_is_wrong_everywhere(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1], [1, 0]]).to(dtype).t()
    wrong = host_prefetch.nonsense(tensor)
    assert wrong.dtype is dtype
    assert wrong.stride() == tensor.stride()
    assert not (wrong == tensor).any()


# ---------------------------------------------------------------- workers


class Changing(Samples):
    scale = 1.0

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, str]:
        x, y, name = super().__getitem__(index)
        return x * self.scale, y, name


@pytest.mark.parametrize("prefetched", [False, True])
@pytest.mark.parametrize("changing", [False, True])
def test_kept_workers(rehearse: Callable[..., Observation], prefetched: bool, changing: bool) -> None:
    """The order is the same in every pass, and what else is different shows: kept workers do not see changes."""

    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        samples = Changing()
        loader = DataLoader(
            samples, 5, shuffle=True, num_workers=accel.num_workers(), persistent_workers=accel.num_workers() > 0
        )
        losses: list[float] = []
        for _ in range(3):
            for x, _, _ in accel.prefetch(loader, CPU, move=(0,)) if prefetched else loader:
                losses += x.to(CPU)[:, 0].tolist()
                torch.rand(1)
            if changing:
                samples.scale += 1
        return losses, [], []

    plain = trained(loop)
    rehearse(WORKERS, PREFETCH)
    again = trained(loop)
    assert again["streams"] == plain["streams"]
    assert (again == plain) is not changing


class Shaken(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return index + torch.rand(())


def _alike(worker: int) -> None:
    torch.manual_seed(0)


def _apart(worker: int) -> None:
    np.random.seed(worker)


@pytest.mark.parametrize(
    ("seed", "marked"),
    [(None, {}), (_apart, {}), (_alike, {invariants.WORKERS_ALIKE: 1})],
    ids=["none", "apart", "alike"],
)
def test_workers_that_draw_the_same_are_marked(
    rehearse: Callable[..., Observation], seed: Callable[[int], None] | None, marked: dict[str, int]
) -> None:
    observation = rehearse(WORKERS)
    loader = DataLoader(Shaken(), batch_size=2, num_workers=accel.num_workers(), worker_init_fn=seed)
    for _ in range(2):
        assert len(list(loader)) == 4
    assert loader.worker_init_fn is seed
    assert marks_of(observation) == marked


class ShakenByItself(Dataset[torch.Tensor]):
    """It keeps two generators, and draws from one of them."""

    def __init__(self) -> None:
        self.unused, self.rng = random.Random(0), np.random.default_rng(0)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index + self.rng.random())


@pytest.mark.parametrize(
    ("seed", "marked"), [(None, {invariants.WORKERS_ALIKE: 1}), (accel.seed_worker, {})], ids=["none", "seeded"]
)
def test_workers_whose_dataset_draws_the_same_are_marked(
    rehearse: Callable[..., Observation], seed: Callable[[int], None] | None, marked: dict[str, int]
) -> None:
    observation = rehearse(WORKERS)
    loader = DataLoader(ShakenByItself(), batch_size=2, num_workers=accel.num_workers(), worker_init_fn=seed)
    for _ in range(2):
        assert len(list(loader)) == 4
    assert marks_of(observation) == marked


def test_how_the_script_seeds_its_own_workers_is_its_own_affair(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(WORKERS)
    assert len(list(DataLoader(Shaken(), batch_size=2, num_workers=2, worker_init_fn=_alike))) == 4
    assert marks_of(observation) == {}


# ---------------------------------------------------------------- graphs


class Counting(nn.Module):
    """A model that moves its input, draws, counts, and takes notes."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
        self.seen: list[int] = []
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x.to(CPU))
        with torch.no_grad():
            self.total += y.mean()
        self.seen.append(len(x))
        return y + torch.rand_like(y)


def test_everything_at_once_is_the_same(rehearse: Callable[..., Observation]) -> None:
    models: list[Counting] = []

    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        x = torch.randn(8, 6)
        loader = DataLoader(
            TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True, num_workers=accel.num_workers()
        )
        model = accel.compile(Counting())
        models.append(model)
        optimizer = torch.optim.Adam(model.parameters())
        scaler = accel.grad_scaler(optimizer)
        losses = []
        for _ in range(2):
            for inputs, labels in accel.prefetch(loader, CPU):
                inputs, labels = inputs.to(CPU), labels.to(CPU)
                optimizer.zero_grad()
                with accel.autocast(CPU):
                    loss = nn.functional.mse_loss(model(inputs), labels)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
        return losses, [model], [optimizer]

    plain = trained(loop)
    observation = rehearse(*REHEARSALS)
    assert trained(loop) == plain
    assert marks_of(observation) == {}
    assert models[1].seen == models[0].seen
    torch.compiler.reset()


class Again(nn.Module):
    """A model that computes activations again when it goes backward, with the same dropout mask."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.utils.checkpoint.checkpoint(self.noise, x, use_reentrant=False)
        return y


def test_activations_that_are_computed_again(rehearse: Callable[..., Observation]) -> None:
    def loop() -> tuple[list[float], list[nn.Module], list[torch.optim.Optimizer]]:
        model = accel.compile(Again())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
        return [], [model], [optimizer]

    plain = trained(loop)
    rehearse(COMPILE)
    assert trained(loop) == plain
    torch.compiler.reset()


# ---------------------------------------------------------------- datasets that draw random numbers


class Drawing(Dataset[float]):
    def __init__(self, draw: Callable[[], Any]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.draw())


class Endless(IterableDataset[float]):
    def __iter__(self) -> Iterator[float]:
        while True:
            yield random.random()


@pytest.mark.parametrize(
    ("draw", "streams_drawn"),
    [
        (lambda: 1, ()),
        (lambda: torch.rand(1), ("torch",)),
        (random.random, ("python",)),
        (np.random.rand, ("numpy",)),
        (lambda: random.random() + np.random.rand(), ("numpy", "python")),
        (lambda: np.random.default_rng(0).random(), ()),
        (lambda: torch.rand(1, generator=torch.Generator()), ()),
    ],
)
def test_what_a_dataset_draws_from(draw: Callable[[], Any], streams_drawn: tuple[str, ...]) -> None:
    loaders.watch_fetches()
    batches: Any = iter(DataLoader(Drawing(draw), batch_size=2, shuffle=True))
    before = streams()
    assert loaders.drawn(batches) == ()
    assert streams() == before
    for _ in batches:
        torch.rand(1), random.random(), np.random.rand()  # what the loop draws is not the dataset's
    assert loaders.drawn(batches) == streams_drawn


def test_what_is_drawn_for_a_batch_that_is_looked_up_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = WholeBatchFetcher.fetch

    def drawing_too(self: WholeBatchFetcher, indices: Any) -> Any:
        torch.rand(1)  # as random crops do
        return looked_up(self, indices)

    monkeypatch.setattr(WholeBatchFetcher, "fetch", drawing_too)
    loaders.watch_fetches()
    batches: Any = eligible_loaders.begin(loader := DataLoader(TensorDataset(torch.arange(4)), batch_size=2), CPU)
    assert (len(list(batches)), loaders.drawn(batches)) == (len(loader), ("torch",))


def test_what_a_stream_draws_from() -> None:
    loaders.watch_fetches()
    batches: Any = iter(DataLoader(Endless(), batch_size=2))
    next(batches)
    assert loaders.drawn(batches) == ("python",)


def test_batches_that_are_looked_up_whole_are_moved_too(rehearse: Callable[..., Observation]) -> None:
    observation = rehearse(PREFETCH)
    loader = DataLoader(TensorDataset(torch.arange(10.0), torch.arange(10)), batch_size=2)
    batches = accel.prefetch(loader, CPU, move=(0, 1))
    assert eligible_loaders.fits(loader, CPU, (0, 1))
    labels = []
    for x, y in batches:
        x.to(CPU)
        labels += y.tolist()
    assert labels == list(range(10))
    assert marks_of(observation) == {host_prefetch.KEPT_ON_HOST: 1}
    seen = [(x.isnan().all().item(), x.to(CPU).tolist()) for x, y in batches if y.to(CPU) is not None]
    assert seen == [(at > 0, [2.0 * at, 2.0 * at + 1]) for at in range(5)]
