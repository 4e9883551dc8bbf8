"""Where the time of a step goes: from made-up measurements, and of scripts whose answer is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autoaccel.measure import launching
from autoaccel.measure.observing import attribution, profiling, regions, timelines, traces
from autoaccel.measure.observing.attribution import Calibration, Costs, Shares, Step, Timing
from autoaccel.measure.observing.profiling import Block
from autoaccel.measure.observing.record import Profile, RunRecord
from autoaccel.measure.observing.regions import Regions
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.traces import Trace
from tests.measure.forking import Forking

MAIN, BACKWARD_THREAD, STREAM = 1, 2, 7
QUICK = Calibration(plain=1.0, traced=2.0, forward=0.5, backward=0.5)


def event(category: str, name: str, start: float, end: float, *, thread: int = MAIN, correlation: int = 0) -> Any:
    arguments = {"correlation": correlation} if correlation else {}
    length = end - start
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "tid": thread, "args": arguments}


def region(name: str, start: float, end: float) -> Any:
    return event("user_annotation", f"autoaccel::{name}", start, end)


def operator(name: str, start: float, end: float) -> Any:
    return event("cpu_op", name, start, end)


def call(name: str, start: float, end: float, correlation: int = 0, thread: int = MAIN) -> Any:
    return event("cuda_runtime", name, start, end, correlation=correlation, thread=thread)


def launch(start: float, correlation: int, thread: int = MAIN) -> Any:
    return call("cudaLaunchKernel", start, start + 1, correlation, thread)


def kernel(start: float, end: float, correlation: int) -> Any:
    return event("kernel", "void gemm", start, end, thread=STREAM, correlation=correlation)


def copy(name: str, start: float, end: float, correlation: int) -> Any:
    return event("gpu_memcpy", f"Memcpy {name}", start, end, thread=STREAM, correlation=correlation)


def trace(*events: Any, marks: tuple[float, ...] = (0, 100)) -> Trace:
    """A trace as torch writes it; a step's mark takes no time."""
    steps = [region("step", time, time) for time in marks]
    noise = [{"ph": "M", "name": "process_name", "args": {}}, event("user_annotation", "Optimizer.step#SGD", 0, 9)]
    found = traces.read(json.loads(json.dumps({"traceEvents": [*noise, *events, *steps]})))
    assert found is not None
    return found


def rounded(shares: Shares) -> Shares:
    return {name: round(share, 3) for name, share in shares.items() if share}


# What the profiler saw on the host.


def test_a_trace_without_a_whole_step_says_nothing() -> None:
    assert traces.read({"traceEvents": [region("step", 5, 5)]}) is None


def test_costs_of_regions_are_exclusive_and_by_step() -> None:
    found = trace(
        region("forward", 10, 60),
        operator("aten::linear", 20, 50),
        operator("aten::addmm", 25, 45),
        region("backward", 110, 150),
        operator("autograd::engine::evaluate_function: MmBackward0", 110, 145),
        operator("MmBackward0", 111, 140),
        operator("aten::mm", 120, 130),
        operator("aten::add", 170, 171),
        marks=(0, 100, 200),
    )
    first, second = attribution.host_costs(found)
    assert first == {"body": Costs(50), "forward": Costs(50, 2, 30)}
    assert second == {"body": Costs(60, 1, 1), "backward": Costs(40, 1, 10)}


def test_a_step_of_two_optimizers_is_both() -> None:
    found = trace(operator("aten::add", 10, 20), operator("aten::add", 110, 130), marks=(0, 100, 200))
    assert attribution.host_costs(found, period=2) == [{"body": Costs(200, 2, 30)}]


def test_other_threads_do_not_count() -> None:
    pinning = event("cpu_op", "aten::pin_memory", 0, 90, thread=9)
    assert attribution.host_costs(trace(pinning)) == [{"body": Costs(100)}]


def test_what_delays_a_single_step_is_not_typical() -> None:
    usual = {"forward": Costs(10, 2, 4)}
    assert attribution.typical([usual, {"forward": Costs(5000, 2, 4000)}, usual]) == usual


def test_what_another_program_delays_does_not_count() -> None:
    usual = Step({"forward": 1.0, "loader": 2.0})
    delayed = Step({"forward": 100.0, "loader": 2.0}, disturbed=True)
    assert attribution.timing([usual, usual, delayed, usual]).regions == {"forward": 1.5, "loader": 2.0}


def test_what_the_script_does_now_and_then_counts() -> None:
    steps = [Step({"body": 1.0}), Step({"body": 1.0}), Step({"body": 4.0, "evaluation": 3.0}, disturbed=False)]
    assert attribution.timing(steps).regions == {"body": 2.0, "evaluation": 1.0}
    steps[2] = Step(steps[2].regions, disturbed=True)
    assert attribution.timing(steps).regions["evaluation"] == 1.0


