"""One script, any number of processes, the same training: gloo on the CPU, by one, two and three ranks.

All launches are made by one process that has torch (`launcher.py`), before the first test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import torch
from torch import nn
from torch.nn import functional

from autoaccel import runtime as accel
from autoaccel.runtime import devices, environment
from autoaccel.runtime.distributed import process_group
from tests.measure.forking import Forking

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TRAININGS: Final = (
    "everything",
    "summed_loss",
    "gan",
    "gan_in_parts",
    "gradient_penalty",
    "draws",
    "centred",
    "not_by_rows",
    "lengths",
    "sorted_lengths",
    "frozen_then_not",
    "two_shares",
    "layers",
    "loss_inside",
    "means_of_some",
    "alike_losses",
    "uses_of_outputs",
    "corners",
)
SHARDED: Final = ("summed_loss", "gan", "gan_in_parts", "draws", "layers", "loss_inside")
"""Trainings in which nothing but forward passes computes with parameters."""
WHOLE: Final = {
    "centred": 1,
    "not_by_rows": 2,
    "lengths": 1,
    "sorted_lengths": 1,
    "means_of_some": 2,
    "alike_losses": 1,
    "corners": 2,
}
"""Trainings with models that hang on the whole batch: how many."""
FAILURES: Final = {
    "raises": ("rank 1 has failed with ValueError: the third step; this is rank 0, at call 4 of Sequential", 1),
    "raises backward": ("rank 1 has failed with ValueError: backward; this is rank 0, in a backward pass", 1),
    "is killed": ("rank 1 has gone without a word, as a process that is killed does; this is rank 0", -9),
    "stops early": ("rank 1 has reached the end of the program; this is rank 0, at call 4 of Sequential", 0),
    "exits": ("rank 1 has reached the end of the program; this is rank 0, at call 4 of Sequential", 3),
    "sleeps": ("rank 1 (not waiting) did not come within 2 s; this is rank 0, at call 4 of Sequential", 1),
    "draws more": ("ranks have come apart: the state of the random generators differs between rank 0 and rank 1", 1),
    "skips": ("ranks have come apart: whether it trains differs between rank 0 and rank 1, at call 4", 1),
    "fewer rows": ("ranks have come apart: the number of rows differs between rank 0 and rank 1, at call 4", 1),
    "saves": ("ranks have come apart: how many saves there were differs between rank 0 and rank 1, at call 4", 1),
    "means": ("a mean over the batch is taken by some ranks only, at call 4 of _MeanOfSome; whether there is one", 1),
    "other data": ("ranks have different batches at call 1 of Sequential", 1),
    "other labels": ("ranks compute different losses (", 1),
}
FIRST_FAILS: Final = {
    "raises": (1, "rank 0 has failed with ValueError: the third step; this is rank 1, at call 4 of Sequential"),
    "is killed": (-9, "rank 0 has"),
    "stops early": (0, "rank 0 has reached the end of the program; this is rank 1, at call 4 of Sequential"),
}
STARTS: Final = {
    "port": "is in use by another program: start with another --master-port",
    "alone": "the other ranks were not reached at 127.0.0.1:",
    "by hand": "WORLD_SIZE is set, but the program was not started by torchrun",
    "own group": "the program has a process group of its own",
}
FAULTS: Final = (
    "batch norm of each rank",
    "random numbers of each rank",
    "gradients of each rank",
    "outputs without their factor",
    "inputs without the other ranks",
    "one reduction for two backward passes",
    "checkpoints that compute all rows",
    "dependence unseen",
    "means of each rank",
    "losses of each rank's outputs",
)


def launch(plan: list[dict[str, Any]]) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AUTOACCEL_")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.runtime.distributed.launcher", json.dumps(plan)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each launch."""
    folder = tmp_path_factory.mktemp("ranks")
    plan: list[dict[str, Any]] = [
        {"ranks": ranks, "run": "train", "arguments": [TRAININGS], "folder": f"train {ranks}"} for ranks in (1, 2, 3)
    ]
    plan += [
        {"ranks": ranks, "run": "train_sharded", "arguments": [SHARDED], "folder": f"sharded {ranks}"}
        for ranks in (2, 3)
    ]
    plan += [
        {"ranks": ranks, "run": "train_deferred", "arguments": [TRAININGS], "folder": f"deferred {ranks}"}
        for ranks in (2, 3)
    ]
    plan += [{"ranks": ranks, "run": "verbs", "arguments": [], "folder": f"verbs {ranks}"} for ranks in (1, 3)]
    for ranks, load in ((1, ""), (2, ""), (1, "1.pth"), (3, "1.pth"), (1, "2.pth"), (3, "2.pth")):
        name = f"checkpoint {load or 'new'} {ranks}"
        save = f"{ranks}.pth" if not load else f"{name}.end"
        files = [str(folder / each) if each else "" for each in (load, save)]
        plan.append({"ranks": ranks, "run": "checkpointed", "arguments": files, "folder": name})
    for load in ("1.pth", "2.pth"):
        name = f"checkpoint {load} sharded"
        arguments = [str(folder / load), str(folder / f"{name}.end"), True]
        plan.append({"ranks": 3, "run": "checkpointed", "arguments": arguments, "folder": name})
    for kind in ("is killed at the end", "saves at the end"):
        plan.append({"ranks": 2, "run": "failing", "arguments": [kind], "folder": kind.removeprefix("is ")})
    for name in ("forks", "killed_with_a_worker", "killed_as_it_leaves", "not_woken"):
        plan.append({"ranks": 2, "run": name, "arguments": [], "folder": name})
    for kind in FIRST_FAILS:
        plan.append({"ranks": 2, "run": "failing", "arguments": [f"first {kind}"], "folder": f"first {kind}"})
    for name in ("faults", "gathers", "unshared_generators", "unsilenced"):
        plan.append({"ranks": 2, "run": name, "arguments": [], "folder": name})
    for kind in FAILURES:
        limit = {"AUTOACCEL_RANK_TIMEOUT": "2"} if kind == "sleeps" else {}
        plan.append({"ranks": 2, "run": "failing", "arguments": [kind], "folder": kind, "environment": limit})
    for kind in STARTS:
        limit = {"AUTOACCEL_RANK_TIMEOUT": "1"}
        plan.append({"ranks": 1, "run": "starts", "arguments": [kind], "folder": kind, "environment": limit})
    launch([{**each, "folder": str(folder / each["folder"])} for each in plan])
    return folder


