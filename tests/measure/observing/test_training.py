"""Losses, steps, state and endings of observed runs."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from autoaccel.measure.observing.run_record import FAILED, FINISHED, STOPPED, RunRecord
from tests.measure.observing.scripts import EPOCH, SETUP, Observe


def same(one: RunRecord, other: RunRecord) -> bool:
    """Whether two runs are equal in everything but time and memory."""
    measured = {"seconds": 0.0}
    return dataclasses.replace(one, **measured) == dataclasses.replace(other, **measured)  # type: ignore[arg-type]


def test_a_run_to_the_end(observe: Observe) -> None:
    record = observe(SETUP + EPOCH + EPOCH)
    assert (record.ending, record.failure, record.steps, record.backwards) == (FINISHED, None, 12, 12)
    assert [str(loss.value) for loss in record.losses] == list(record.printed)
    assert [loss.step for loss in record.losses] == list(range(12))
    assert all(float.fromhex(loss.exact) == loss.value for loss in record.losses)
    assert [each.complete for each in record.passes] == [True, True]
    assert [len(each.batches) for each in record.passes] == [6, 6]
    assert record.device == "cpu"
    assert record.optimizers == 1
    assert record.seconds > 0
    assert record.torch[0].isdigit()


def test_nothing_depends_on_being_observed(observe: Observe, tmp_path: Path) -> None:
    """The script writes its own losses and the end of its random streams; run plainly, it writes the same."""
    text = (
        SETUP
        + EPOCH
        + """
