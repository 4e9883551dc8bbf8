"""What ranks run in the tests; each writes what it has found beside its output."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import runpy
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as scripts say it
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.distributed import (
    batch_means,
    batch_norm,
    batch_part,
    connections,
    deferred_outputs,
    global_view,
    gradient_reduction,
    process_group,
    row_independence,
    shares,
)
from autoaccel.runtime.environment import Decision
from autoaccel.runtime.loading import loader_settings, managed_epoch
from autoaccel.runtime.rng_state import RngState
from tests.runtime.distributed import trainings


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def write(found: Any) -> None:
    Path(f"found.{rank()}").write_text(json.dumps(found))


@contextmanager
def doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def script(path: str) -> None:
    """A script, in float64: the losses that go backward, and the checkpoints that it leaves."""
    backward, losses = torch.autograd.backward, []

    def noting(tensors: Any, *args: Any, **kwargs: Any) -> None:
        losses.append(float(tensors))
        backward(tensors, *args, **kwargs)

    with doubles(), mock.patch.object(torch.autograd, "backward", noting):
        runpy.run_path(path, run_name="__main__")
    saved = {each.name: _keys(torch.load(each)) for each in sorted(Path().glob("*.pt"))} if rank() == 0 else {}
    write({"losses": losses, "saved": saved})


def _keys(saved: Any) -> list[str]:
    return [*saved, *(key for each in saved.values() if isinstance(each, dict) for key in each)]


def train(names: list[str]) -> None:
    """Every training: what it has observed, and why ranks did not share the batches of its models."""
    found = {}
    accel.device("cpu")
    with doubles():
        for name in names:
            trainings.MODELS.clear()
            log = trainings.TRAININGS[name]()
            outcomes = [vars(each)["forward"]._independence for each in trainings.MODELS if "forward" in vars(each)]
            found[name] = {"log": log, "problems": [each.problem for known in outcomes for each in known.values()]}
        found["shares of one process"] = {"log": list(trainings.shares_of_one_process(2)), "problems": []}
    write(found)


def train_sharded(names: list[str]) -> None:
    """Every training with parameters that are spread over the ranks, and which part of them this one keeps."""
    trainings.SHARDS[:] = [True]
    train(names)
    own: Any = list(trainings.MODELS[-1].parameters())
    kept = sum(each.to_local().numel() for each in own), sum(each.numel() for each in own)
    Path(f"kept.{rank()}").write_text(json.dumps(kept))


def train_deferred(names: list[str]) -> None:
    """Every training with outputs that are gathered when they are asked for, however small they are."""
    with mock.patch.object(deferred_outputs, "LARGE", 0):
        train(names)


def gathers() -> None:
    """How often outputs of all ranks are gathered, by what a step does with them."""
    accel.device("cpu")
    model = accel.distribute(nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9)))
    both = accel.distribute(trainings.WithLoss())
    x = torch.randint(0, 9, (7, 5))
    counts: dict[str, Any] = {}
    with (
        mock.patch.object(deferred_outputs, "LARGE", 0),
        mock.patch.object(shares, "gather", wraps=shares.gather) as seen,
    ):

        def count(what: str, loss: Any) -> None:
            loss.backward()
            counts[what] = seen.call_count
            seen.reset_mock()

        count("a loss", F.cross_entropy(model(x).view(-1, 9), x.view(-1)))
        count("a loss of the model's own", both(x, x)[1])
        out = model(x)
        right = (out.detach().argmax(2) == x).sum()
        count("a loss and a metric", F.cross_entropy(out.transpose(1, 2), x) + right)
        count("something else", model(x).cos().sum())
        out = model(x)
        out.mul_(2)
        counts["changed"] = _failure(lambda: trainings.scaled(out).sum().backward())
    write(counts)


# -- the verbs


def verbs() -> None:
    """Each verb once, in a program that sets no seed."""
    random.seed(os.getpid())
    np.random.seed(os.getpid() % 1000)
    torch.manual_seed(os.getpid())
    device = torch.device("cpu")
    found: dict[str, Any] = {"device": accel.device(device) is device, "name": accel.device("cpu")}
    print("one line")
    os.system("echo of a child")
    found["drawn"] = [random.random(), float(np.random.rand()), torch.rand(()).item()]
    model = trainings.Net()
    found["same object"] = accel.distribute(model) is model and type(model) is trainings.Net
    found["keys"] = list(model.state_dict()) == list(trainings.Net().state_dict())
    with accel.first():
        with Path("order").open("a") as order:
            order.write(f"{rank()}\n")
        time.sleep(0.1)
        found["in the block"] = [model(torch.ones(2, 3, 6, 6))[0].shape[0], _failure(lambda: accel.agreed(True))]
        with accel.first():
            accel.save({}, "in_the_block.pth")
    found["called first"] = accel.first(_called)("calls", mark="once")
    found["seen after the call"] = len(Path("calls").read_text().split())
    found["itself"] = accel.first(_called) is _called
    found["seen after the block"] = len(Path("order").read_text().split())
    stopper, figures = (
        accel.early_stopping(model, patience=2),
        [3.0, 2.0, 4.0, 5.0] if rank() == 0 else [1.0, 2.0, 3.0, 4.0],
    )
    found["stopped"] = [stopper(figure) for figure in figures]
    stopper.restore()
    found["agreed"] = [accel.agreed(rank() == 0), accel.agreed([rank()] if rank() else [])]
    with mock.patch.object(torch, "save", _noting(torch.save)):
        accel.save(model.state_dict(), "net.pth")
        accel.save(model.state_dict(), Path("net.pth"), _use_new_zipfile_serialization=True)
    found["saved"] = all(map(torch.equal, torch.load("net.pth").values(), model.state_dict().values()))
    with open(accel.path("pictures/log.txt") if rank() else "log.txt", "a") as log:  # noqa: PTH123 - as scripts do
        log.write("once\n")
    with Path(accel.path(Path("log.txt"))).open("a") as log:
        log.write("once\n")
    found["paths"] = [type(accel.path("x")).__name__, isinstance(accel.path(Path("x")), Path), accel.path(None)]
    found["failures"] = [_failure(_save_nowhere), _failure(_first_fails)]
    found["declined"] = [_failure(function) for function in _declined(model)]
    loader: Any = DataLoader(TensorDataset(torch.arange(10.0)), 4, shuffle=True, num_workers=1)
    found["from workers"] = [batch.tolist() for (batch,) in accel.prefetch(loader, "cpu")]
    with mock.patch.object(loader_settings, "worker_decision", return_value=Decision(rank() + 1, "a test")):
        loader = DataLoader(TensorDataset(torch.arange(10.0)), 4, num_workers=accel.num_workers())
    with mock.patch.object(devices, "accelerator", return_value=torch.device("cuda")):
        found["workers"] = [int(loader.num_workers), managed_epoch.managed(loader)]
    net = accel.compile(nn.Linear(1, 1))
    found["compiled"] = [
        accel.compile(model)._compiled_call_impl is not None,
        accel.distribute(net)._compiled_call_impl is not None,
    ]
    wrapped, later = (nn.DataParallel(nn.Linear(1, 1)) for _ in range(2))
    accel.distribute(accel.compile(wrapped))
    accel.compile(accel.distribute(later))
    found["compiled"] += [each.module._compiled_call_impl is not None for each in (wrapped, later)]
    total = accel.total()
    total += accel.item(torch.ones(()))
    found["total"] = float(total)
    write(found)


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    def save(*args: Any, **kwargs: Any) -> None:
        with Path("saves").open("a") as saves:
            saves.write(f"{rank()}\n")
        function(*args, **kwargs)

    return save


def _called(name: str, *, mark: str) -> str:
    with Path(name).open("a") as calls:
        calls.write(f"{rank()}\n")
    time.sleep(0.1)
    return f"{name} {mark}"


def _failure(function: Callable[[], Any]) -> str:
    try:
        function()
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"
    return ""


def _save_nowhere() -> None:
    accel.save({}, Path("nowhere") / "net.pth")


def _first_fails() -> None:
    with accel.first():
        with Path("blocks").open("a") as blocks:
            blocks.write(f"{rank()}\n")
        if rank() == 0:
            raise FileExistsError("made before")


class Reentrant(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(super().forward, x * self.bias, use_reentrant=True)


def _declined(model: Any) -> Iterator[Callable[[], Any]]:
    x = torch.randn(4, 3, 6, 6)
    loss = model(x)[0].sum()
    weight = model.out.weight
    yield lambda: torch.autograd.grad(loss, weight, retain_graph=True)
    yield lambda: loss.backward(create_graph=True)
    yield lambda: loss.backward(inputs=[weight])
    handle = weight.register_hook(torch.zeros_like)
    yield loss.backward
    handle.remove()
    other: Any = nn.Linear(1, 1)
    other.forward = copy.copy
    yield lambda: accel.distribute(other)
    yield lambda: accel.distribute(nn.Embedding(2, 2, sparse=True))
    reentrant: Any = accel.distribute(Reentrant())
    yield reentrant(torch.ones(4, 2, requires_grad=True)).sum().backward


def starts(kind: str) -> None:
    """Starts that fail, as rank 0 sees them."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        os.environ.update(WORLD_SIZE="2", RANK="0", LOCAL_RANK="0")
        if kind != "by hand":
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(other.getsockname()[1]))
        if kind == "alone":
            other.close()
        if kind == "own group":
            os.environ.update(WORLD_SIZE="1", MASTER_PORT="0")
            torch.distributed.init_process_group("gloo")
            os.environ["WORLD_SIZE"] = "2"
        write(_failure(lambda: accel.device("cpu")))