def found(folder: Path, rank: int = 0) -> Any:
    try:
        return json.loads((folder / f"found.{rank}").read_text())
    except OSError:
        raise AssertionError((folder / f"err.{rank}").read_text()) from None


def status(folder: Path) -> list[Any]:
    return [each[0] for each in json.loads((folder / "status.json").read_text())]


def distance(mine: list[float], theirs: list[float]) -> float:
    """The largest relative difference."""
    return max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("kind", ["train", "deferred"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", TRAININGS)
def test_ranks_train_as_one_process_does(runs: Path, ranks: int, name: str, kind: str) -> None:
    """With outputs that are gathered at once, and when they are asked for."""
    assert status(runs / f"{kind} {ranks}") == [0] * ranks, (runs / f"{kind} {ranks}" / "err.0").read_text()
    alone = found(runs / "train 1")[name]
    limit = 1e-4 if name == "two_shares" else 1e-7 if name == "alike_losses" else 1e-12  # these in float32
    for rank in range(ranks):
        together = found(runs / f"{kind} {ranks}", rank)[name]
        assert distance(together["log"], alone["log"]) < limit
        assert sum(map(bool, together["problems"])) == WHOLE.get(name, 0), together["problems"]
        assert len(together["problems"]) > WHOLE.get(name, 0) or name in WHOLE  # batches were shared


@pytest.mark.parametrize("name", SHARDED)
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_with_a_part_of_the_parameters_train_as_one_process_does(runs: Path, ranks: int, name: str) -> None:
    folder = runs / f"sharded {ranks}"
    assert status(folder) == [0] * ranks, (folder / "err.0").read_text()
    for rank in range(ranks):
        together = found(folder, rank)[name]
        assert distance(together["log"], found(runs / "train 1")[name]["log"]) < 1e-12
        assert sum(map(bool, together["problems"])) == WHOLE.get(name, 0), together["problems"]


@pytest.mark.parametrize("ranks", [2, 3])
def test_each_rank_keeps_its_part_of_the_parameters(runs: Path, ranks: int) -> None:
    kept = [json.loads((runs / f"sharded {ranks}" / f"kept.{rank}").read_text()) for rank in range(ranks)]
    assert sum(own for own, _ in kept) == kept[0][1]
    assert all(own < 0.6 * whole for own, whole in kept)


def test_ranks_train_as_their_shares_do_in_one_process(runs: Path) -> None:
    """Bit for bit, in float32."""
    together = found(runs / "train 2")
    assert together["two_shares"]["log"] == together["shares of one process"]["log"]


def test_the_reasons_are_given(runs: Path) -> None:
    problems = found(runs / "train 2")["not_by_rows"]["problems"]
    assert [each for each in problems if each] == [
        "its outputs hang on all rows of a batch",
        "random numbers are drawn out of sight",
    ]


def test_large_outputs_are_gathered_where_all_rows_are_wanted(runs: Path) -> None:
    counts = {"a loss": 0, "a loss of the model's own": 0, "a loss and a metric": 1, "something else": 1}
    seen = found(runs / "gathers")
    assert "was changed in place before" in seen.pop("changed") and seen == counts


def test_a_planted_fault_shows(runs: Path) -> None:
    alone = found(runs / "train 1")
    faults = [found(runs / "faults", rank) for rank in range(2)]
    training, log = faults[0]["nothing"]
    assert distance(log, alone[training]["log"]) < 1e-12
    for name in FAULTS:
        training = faults[0][name][0]
        limit = 1e-4 if training == "two_shares" else 1e-6
        logs = [each[name][1] for each in faults]
        assert any(isinstance(log, str) or distance(log, alone[training]["log"]) > limit for log in logs), name


def test_under_one_process_the_verbs_do_nothing(runs: Path) -> None:
    seen = found(runs / "verbs 1")
    assert seen["device"] and seen["same object"] and seen["agreed"] == [True, []]
    assert seen["stopped"] == [False, False, False, True]
    assert (runs / "verbs 1" / "out.0").read_text() == "one line\nof a child\n"


def test_the_verbs_on_several_ranks(runs: Path) -> None:
    folder = runs / "verbs 3"
    assert status(folder) == [0, 0, 0], (folder / "err.1").read_text()
    ranks = [found(folder, rank) for rank in range(3)]
    assert ranks[0] == ranks[1] == ranks[2]  # the same random numbers among others
    seen = ranks[0]
    assert all(seen[name] is True for name in ("device", "same object", "keys", "saved"))
    assert seen["name"] == "cpu" and seen["agreed"] == [True, False] and seen["total"] == 1
    assert seen["stopped"] == [False, False, False, True]  # as the first rank's figures ask for
    assert seen["workers"] == [1, False] and found(runs / "verbs 1")["workers"] == [1, True]
    assert seen["compiled"] == [False] * 4 and found(runs / "verbs 1")["compiled"] == [True] * 4
    assert sorted(value for batch in seen["from workers"] for value in batch) == list(map(float, range(10)))


def test_the_first_rank_comes_first(runs: Path) -> None:
    folder = runs / "verbs 3"
    assert (folder / "order").read_text().split()[0] == "0"
    assert found(folder, 0)["seen after the block"] == 3  # nobody goes on before all are through
    assert found(folder, 2)["in the block"] == [
        2,
        "RuntimeError: accel: ranks cannot meet inside of the block of accel.first(); this is at accel.agreed()",
    ]
    assert (folder / "saves").read_text().split() == ["0", "0"]
    assert (folder / "calls").read_text().split()[0] == "0"
    for rank in range(3):
        seen = found(folder, rank)
        assert (seen["called first"], seen["seen after the call"], seen["itself"]) == ("calls once", 3, False)
    assert found(runs / "verbs 1")["itself"] is True


@pytest.mark.parametrize("name", ["verbs 1", "verbs 3"])
def test_a_path_is_written_once(runs: Path, name: str) -> None:
    folder = runs / name
    assert (folder / "log.txt").read_text() == "once\nonce\n" and not (folder / "pictures").exists()
    assert found(folder, 0)["paths"] == ["str", True, None]


def test_what_fails_on_the_first_rank_fails_on_all(runs: Path) -> None:
    folder = runs / "verbs 3"
    for rank in range(3):
        save, block = found(folder, rank)["failures"]
        assert save == found(runs / "verbs 1")["failures"][0] and block == "FileExistsError: made before"
    assert (folder / "blocks").read_text().split() == ["0"]


def test_lines_are_printed_once(runs: Path) -> None:
    assert [(runs / "verbs 3" / f"out.{rank}").read_text() for rank in range(3)] == ["one line\nof a child\n", "", ""]
    assert [(runs / "unsilenced" / f"out.{rank}").read_text() for rank in range(2)] == ["one line\n"] * 2


def test_without_sharing_generators_ranks_draw_other_numbers(runs: Path) -> None:
    assert found(runs / "unshared_generators", 0) != found(runs / "unshared_generators", 1)


def test_what_cannot_be_right_is_declined(runs: Path) -> None:
    declined = found(runs / "verbs 3")["declined"]
    parts = "torch.autograd.grad,create_graph=True,inputs=...,hooks of parameters,by hand".split(",")
    parts += ["sparse=True", "use_reentrant=False"]
    assert len(declined) == len(parts)
    assert all(part in message for part, message in zip(parts, declined, strict=True))


def test_checkpoints_go_from_any_number_of_ranks_to_any(runs: Path) -> None:
    straight = found(runs / "checkpoint 1.pth 1")
    assert distance(found(runs / "checkpoint new 2"), found(runs / "checkpoint new 1")) < 1e-12
    end = torch.load(runs / "checkpoint 1.pth 1.end")
    for name in ("1.pth 3", "2.pth 1", "2.pth 3", "1.pth sharded", "2.pth sharded"):
        name = f"checkpoint {name}"
        assert distance(found(runs / name), straight) < 1e-12
        saved = torch.load(runs / f"{name}.end")
        assert saved["schedule"] == end["schedule"] and torch.equal(saved["random"], end["random"])
        assert list(saved["model"]) == list(end["model"])
        for key, value in end["model"].items():
            assert torch.allclose(saved["model"][key], value, rtol=1e-9, atol=1e-12), key


def test_a_rank_that_is_killed_while_the_other_waits_at_the_end(runs: Path) -> None:
    """The other has done its work; it waits no longer than it takes to see that nobody comes."""
    folder = runs / "killed at the end"
    assert status(folder) == [0, -9]
    assert max(seconds for _, seconds in json.loads((folder / "status.json").read_text())) < 20
    said = "accel: rank 1 has gone without a word, as a process that is killed does; this is rank 0, at the end of the"
    assert said in (folder / "err.0").read_text()


def test_no_worker_of_a_loader_has_connections_of_its_rank(runs: Path) -> None:
    """Else the others do not see that the rank has gone, as long as the worker has not."""
    sockets, here, there = found(runs / "forks")
    assert sockets == here >= 3
    assert there == [0, 0]


def test_a_worker_ends_with_its_rank_that_is_killed_as_it_starts(runs: Path) -> None:
    folder = runs / "killed_with_a_worker"
    assert status(folder) == [1, -9]
    assert max(seconds for _, seconds in json.loads((folder / "status.json").read_text())) < 20
    limit = time.monotonic() + 10
    while time.monotonic() < limit and not (folder / "outlived").exists():
        time.sleep(0.01)
    assert (folder / "outlived").exists()
    # a process group's own judgement also sees one that has ended, and that nobody has collected
    assert process_group._is_gone(f"{process_group._machine()} {(folder / 'worker').read_text()}")


def test_a_rank_that_is_killed_as_it_leaves_is_not_waited_for(runs: Path) -> None:
    folder = runs / "killed_as_it_leaves"
    assert status(folder) == [0, -9]
    assert max(seconds for _, seconds in json.loads((folder / "status.json").read_text())) < 20


def test_what_is_not_woken_when_a_rank_has_gone_is_ended(runs: Path) -> None:
    folder = runs / "not_woken"
    assert status(folder) == [1, -9]
    assert max(seconds for _, seconds in json.loads((folder / "status.json").read_text())) < 30
    said = "accel: rank 1 has gone without a word, as a process that is killed does; this is rank 0, in a backward pass"
    assert said in (folder / "err.0").read_text()
    assert (folder / "out.0").read_text() == "printed\n"


def test_no_process_of_another_machine_is_said_to_have_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert process_group._is_gone(f"{process_group._machine()} {ended.pid}")
    assert not process_group._is_gone(f"{process_group._machine()} {os.getpid()}")
    assert not process_group._is_gone(f"elsewhere {ended.pid}")


def test_saves_that_not_all_ranks_came_to_are_told_at_the_end(runs: Path) -> None:
    folder = runs / "saves at the end"
    assert status(folder) == [0, 0]
    said = "accel: ranks have come apart: rank 1 has come to 0 saves, and rank 0 to 1; "
    assert said in (folder / "err.1").read_text()
    assert "accel" not in (folder / "err.0").read_text()


@pytest.mark.parametrize("kind", FIRST_FAILS)
def test_the_first_rank_that_fails_ends_the_run(runs: Path, kind: str) -> None:
    """With it goes the store in which ranks leave word for one another."""
    end, message = FIRST_FAILS[kind]
    folder = runs / f"first {kind}"
    assert status(folder) == [end, 1]
    assert message in (folder / "err.1").read_text()
    assert max(seconds for _, seconds in json.loads((folder / "status.json").read_text())) < 30


@pytest.mark.parametrize("kind", STARTS)
def test_a_start_that_fails_says_why(runs: Path, kind: str) -> None:
    assert STARTS[kind] in found(runs / kind)


def test_a_torch_without_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="built without torch"):
        accel.device("cpu")


@pytest.mark.parametrize("variable", ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"])
def test_processes_that_do_not_know_of_each_other_are_warned(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv(variable, "4")
    environment.warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"{variable} says that this is one of 4 processes, .* trains alone"):
        assert accel.device("cpu") == "cpu"
    monkeypatch.setenv(variable, "1")
    environment.warn_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert accel.device("cpu") == "cpu"


def test_more_ranks_than_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    one = SimpleNamespace(device_count=lambda: 1, is_available=lambda: True)
    monkeypatch.setattr(devices, "module_of", lambda kind: one)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(RuntimeError, match="rank 1 of this machine has no cuda device: 1 can be seen"):
        accel.device("cuda")


@pytest.mark.parametrize(
    ("kind", "found", "backends"),
    [
        ("cpu", None, "gloo"),
        ("cuda", torch.device("cuda"), "cpu:gloo,cuda:nccl"),
        pytest.param("cpu", torch.device("cuda"), "cpu:gloo,cuda:nccl", id="the device may be chosen later"),
        pytest.param("cpu", torch.device("mps"), "gloo", id="an accelerator that has none"),
    ],
)
def test_backends(monkeypatch: pytest.MonkeyPatch, kind: str, found: torch.device | None, backends: str) -> None:
    monkeypatch.setattr(devices, "accelerator", lambda: found)
    assert process_group._backends(kind) == backends


def test_one_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    before = functional.dropout, functional.batch_norm, torch.randn, torch.autograd.backward, torch.Tensor.normal_
    model = nn.Linear(2, 2)
    assert accel.distribute(model, shard=True) is model and "forward" not in vars(model)
    nothing: list[int] = []
    assert accel.device("cuda:7") == "cuda:7" and accel.agreed(nothing) is nothing
    assert accel.path(place := "log.txt") is place
    with accel.first():
        pass
    after = functional.dropout, functional.batch_norm, torch.randn, torch.autograd.backward, torch.Tensor.normal_
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_ends_the_run_with_one_clear_message(runs: Path, kind: str) -> None:
    message, end = FAILURES[kind]
    assert status(runs / kind) == [1, end]
    error = (runs / kind / "err.0").read_text()
    assert any(message in line and line.startswith("[rank0]: RuntimeError: ") for line in error.splitlines())
    assert max(seconds for _, seconds in json.loads((runs / kind / "status.json").read_text())) < 30
    if kind.startswith("raises"):
        assert "ValueError" in (runs / kind / "err.1").read_text()


SCRIPT = """
import torch
from torch import nn
from autoaccel import runtime as accel

torch.manual_seed(0)
device = accel.device(torch.device("cpu"))
model = accel.distribute(nn.Linear(3, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = model(torch.randn(5, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
accel.save(model.state_dict(), "net.pth")
"""


def test_started_by_torchrun_and_by_python(forking: Forking, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    lines = []
    for arguments in (["train.py"], start):
        ended = forking.python(arguments, tmp_path, environment)
        assert ended.returncode == 0, ended.stderr
        lines.append(ended.stdout)
    assert lines[0] == lines[1] and len(lines[0].splitlines()) == 3
    assert list(torch.load(tmp_path / "net.pth")) == ["weight", "bias"]
