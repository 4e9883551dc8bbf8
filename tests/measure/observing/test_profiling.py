"""Where the time of a step goes: from made-up measurements, and of scripts whose answer is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autoaccel.measure import launching
from autoaccel.measure.observing import profiled_regions, profiling, timelines
from autoaccel.measure.observing.profiled_regions import OpenRegions
from autoaccel.measure.observing.profiling import Round
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.observing.timelines import Shares, Trace
from tests.measure.forking import Forking

MAIN, BACKWARD_THREAD, STREAM = 1, 2, 7


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
    found = timelines.read(json.loads(json.dumps({"traceEvents": [*noise, *events, *steps]})))
    assert found is not None
    return found


# What the profiler saw on the host.


def test_a_trace_without_a_whole_step_says_nothing() -> None:
    assert timelines.read({"traceEvents": [region("step", 5, 5)]}) is None


def on_host(found: Trace, slower: float = 1.0, evaluated: Sequence[tuple[float, float]] = ()) -> Shares:
    return timelines.undistorted(*timelines.shares(found, evaluated), slower)


def test_large_operators_are_compute_and_what_is_around_them_is_launching() -> None:
    found = trace(region("forward", 0, 80), operator("aten::linear", 10, 70), operator("aten::addmm", 12, 68))
    assert on_host(found) == {"launch": 0.32, "compute": 0.48, "other": 0.2}


def test_small_operators_are_launches() -> None:
    found = trace(region("backward", 0, 100), *(operator("aten::mm", at, at + 4) for at in range(0, 100, 10)))
    assert on_host(found) == {"launch": 1.0}


def test_memory_that_a_backward_gives_back_is_compute() -> None:
    node = operator("autograd::engine::evaluate_function: MmBackward0", 0, 100)
    assert on_host(trace(region("backward", 0, 100), node)) == {"launch": 0.08, "compute": 0.92}


def test_regions_are_shares_and_the_rest_is_the_script() -> None:
    found = trace(region("loader", 0, 50), region("optimizer", 50, 70), operator("aten::add_", 52, 68))
    assert on_host(found) == {"loader": 0.5, "optimizer": 0.2, "other": 0.3}


def test_all_of_a_pass_that_does_not_train_is_evaluation() -> None:
    found = trace(region("loader", 10, 20), region("forward", 20, 50), operator("aten::mm", 25, 45))
    assert on_host(found, evaluated=[(10, 60)]) == {"evaluation": 0.5, "other": 0.5}


def test_other_threads_do_not_count() -> None:
    assert on_host(trace(event("cpu_op", "aten::pin_memory", 0, 90, thread=9))) == {"other": 1.0}


def test_the_profiler_costs_the_same_for_every_operator() -> None:
    operators = [operator("aten::stack", 0, 20), operator("aten::mm", 50, 54), operator("aten::mm", 60, 64)]
    found = trace(region("loader", 0, 40), region("forward", 40, 100), *operators)
    # 30 of 100 too much, 10 for each operator: of the loader 30 are left, of launching 40
    assert on_host(found, 100 / 70) == pytest.approx({"loader": 3 / 7, "launch": 4 / 7})


def test_the_profiler_does_not_cost_more_than_it_can() -> None:
    found = trace(region("forward", 0, 30), operator("aten::mm", 10, 14))
    assert on_host(found, 50.0) == pytest.approx({"launch": 1 / 8, "other": 7 / 8})


# What it saw on a device.


def on_device(found: Trace, evaluated: Sequence[tuple[float, float]] = ()) -> Shares:
    return {name: round(length, 3) for name, length in timelines.shares(found, evaluated)[0].items() if length}


def test_a_busy_device_computes_whatever_the_host_does() -> None:
    found = trace(
        region("forward", 0, 10),
        launch(2, 5),
        region("loader", 10, 60),
        operator("aten::item", 60, 100),
        call("cudaStreamSynchronize", 60, 100),
        kernel(0, 100, 5),
    )
    assert on_device(found) == {"compute": 100}


def test_an_idle_device_waits_for_what_the_host_does() -> None:
    found = trace(
        region("loader", 0, 40),
        operator("aten::stack", 10, 30),
        region("forward", 40, 70),
        operator("aten::mm", 45, 50),
        launch(46, 5),
        kernel(50, 60, 5),
    )
    assert on_device(found) == {"loader": 40, "launch": 20, "compute": 10, "other": 30}


def test_backwards_run_on_another_thread() -> None:
    found = trace(region("backward", 0, 100), launch(10, 5, BACKWARD_THREAD), kernel(20, 60, 5))
    assert on_device(found) == {"launch": 60, "compute": 40}


def test_kernels_of_the_optimizer_are_its_own() -> None:
    found = trace(region("optimizer", 0, 30), launch(5, 5), launch(15, 6), kernel(10, 90, 5), kernel(90, 100, 6))
    assert on_device(found) == {"optimizer": 100}


def test_a_copy_from_ordinary_memory_holds_up_the_host() -> None:
    found = trace(
        operator("aten::to", 10, 80),
        operator("aten::copy_", 15, 78),
        call("cudaMemcpyAsync", 20, 50, 3),
        call("cudaStreamSynchronize", 50, 75),
        copy("HtoD (Pageable -> Device)", 30, 60, 3),
    )
    assert on_device(found) == {"transfer": 70, "other": 30}


def test_a_copy_beside_a_kernel_costs_nothing() -> None:
    found = trace(launch(0, 5), kernel(0, 100, 5), copy("HtoD (Pinned -> Device)", 20, 60, 3))
    assert on_device(found) == {"compute": 100}


def test_copies_on_the_device_are_work() -> None:
    assert on_device(trace(copy("DtoD (Device -> Device)", 0, 30, 3))) == {"compute": 30, "other": 70}


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
    assert on_device(found) == {"launch": 11, "compute": 49, "sync": 40}


def test_a_wait_does_not_excuse_a_slow_loader() -> None:
    found = trace(launch(0, 5), kernel(0, 10, 5), call("cudaDeviceSynchronize", 5, 12), region("loader", 12, 100))
    assert on_device(found) == {"loader": 88, "compute": 10, "sync": 2}


def test_evaluations_are_left_out_of_everything() -> None:
    found = trace(region("forward", 0, 100), launch(0, 5), kernel(0, 100, 5))
    assert on_device(found, [(30, 80)]) == {"compute": 50, "evaluation": 50}


def test_the_profilers_own_time_is_taken_from_the_host() -> None:
    found = trace(region("forward", 0, 100), launch(50, 5), kernel(60, 100, 5))
    assert timelines.undistorted(*timelines.shares(found), 100 / 80) == {
        "launch": pytest.approx(0.5),
        "compute": pytest.approx(0.5),
    }


def test_rounds_are_put_together() -> None:
    one = timelines.shares(trace(region("loader", 0, 40), region("forward", 40, 100), operator("aten::mm", 40, 100)))
    other = timelines.shares(trace(region("loader", 0, 80), region("optimizer", 80, 100)))
    shares = profiling.put_together([Round(10, 0.001, 1, one), Round(10, 0.001, 1, other)])
    assert shares == pytest.approx({"loader": 0.6, "launch": 0.04, "compute": 0.26, "optimizer": 0.1})
    assert profiling.put_together([]) == {}


# Regions.


@pytest.fixture
def traced() -> Iterator[tuple[OpenRegions, list[str]]]:
    """What is open while the profiler is at work, and where the ends of regions are written down."""
    found = OpenRegions()
    found.traced = True
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield found, found.open


def test_inside_a_loader_everything_is_loading(traced: tuple[OpenRegions, list[str]]) -> None:
    found, names = traced
    with found.region("optimizer"), found.region("forward"), found.region("forward"):
        assert names == ["optimizer", "forward"]
    with found.region("loader"), found.region("forward"):
        assert names == ["loader"]


def test_an_exception_leaves_all_regions(traced: tuple[OpenRegions, list[str]]) -> None:
    found, names = traced
    found.enter("optimizer")
    found.enter("forward")
    found.leave("optimizer")
    assert names == []
    found.leave("optimizer")
    assert names == []


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> OpenRegions:
    found = OpenRegions()
    for owner, name in (
        (DataLoader, "__iter__"),
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
        (torch.nn.Module, "__call__"),
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    profiled_regions.hook_loaders(found)
    profiled_regions.hook_models(found)
    return found


def _loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)


def test_a_pass_without_backward_is_an_evaluation(hooked: OpenRegions) -> None:
    model = torch.nn.Linear(4, 1)
    for (batch,) in _loader():
        model(batch)
    assert len(hooked.evaluated) == 1


def test_a_pass_with_a_backward_is_training_also_around_an_evaluation(hooked: OpenRegions) -> None:
    model = torch.nn.Linear(4, 1)
    for (batch,) in _loader():
        model(batch).sum().backward()
        for _ in _loader():
            pass
    assert len(hooked.evaluated) == 4


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
    shares = record.profile
    assert shares, record
    assert max(shares, key=shares.__getitem__) == binds, shares
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert record == RunRecord.from_json(record.to_json())


@pytest.mark.slow
def test_backwards_are_steps_where_there_is_no_optimizer(tmp_path: Path, forking: Forking) -> None:
    text = SCRIPTS["compute"].replace("optimizer.step()", "").replace("optimizer.zero_grad()", "")
    text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "")
    record = _run(tmp_path, text, forking.run, 20)
    assert record.profile["compute"] > 0.5, record


@pytest.mark.slow
def test_a_run_that_is_soon_over_has_no_profile(tmp_path: Path, forking: Forking) -> None:
    record = _run(tmp_path, SCRIPTS["launch"].replace("100_000", "4"), forking.run, None)
    assert (record.ending, record.steps, record.profile) == ("finished", 4, {})


@pytest.mark.gpu
@pytest.mark.parametrize(("size", "binds"), [(4, "launch"), (4096, "compute")])
def test_what_binds_on_a_gpu(size: int, binds: str, tmp_path: Path) -> None:
    text = SCRIPTS["compute"].replace("512", str(size))
    text = text.replace("model = ", 'torch.set_default_device("cuda")\nmodel = ')

    def run(request: Request) -> RunRecord:
        return launching.observe(request, python=sys.executable, environment={}, folder=tmp_path)

    profile = _run(tmp_path, text, run, None).profile
    assert max(profile, key=profile.__getitem__) == binds, profile