import random, sys
import numpy as np
print(torch.rand(1).item(), random.random(), np.random.rand())
"""
    )
    seeded = "import random, torch\nimport numpy as np\nrandom.seed(0)\nnp.random.seed(0)\n"
    record = observe(text)
    plain = tmp_path / "plain.py"
    plain.write_text(seeded + text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, str(plain)], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.splitlines() == list(record.printed)


def test_the_same_run_twice_is_the_same(observe: Observe) -> None:
    assert same(observe(SETUP + EPOCH, lines=True), observe(SETUP + EPOCH, lines=True))


@pytest.mark.parametrize(
    "around",
    [
        "try:\n    EPOCH\nexcept BaseException:\n    pass\nfinally:\n    print('finally')\n",
        "def inner():\n    EPOCH\ninner()\n",
        "import threading\ndef work():\n    EPOCH\nthread = threading.Thread(target=work)\nthread.start()\n",
        "import time, threading\nthreading.Thread(target=lambda: time.sleep(60)).start()\nfor _ in [0]:\n    EPOCH\n",
        "import sys\ntry:\n    for _ in [0]:\n        EPOCH\nexcept SystemExit:\n    print('caught')\n",
        "loader = DataLoader(data, batch_size=4, num_workers=2)\nfor _ in [0]:\n    EPOCH\n",
        "from tqdm import tqdm\nloader = tqdm(loader)\nfor _ in [0]:\n    EPOCH\n",
        "import signal\nsignal.signal(signal.SIGALRM, lambda *_: 1 / 0)\nsignal.alarm(1)\nfor _ in [0]:\n    EPOCH\n",
    ],
)
def test_a_stop_gets_through_whatever_the_script_does(observe: Observe, around: str) -> None:
    body = around.replace("EPOCH", textwrap.indent(EPOCH, "    ").strip())
    if "\n        EPOCH" in around:
        body = around.replace("EPOCH", textwrap.indent(EPOCH, "        ").strip())
    record = observe(SETUP + body, steps=3)
    assert (record.ending, record.steps, record.failure) == (STOPPED, 3, None)
    assert len(record.losses) == 3
    assert [str(loss.value) for loss in record.losses[:2]] == list(record.printed)


def test_a_stopped_run_is_the_beginning_of_the_whole(observe: Observe) -> None:
    whole, part = observe(SETUP + EPOCH), observe(SETUP + EPOCH, steps=6)
    assert part.losses == whole.losses
    assert part.state == whole.state


def test_state_has_the_names_of_the_script(observe: Observe) -> None:
    text = """
    import copy, torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3)
            self.last.weight = self.first.weight

        def forward(self, x):
            return self.last(self.norm(self.first(x)))

    class Trainer:
        def __init__(self):
            self.net = Net()
            self.average = copy.deepcopy(self.net)
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.5)
            self.plan = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)

        def fit(self):
            for _ in range(2):
                self.net(torch.ones(2, 3)).sum().backward()
                self.optimizer.step()
                self.plan.step()
            self.net.norm.eval()

    Trainer().fit()
    """
    record = observe(text)
    names = [entry.name for entry in record.state]
    assert len(set(names)) == len(names)
    assert {"net.first.weight", "net.norm.running_mean", "average.first.weight"} <= set(names)
    assert "optimizer: net.first.weight exp_avg" in names
    assert "net.last.weight" not in names  # tied
    kinds = {entry.name: entry.kind for entry in record.state}
    assert kinds["net.norm.num_batches_tracked"] == "buffer"
    assert record.settings["optimizer group 1.lr"] == "0.005000000000000001"
    assert record.settings["plan.last_epoch"] == "2"
    assert (record.settings["net.training"], record.settings["net.norm.training"]) == ("True", "False")


def test_every_kind_of_tensor_can_be_read(observe: Observe) -> None:
    text = """
    import torch
    from torch import nn

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = nn.Parameter(torch.ones(2))
            self.brief = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
            self.imaginary = nn.Parameter(torch.ones(2, dtype=torch.complex64) * 1j)
            self.lazy = nn.LazyLinear(3)
            self.register_buffer("sparse", torch.eye(3).to_sparse())
            self.register_buffer("empty", torch.ones(0))
            self.register_buffer("nothing", torch.tensor([float("nan"), 1.0]))
            self.register_buffer("flag", torch.tensor(True))
            self.register_buffer("whole", torch.tensor([3, 4]))
            self.register_buffer("quantized", torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
            self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())
            self.register_buffer("meta", torch.ones(3, device="meta"))

    torch.set_default_device("meta")
    with torch.device("cpu"):
        model = Odd()
    loose = torch.ones(3, device="cpu", requires_grad=True)
    optimizer = torch.optim.SGD([model.plain, loose], lr=0.1)
    (model.plain.sum() + loose.sum()).backward()
    optimizer.step()
    """
    state = {entry.name: entry for entry in observe(text).state}
    assert {name for name in state if name.startswith("model.lazy")} == {"model.lazy.weight", "model.lazy.bias"}
    assert state["model.meta"].digest == state["model.lazy.weight"].digest == "without data"
    assert math.isnan(state["model.nothing"].norm)
    assert state["model.whole"].norm == 5.0
    assert state["model.imaginary"].norm == pytest.approx(math.sqrt(2))
    assert state["model.turned"].shape == (3, 2)
    assert state["loose"].kind == "parameter"
    assert all(len(entry.sketch) == 8 for name, entry in state.items() if "meta" not in name and "lazy" not in name)


def test_no_optimizer(observe: Observe) -> None:
    text = """
    import torch
    from torch import nn

    model = nn.Linear(2, 1)
    scale = torch.ones(1, requires_grad=True)
    for step in range(5):
        loss = (model(torch.ones(3, 2)) * scale).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for weight in (*model.parameters(), scale):
                weight -= 0.1 * weight.grad
                weight.grad = None
        print(step)
    """
    whole = observe(text)
    assert (whole.steps, whole.backwards, whole.optimizers, whole.ending) == (0, 5, 0, FINISHED)
    assert {entry.name for entry in whole.state} == {"model.weight", "model.bias", "scale"}
    part = observe(text, steps=3)
    assert (part.ending, part.backwards, part.printed) == (STOPPED, 3, ("0", "1", "2"))
    assert part.losses == whole.losses[:3]


def test_scaled_losses_are_unscaled_and_steps_left_out_are_counted(observe: Observe) -> None:
    text = (
        SETUP
        + """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
for number, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    print(loss.item())
    scaled = scaler.scale(loss)
    scaled.backward()
    if number == 2:
        model[0].weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