# -- checkpoints


def checkpointed(load: str, save: str, shard: bool = False) -> None:
    """Half of a training, from a checkpoint to a checkpoint; torch's and the script's own names of things."""
    accel.device("cpu")
    with doubles():
        torch.manual_seed(11)
        model: Any = accel.distribute(trainings.Net(), shard=shard)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2, eps=1e-3)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        held: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
        if load:
            state = torch.load(load)
            for name, each in held.items():
                each.load_state_dict(state[name])
            torch.set_rng_state(state["random"])
        else:
            torch.manual_seed(12)
        log = []
        for x, y in trainings.images(27):
            loss = F.cross_entropy(model(x)[0], y)
            trainings.step(optimizer, loss)
            schedule.step()
            log.append(loss.item())
        states = {name: each.state_dict() for name, each in held.items()}
        accel.save({**states, "random": torch.get_rng_state()}, save)
    write(log)


# -- planted faults


def faults() -> None:
    """Trainings with one mechanism switched off at a time, and a check of rows that sees nothing."""
    accel.device("cpu")
    found: dict[str, Any] = {}
    with doubles():
        for name, (training, patches) in _faults().items():
            with contextlib.ExitStack() as stack:
                stack.enter_context(mock.patch.object(row_independence, "_close", _same_shape))
                stack.enter_context(mock.patch.object(RngState, "__eq__", return_value=True))
                for each in patches:
                    stack.enter_context(each)
                try:
                    found[name] = [training, trainings.TRAININGS[training]()]
                except RuntimeError as failure:
                    found[name] = [training, str(failure)]
            gradient_reduction._reductions.clear()
            gradient_reduction._passes = 0
    write(found)