def test_where_views_take_longer_all_operators_do() -> None:
    usual = trace(operator("aten::t", 10, 11), operator("aten::view", 20, 21), operator("aten::mm", 30, 40))
    slow = trace(operator("aten::t", 10, 12), operator("aten::view", 20, 22), operator("aten::mm", 30, 90))
    assert attribution.slowed(QUICK, usual, [usual, usual]) == QUICK
    assert attribution.slowed(QUICK, usual, [slow]) == Calibration(2.0, 4.0, 1.0, 1.0)
    assert attribution.slowed(QUICK, slow, [usual]) == QUICK
    assert attribution.slowed(QUICK, usual, [trace(operator("aten::mm", 30, 40))]) == QUICK


def test_large_operators_are_compute() -> None:
    timing = Timing({"forward": 0.5, "backward": 0.5})
    costs = {"forward": Costs(1000, 10, 965), "backward": Costs(1000, 10, 965)}
    # 960 in kernels; the 40 around them are 20 without the profiler
    assert rounded(attribution.host_shares(timing, costs, QUICK)) == {"launch": 0.02, "compute": 0.98}


def test_small_operators_are_launches() -> None:
    timing = Timing({"forward": 1.0})
    assert attribution.host_shares(timing, {"forward": Costs(200, 100, 50)}, QUICK) == {"launch": 1.0}


def test_the_forward_may_be_python_of_the_script() -> None:
    timing = Timing({"forward": 1.0})
    shares = attribution.host_shares(timing, {"forward": Costs(1000, 1, 0.5)}, QUICK)
    assert shares["other"] > 0.99


def test_memory_that_a_backward_gives_back_is_compute() -> None:
    timing = Timing({"backward": 1.0})
    shares = attribution.host_shares(timing, {"backward": Costs(1000, 1, 500.5)}, QUICK)
    assert shares["compute"] > 0.99


def test_regions_are_shares_and_the_rest_is_the_script() -> None:
    timing = Timing({"loader": 1.0, "optimizer": 0.4, "evaluation": 0.2, "body": 0.4})
    shares = attribution.host_shares(timing, {"body": Costs(1000, 0, 0)}, QUICK)
    assert rounded(shares) == {"loader": 0.5, "optimizer": 0.2, "evaluation": 0.1, "other": 0.2}
    assert list(shares) == ["loader", "optimizer", "evaluation", "other"]


def test_batches_that_the_script_makes_itself_are_loading() -> None:
    timing = Timing({"forward": 0.2, "body": 0.8}, iterated=0.6)
    shares = attribution.host_shares(timing, {"forward": Costs(100, 1, 90.5), "body": Costs(100, 0, 0)}, QUICK)
    assert shares["loader"] == pytest.approx(0.6)
    assert shares["other"] == pytest.approx(0.2, abs=0.01)


# What it saw on a device.


def test_a_busy_device_computes_whatever_the_host_does() -> None:
    found = trace(
        region("forward", 0, 10),
        launch(2, 5),
        region("loader", 10, 60),
        operator("aten::item", 60, 100),
        call("cudaStreamSynchronize", 60, 100),
        kernel(0, 100, 5),
    )
    assert rounded(timelines.device_shares(found)) == {"compute": 100}


def test_an_idle_device_waits_for_what_the_host_does() -> None:
    found = trace(
        region("loader", 0, 40),
        operator("aten::stack", 10, 30),
        region("forward", 40, 70),
        operator("aten::mm", 45, 50),
        launch(46, 5),
        kernel(50, 60, 5),
    )
    assert rounded(timelines.device_shares(found)) == {"loader": 40, "launch": 20, "compute": 10, "other": 30}


def test_backwards_run_on_another_thread() -> None:
    found = trace(region("backward", 0, 100), launch(10, 5, BACKWARD_THREAD), kernel(20, 60, 5))
    assert rounded(timelines.device_shares(found)) == {"launch": 60, "compute": 40}


def test_kernels_of_the_optimizer_are_its_own() -> None:
    found = trace(region("optimizer", 0, 30), launch(5, 5), launch(15, 6), kernel(10, 90, 5), kernel(90, 100, 6))
    assert rounded(timelines.device_shares(found)) == {"optimizer": 100}


def test_a_copy_from_ordinary_memory_holds_up_the_host() -> None:
    found = trace(
        operator("aten::to", 10, 80),
        operator("aten::copy_", 15, 78),
        call("cudaMemcpyAsync", 20, 50, 3),
        call("cudaStreamSynchronize", 50, 75),
        copy("HtoD (Pageable -> Device)", 30, 60, 3),
    )
    assert rounded(timelines.device_shares(found)) == {"transfer": 70, "other": 30}