"""
    )
    record = observe(text)
    assert [str(loss.value) for loss in record.losses] == list(record.printed)
    assert (record.steps, record.skipped_steps) == (6, 1)
    assert observe(text, steps=3).skipped_steps == 1


def test_a_fused_optimizer_leaves_steps_out_by_itself(observe: Observe) -> None:
    text = """
    import torch
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.AdamW([weight], fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number in range(3):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        if number == 1:
            weight.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
    """
    record = observe(text)
    assert (record.steps, record.skipped_steps) == (3, 1)


def test_modules_that_hold_one_another_and_hide_their_methods(observe: Observe) -> None:
    text = """
    import torch
    from torch import nn

    class Part(nn.Module):
        def __init__(self, owner):
            super().__init__()
            self.owner = owner
            self.linear = nn.Linear(2, 2)
            self.modules = nn.ModuleList([self.linear])
            self.parameters = 3

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part(self)

    def main():
        net = Net()
        optimizer = torch.optim.SGD([net.part.linear.weight], lr=0.1)
        net.part.linear.weight.sum().backward()
        optimizer.step()

    main()
    """
    record = observe(text)
    assert [entry.name for entry in record.state] == ["net.part.linear.weight", "net.part.linear.bias"]


def test_tensors_that_are_made_anew_in_every_step(observe: Observe) -> None:
    text = """
    import torch

    def main():
        weight = torch.ones(2, requires_grad=True)
        for _ in range(4):
            (weight * 2).sum().backward()
            weight = (weight - 0.25 * weight.grad).detach().requires_grad_()

    main()
    """
    (entry,) = observe(text).state
    assert entry.name == "weight"
    assert entry.norm == pytest.approx(0.5 * math.sqrt(2))  # as the last backward saw it


def test_several_roots(observe: Observe) -> None:
    text = """
    import torch
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    torch.autograd.backward([weight.sum(), (2 * weight).sum()])
    optimizer.step()
    (weight * 2).backward(torch.ones(3))
    """
    record = observe(text)
    assert [loss.value for loss in record.losses] == [3.0, 6.0, None]
    assert (record.backwards, record.steps) == (2, 1)
    assert [loss.step for loss in record.losses] == [0, 0, 1]


def test_a_backward_inside_a_backward_is_no_loss(observe: Observe) -> None:
    text = """
    import torch
    from torch.utils.checkpoint import checkpoint
    weight = torch.ones(3, requires_grad=True)
    for _ in range(2):
        checkpoint(torch.exp, weight, use_reentrant=True).sum().backward()
    """
    record = observe(text)
    assert (record.backwards, len(record.losses)) == (2, 2)


def test_marks(observe: Observe) -> None:
    text = (
        SETUP
        + """
for x, y in loader:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if len(x) == 4:
            optimizer.step()
"""
    )
    assert observe(text).marks == {
        "a backward ran inside an autocast region": 6,
        "an optimizer stepped inside an autocast region": 6,
    }


def test_jitter_moves_what_is_trained_a_little(observe: Observe) -> None:
    plain, pushed, again = (observe(SETUP + EPOCH, perturbation=strength) for strength in (0.0, 1e-4, 1e-4))
    assert pushed.losses[0] == plain.losses[0]
    assert pushed.losses[1] != plain.losses[1]
    assert pushed.losses[-1].value == pytest.approx(plain.losses[-1].value, rel=0.01)
    assert same(pushed, again)
    assert pushed.random == plain.random


def test_at_least(observe: Observe) -> None:
    """More steps than were asked for, as long as there is time; and never fewer."""
    whole = observe(SETUP + EPOCH)
    assert observe(SETUP + EPOCH, steps=2, at_least=1e9).steps == whole.steps > 2
    assert observe(SETUP + EPOCH, steps=2, at_least=1e-9).steps == 2


def test_patience(observe: Observe) -> None:
    """It begins with the first step, however long that takes to come."""
    waiting = observe(SETUP + "import time\ntime.sleep(0.2)\n" + EPOCH, patience=0.15)
    assert waiting.steps > 1
    slow = EPOCH.replace("optimizer.step()", "optimizer.step(); time.sleep(0.2)")
    record = observe(SETUP + "import time\n" + slow, patience=0.1)
    assert (record.ending, record.steps) == (STOPPED, 2)


def test_patience_without_an_optimizer_ends_where_a_number_of_steps_does(observe: Observe) -> None:
    """After the update by hand that follows the backward: else no original would be equal to its first run."""
    text = """
    import time, torch
    weight = torch.ones(2, requires_grad=True)
    for _ in range(9):
        weight.square().sum().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
        time.sleep(0.1)
    """
    patient = observe(text, patience=0.15)
    counted = observe(text, steps=patient.backwards)
    assert patient.ending == counted.ending == STOPPED
    assert same(patient, counted)


@pytest.mark.parametrize(
    ("ending", "kind", "message"),
    [
        ("import nowhere", "ModuleNotFoundError", "No module named 'nowhere'"),
        ("def f():\n    raise KeyError('x')\nf()", "KeyError", "'x'"),
        ("import sys\nsys.exit('no data')", "exit status", "ended with exit status 1: no data"),
        ("import os\nos._exit(3)", "exit status", "ended with exit status 3"),
        ("def f():\n    f()\nf()", "RecursionError", "maximum recursion depth exceeded"),
        ("optimizer.step(lambda: 1 / 0)", "ZeroDivisionError", "division by zero"),
    ],
)
def test_failures(observe: Observe, tmp_path: Path, ending: str, kind: str, message: str) -> None:
    record = observe(SETUP + EPOCH + ending)
    assert record.ending == FAILED
    assert record.failure is not None
    assert (record.failure.kind, record.failure.message) == (kind, message)
    assert record.exit_status == record.failure.status
    assert record.exit_status == {"sys": 1, "os": 3}.get(ending.split()[1])
    assert record.steps == 6  # what was seen until then is there
    if kind != "exit status":
        lines = (SETUP + EPOCH + ending).splitlines()
        assert record.failure.where.startswith(f"{tmp_path / 'train.py'}:")
        assert int(record.failure.where.rpartition(":")[2]) in (len(lines), len(lines) - 1)
        assert record.failure.traceback.startswith(f'Traceback (most recent call last):\n  File "{tmp_path}/train.py"')
        assert "observing" not in record.failure.traceback


@pytest.mark.parametrize("ending", ["import sys\nsys.exit()", "exit()", "import os\nos._exit(0)", "raise SystemExit"])
def test_leaving_is_finishing(observe: Observe, ending: str) -> None:
    record = observe(SETUP + EPOCH + ending)
    assert (record.ending, record.steps, record.failure) == (FINISHED, 6, None)


def test_a_syntax_error_says_where(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ny = (\n")
    record = observe("import broken")
    assert record.failure is not None
    assert (record.failure.kind, record.failure.where) == ("SyntaxError", f"{tmp_path / 'broken.py'}:2")
    record = observe("x = (")
    assert record.failure is not None
    assert record.failure.kind == "cannot start"


def test_what_is_left_for_the_end_is_done(observe: Observe) -> None:
    text = """
    import atexit, threading, time
    atexit.register(print, "atexit")
    atexit.register(lambda: 1 / 0)

    def work():
        time.sleep(0.1)
        print("thread")

    threading.Thread(target=work).start()
    print("main")
    """
    record = observe(text)
    assert record.printed == ("main", "thread", "atexit")
    assert record.ending == FINISHED


def test_children_do_not_record(observe: Observe) -> None:
    text = (
        SETUP
        + """
import multiprocessing, os, time

def work(queue):
    model = nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    inner.step()
    queue.put(os.getpid())
    time.sleep(60)

context = multiprocessing.get_context("fork")
queue = context.Queue()
processes = [context.Process(target=work, args=(queue,)) for _ in range(2)]
for process in processes:
    process.start()
started = [queue.get(), queue.get()]
"""
        + EPOCH
    )
    record = observe(text, steps=2)
    assert (record.ending, record.steps, record.optimizers) == (STOPPED, 2, 1)


def test_a_fork_of_the_script_ends_as_it_would(observe: Observe) -> None:
    text = SETUP + "import os, sys\nchild = os.fork()\n" + EPOCH
    text += "if child == 0:\n    sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    record = observe(text)
    assert (record.ending, record.steps, len(record.printed)) == (FINISHED, 6, 13)
    assert len(record.losses) == 6


def test_a_script_with_hands_of_its_own(observe: Observe) -> None:
    """It replaces what is hooked, closes what is written to, and goes elsewhere."""
    text = (
        SETUP
        + """
import os, sys, tempfile
os.chdir(tempfile.mkdtemp())
plain = torch.Tensor.backward
torch.Tensor.backward = lambda self, *a, **k: plain(self, *a, **k)

class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)

optimizer = Mine(model.parameters(), lr=0.1)
sys.setrecursionlimit(120)
"""
        + EPOCH
        + "sys.stdout.close()\n"
    )
    record = observe(text)
    assert (record.ending, record.backwards) == (FINISHED, 6)
    assert len(record.printed) == 6
    assert record.steps == 6


def test_there_is_nothing_to_read(observe: Observe) -> None:
    """Also where stream 0 is a terminal that is only open for writing."""
    record = observe("""
        import os, sys
        os.dup2(os.open(os.devnull, os.O_WRONLY), 0)
        print(repr(sys.stdin.read()))
        input()
    """)
    assert record.printed == ("''",)
    assert record.failure is not None
    assert record.failure.kind == "EOFError"


def test_a_scripted_model_goes_by_its_name(observe: Observe) -> None:
    text = """
    import torch
    model = torch.jit.script(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    """
    assert [entry.name for entry in observe(text).state] == ["model.weight", "model.bias"]