def _same_shape(one: torch.Tensor, two: torch.Tensor, *_: Any) -> bool:
    return one.shape == two.shape


def _faults() -> dict[str, tuple[str, list[Any]]]:
    def local(rows: Any, mean: Any, var: Any, weight: Any, bias: Any, momentum: float, eps: float) -> Any:
        return torch.batch_norm(rows, weight, bias, mean, var, True, momentum, eps, False)

    def padded(ctx: Any, gradient: Any) -> Any:
        whole = gradient.new_zeros((ctx.rows.count, *gradient.shape[1:]))
        whole[ctx.rows.first : ctx.rows.first + ctx.rows.own] = gradient
        return whole, None, None, None

    prepare = gradient_reduction.GradientReduction.prepare
    told: list[int] = []

    def every_other(self: Any, roots: Any) -> None:
        told.append(1)
        if len(told) // 2 % 2:  # there are two models
            prepare(self, roots)

    patch = mock.patch.object
    reduction = gradient_reduction.GradientReduction
    return {
        "nothing": ("everything", []),
        "batch norm of each rank": ("everything", [patch(batch_norm, "_synchronized", local)]),
        "random numbers of each rank": ("draws", [patch(batch_part.Share, "batch_dim", lambda self, shape: None)]),
        "gradients of each rank": ("gradient_penalty", [patch(reduction, "prepare", lambda self, roots: None)]),
        "outputs without their factor": (
            "two_shares",
            [patch(shares.Gather, "backward", staticmethod(_own_rows))],
        ),
        "inputs without the other ranks": ("gan", [patch(shares.TakeRows, "backward", staticmethod(padded))]),
        "one reduction for two backward passes": ("gan_in_parts", [patch(reduction, "prepare", every_other)]),
        "checkpoints that compute all rows": (
            "draws",
            [patch(global_view, "_rows_again", lambda share: None)],
        ),
        "dependence unseen": ("centred", []),
        "means of each rank": ("loss_inside", [patch(batch_part.Share, "meets_at_mean", lambda self: False)]),
        "losses of each rank's outputs": (
            "layers",
            [patch(deferred_outputs, "LARGE", 0), patch(batch_means, "sum_over_ranks", lambda sums: sums)],
        ),
    }