def test_a_copy_beside_a_kernel_costs_nothing() -> None:
    found = trace(launch(0, 5), kernel(0, 100, 5), copy("HtoD (Pinned -> Device)", 20, 60, 3))
    assert rounded(timelines.device_shares(found)) == {"compute": 100}


def test_copies_on_the_device_are_work() -> None:
    assert rounded(timelines.device_shares(trace(copy("DtoD (Device -> Device)", 0, 30, 3)))) == {
        "compute": 30,
        "other": 70,
    }


def test_waiting_costs_until_the_device_has_work_again() -> None:
    found = trace(
        launch(0, 5),
        kernel(1, 40, 5),
        operator("aten::item", 10, 55),
        call("cudaStreamSynchronize", 12, 50),
        region("forward", 60, 100),
        operator("aten::mm", 70, 80),
        launch(72, 6),
        kernel(80, 90, 6),
    )
    # 40 to 80: drained by the wait; 90 to 100: the host is slow
    shares = timelines.device_shares(found)
    assert rounded(shares) == {"launch": 11, "compute": 49, "sync": 40}


def test_a_wait_does_not_excuse_a_slow_loader() -> None:
    found = trace(launch(0, 5), kernel(0, 10, 5), call("cudaDeviceSynchronize", 5, 12), region("loader", 12, 100))
    assert rounded(timelines.device_shares(found)) == {"loader": 88, "compute": 10, "sync": 2}


def test_evaluations_are_left_out_of_everything() -> None:
    found = trace(region("forward", 0, 100), launch(0, 5), kernel(0, 100, 5))
    assert rounded(timelines.device_shares(found, [(30, 80)])) == {"compute": 50, "evaluation": 50}


def test_the_profilers_own_time_is_taken_from_the_host() -> None:
    timing = Timing({"body": 0.000_080})
    shares, distortion = timelines.undistorted({"launch": 60.0, "compute": 40.0}, 1, timing)
    assert rounded(shares) == {"launch": 0.5, "compute": 0.5}
    assert distortion == pytest.approx(0.25)


def test_blocks_on_a_device_are_put_together(tmp_path: Path) -> None:
    found = trace(region("loader", 0, 40), region("forward", 40, 100), launch(50, 5), kernel(60, 100, 5))
    timed = Block(2, 0.0, timed=[Step({"body": 0.000_1})] * 2)
    evaluating = Block(1, 0.0, evaluated=[(0.000_090, 0.000_100)])
    profile = profiling.on_device([timed, evaluating], [(found, Block(1, 0.0)), (found, evaluating)])
    assert profile.shares == pytest.approx({"loader": 0.4, "launch": 0.2, "compute": 0.35, "evaluation": 0.05})
    assert (profile.seconds, profile.steps) == (0.000_1, 2)
    assert profile.uncertainty == pytest.approx(0.05)


# Regions and samples.


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("autoaccel.measure.observing.regions.time.perf_counter", lambda: now[0])
    return now


def test_a_region_inside_another_interrupts_it(clock: list[float]) -> None:
    found = Regions()
    clock[0] = 5
    with found.region("optimizer"):
        clock[0] += 1
        with found.region("forward"):
            clock[0] += 10
        clock[0] += 2
    assert found.seconds() == {"optimizer": 3, "forward": 10}


def test_inside_a_loader_everything_is_loading(clock: list[float]) -> None:
    found = Regions()
    with found.region("loader"), found.region("forward"):
        clock[0] += 4
    assert found.seconds() == {"loader": 4}


def test_an_exception_leaves_all_regions(clock: list[float]) -> None:
    found = Regions()
    found.enter("optimizer")
    found.enter("forward")
    found.leave("optimizer")
    assert found.names == []
    found.leave("optimizer")
    assert found.names == []


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Regions:
    found = Regions()
    for owner, name in (
        (DataLoader, "__iter__"),
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
        (torch.nn.Module, "__call__"),
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    regions.hook_loaders(found)
    regions.hook_models(found)
    return found


def _loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)


def test_a_pass_without_backward_is_an_evaluation(hooked: Regions) -> None:
    model = torch.nn.Linear(4, 1)
    for (batch,) in _loader():
        model(batch)
    assert list(hooked.seconds()) == ["evaluation"]
    assert len(hooked.evaluated) == 1


def test_a_pass_with_a_backward_is_training_also_around_an_evaluation(hooked: Regions) -> None:
    model = torch.nn.Linear(4, 1)
    for (batch,) in _loader():
        model(batch).sum().backward()
        for _ in _loader():
            pass
    assert set(hooked.seconds()) == {"loader", "forward", "backward", "evaluation"}
    assert len(hooked.evaluated) == 4


def test_passes_side_by_side_count_once(hooked: Regions) -> None:
    for _ in zip(_loader(), _loader(), strict=True):
        pass
    assert hooked.seconds() == {"evaluation": pytest.approx(sum(end - start for start, end in hooked.evaluated))}


def _batches(looks: list[bool], found: Regions) -> Iterator[int]:
    looks.append(regions.makes_batches(sys._getframe(), found, str(Path(__file__).parent)))
    yield 1


class _Indexed:
    def __init__(self, looks: list[bool], found: Regions) -> None:
        self.looks, self.found = looks, found

    def __getitem__(self, index: int) -> int:
        self.looks.append(regions.makes_batches(sys._getframe(), self.found, str(Path(__file__).parent)))
        return index


def test_generators_and_datasets_make_batches() -> None:
    looks: list[bool] = []
    found = Regions()
    list(_batches(looks, found))
    _Indexed(looks, found)[0]
    assert looks == [True, True]
    assert not regions.makes_batches(sys._getframe(), found, str(Path(__file__).parent))


def test_a_generator_that_trains_makes_no_batches() -> None:
    found = Regions()

    def training() -> Iterator[bool]:
        found.backward()
        yield regions.makes_batches(sys._getframe(), found, str(Path(__file__).parent))

    assert list(training()) == [False]


# Whole scripts.

LOOP = """
for step in range(100_000):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""
SCRIPTS = {
    "loader": """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(4)

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Slow(), batch_size=2):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
""",
    "launch": """
import torch
from torch import nn
model = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(4, 4), nn.Tanh())])
x = torch.ones(1, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    + LOOP,
    "compute": """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
x = torch.ones(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    + LOOP,
    "optimizer": """
import torch
from torch import nn
model = nn.Sequential(nn.Embedding(100_000, 16, sparse=False), nn.Linear(16, 1))
x = torch.zeros(4, dtype=torch.long)
optimizer = torch.optim.Adam(model.parameters())
"""
    + LOOP,
    "evaluation": """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
training, test = (DataLoader(TensorDataset(torch.ones(n, 256)), batch_size=8) for n in (8, 400))
for epoch in range(1000):
    for batch, in training:
        model(batch).mean().backward()
        optimizer.step()
    for batch, in test:
        model(batch)
""",
}
# Rounds enough for an answer, not for a good one.
STEPS = {"loader": 40, "launch": 400, "compute": 40, "optimizer": 30, "evaluation": 40}


def _run(folder: Path, text: str, run: Any, steps: int | None) -> RunRecord:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    record: RunRecord = run(Request(str(script), root=str(folder), mode="profile", steps=steps))
    return record


@pytest.mark.slow
@pytest.mark.parametrize("binds", SCRIPTS)
def test_what_binds_a_script(binds: str, tmp_path: Path, forking: Forking) -> None:
    record = _run(tmp_path, SCRIPTS[binds], forking.run, STEPS[binds])
    assert record.profile is not None, record
    shares = record.profile.shares
    assert max(shares, key=shares.__getitem__) == binds, shares
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert record == RunRecord.from_json(record.to_json())


@pytest.mark.slow
def test_backwards_are_steps_where_there_is_no_optimizer(tmp_path: Path, forking: Forking) -> None:
    text = SCRIPTS["compute"].replace("optimizer.step()", "").replace("optimizer.zero_grad()", "")
    text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "")
    record = _run(tmp_path, text, forking.run, 20)
    assert record.profile is not None, record
    assert record.profile.shares["compute"] > 0.5


@pytest.mark.slow
def test_a_run_that_is_soon_over_has_no_profile(tmp_path: Path, forking: Forking) -> None:
    record = _run(tmp_path, SCRIPTS["launch"].replace("100_000", "4"), forking.run, None)
    assert (record.ending, record.steps, record.profile) == ("finished", 4, None)


@pytest.mark.gpu
@pytest.mark.parametrize(("size", "binds"), [(4, "launch"), (4096, "compute")])
def test_what_binds_on_a_gpu(size: int, binds: str, tmp_path: Path) -> None:
    text = SCRIPTS["compute"].replace("512", str(size))
    text = text.replace("model = ", 'torch.set_default_device("cuda")\nmodel = ')

    def run(request: Request) -> RunRecord:
        return launching.observe(request, python=sys.executable, environment={}, folder=tmp_path)

    profile = _run(tmp_path, text, run, None).profile
    assert isinstance(profile, Profile)
    assert max(profile.shares, key=profile.shares.__getitem__) == binds, profile.shares