def _own_rows(ctx: Any, gradient: Any) -> Any:
    return shares.take_rows(gradient, ctx.rows, ctx.dim), None, None, None


def unshared_generators() -> None:
    with mock.patch.object(process_group, "share_generators"):
        torch.manual_seed(rank())
        accel.device("cpu")
    write([torch.rand(()).item(), RngState() == RngState()])


def unsilenced() -> None:
    with mock.patch.object(process_group, "_silence"):
        accel.device("cpu")
    print("one line")


# -- failures


def failing(kind: str) -> None:
    """A training of a few steps in which rank 1 does something else in the third."""
    accel.device("cpu")
    torch.manual_seed(0)
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    if rank() == 1 and kind == "other data":
        x = x + 1
    if rank() == 1 and kind == "other labels":
        y = 2 - y
    model: Any = accel.distribute(_MeanOfSome(4, 3) if kind == "means" else nn.Sequential(nn.Linear(4, 3)))
    kind, one = (kind.removeprefix("first "), 0) if kind.startswith("first ") else (kind, 1)
    for number in range(6):
        there = rank() == one and number == 3
        if there and kind == "raises":
            raise ValueError("the third step\nand more")
        if there and kind == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if there and kind == "stops early":
            break
        if there and kind == "exits":
            raise SystemExit(3)
        if there and kind == "draws more":
            torch.rand(1)
        if there and kind == "skips":
            model.eval()
            model(x)
        if there and kind == "sleeps":
            time.sleep(4)
        if number == 3 and kind == "means":
            x[-1] = 0
        if number == 3 and kind == "saves" and not there:
            accel.save({}, "net.pth")
        loss: Any = F.cross_entropy(model(x[: 7 if there and kind == "fewer rows" else 8]), y)
        if there and kind == "raises backward":
            loss.register_hook(_raise)
        loss.backward()
    print("done")
    if rank() == 0 and kind == "saves at the end":
        accel.save({}, "net.pth")
    if rank() == 1 and kind == "is killed at the end":
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)


class _MeanOfSome(nn.Linear):
    """Takes a mean where no row is zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        return out - out.mean() if x.any(1).all() else out


def _raise(gradient: Any) -> None:
    raise ValueError("backward")


class _Sockets(TensorDataset):
    """Of each item how many of some sockets the process has that loads it."""

    def __init__(self, sockets: dict[int, int]) -> None:
        super().__init__(torch.zeros(2))
        self.sockets = sockets.items()

    def __getitem__(self, _: int) -> Any:
        return len(self.sockets & connections.open_sockets().items())


def forks() -> None:
    """What a loader's worker has of the sockets of its rank, which goes on with the others after it."""
    accel.device("cpu")
    sockets = connections.open_sockets()
    here = _Sockets(sockets)[0]
    model = accel.distribute(nn.Linear(3, 2))
    there = [each.tolist() for each in DataLoader(_Sockets(sockets), 2, num_workers=1)]
    model(torch.ones(4, 3)).sum().backward()
    write([len(sockets), here, there[0]])


def killed_with_a_worker() -> None:
    """Rank 1 is killed before the worker that it starts has done anything; a fork that is no daemon outlives it."""
    accel.device("cpu")
    model = accel.distribute(nn.Linear(3, 2))
    if rank() == 1:
        me = os.getpid()
        if os.fork() == 0:
            while os.getppid() == me:
                time.sleep(0.01)
            time.sleep(1)
            Path("outlived").touch()
            os._exit(0)

        def be_late() -> None:
            Path("worker").write_text(str(os.getpid()))
            while os.getppid() == me:
                time.sleep(0.01)

        os.register_at_fork(after_in_parent=lambda: os.kill(me, signal.SIGKILL), after_in_child=be_late)
        list(DataLoader(TensorDataset(torch.zeros(100, 3)), num_workers=1))
    model(torch.ones(4, 3)).sum().backward()


def killed_as_it_leaves() -> None:
    """Rank 1 has said that it is through, and not yet that it needs the store no more."""
    accel.device("cpu")
    if rank() == 1:
        process_group.Group.let_the_others_leave = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]


def not_woken() -> None:
    """Rank 1 is killed in a backward pass, and what rank 0 waits in is not woken by that."""
    accel.device("cpu")
    model = accel.distribute(nn.Linear(3, 2))
    outputs = model(torch.ones(4, 3))
    print("printed")
    outputs.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL) if rank() == 1 else time.sleep(300))
    outputs.sum().backward()
