"""The harness must see every difference in training and none where there is none."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.public_scripts import manifest, running
from benchmarks.public_scripts.comparing import compare, stable_output
from benchmarks.public_scripts.manifest import Input, Run, read_run
from benchmarks.public_scripts.running import Outcome, execute
from tests.measure.forking import Forking

TRAIN = """
    import sys, time
    import torch
    from torch import nn
    from helper import width

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 1))

        def forward(self, x):
            return self.layers(x)

    def main(epochs):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for epoch in range(epochs):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 3)).pow(2).mean()
            loss.backward()
            optimizer.step()
            print(f"loss {loss.item():.6f}")
        print(f"at {time.time()}")

    main(int(sys.argv[1]))
"""

Project = Callable[..., Path]
LIMITED = running.limited

pytestmark = pytest.mark.slow  # a process for every run


@pytest.fixture(scope="module", autouse=True)
def forked(forking: Forking) -> Iterator[None]:
    """Runs are forked from a process that has torch; see `in_processes_of_their_own`."""

    def limited(command: list[str], folder: Path, variables: dict[str, str], _: float) -> tuple[int, str, str]:
        assert command[0] == sys.executable
        done = forking.python(command[1:], folder, variables)
        return done.returncode, done.stdout, done.stderr

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "limited", limited)
        yield


@pytest.fixture
def in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "limited", LIMITED)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A tree that holds the repository `here` with `train.py` and a module that it imports."""

    def create(script: str = TRAIN, name: str = "tree", replaced: tuple[str, str] | None = None) -> Path:
        text = textwrap.dedent(script)
        if replaced is not None:
            assert replaced[0] in text
            text = text.replace(*replaced)
        folder = tmp_path / name / "here" / "scripts"
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(text, encoding="utf-8")
        (folder / "helper.py").write_text("width = 4\n", encoding="utf-8")
        return tmp_path / name

    return create


RUN = Run("here", "scripts/train.py", args=("5",))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The unchanged script's outcome, with what varies from run to run taken out."""
    tree = tmp_path_factory.mktemp("reference")
    folder = tree / "here" / "scripts"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(textwrap.dedent(TRAIN), encoding="utf-8")
    (folder / "helper.py").write_text("width = 4\n", encoding="utf-8")
    return stable_output(execute(tree, RUN), execute(tree, RUN))


@pytest.mark.usefixtures("in_processes_of_their_own")
def test_a_run_is_recorded_and_repeats_itself(project: Project) -> None:
    tree = project()
    first, second = execute(tree, RUN), execute(tree, RUN)
    assert (first.status, first.steps, len(first.losses), first.optimizers) == ("finished", 5, 5, 1)
    assert first.output != second.output  # the time
    stable = stable_output(first, second)
    assert stable.output[-1] == ""
    assert stable.output[0].startswith("loss ")
    assert str(compare(stable, second)) == "equal"


def test_the_script_stops_after_enough_steps(project: Project) -> None:
    outcome = execute(project(), replace(RUN, stop_after=3))
    assert (outcome.status, outcome.steps, len(outcome.output)) == ("stopped", 3, 2)


STEP = "optimizer.step()\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("lr=0.1", "lr=0.1001", "loss 1 of 5", id="another update"),
        pytest.param("momentum=0.9", "momentum=0.9, nesterov=False", "equal", id="the same, said otherwise"),
        pytest.param('print(f"at', 'model.eval(); print(f"at', "equal", id="after the last step"),
        pytest.param("torch.randn(8, 3)", "torch.rand(8, 3)", "loss 0 of 5", id="other data"),
        pytest.param(STEP, f"model.layers[1].running_mean.add_(1); {STEP}", "parameters", id="a buffer"),
        pytest.param(STEP, "optimizer.step(); epoch < 4 or torch.rand(1)\n", "random state", id="a random draw"),
        pytest.param("range(epochs)", "range(epochs - 1)", "4 steps for 5", id="a step less"),
        pytest.param('"loss {', '"Loss {', "printed line 1", id="other output"),
        pytest.param("main(int", "raise ValueError('no'); main(int", "failed ValueError: no", id="an error"),
    ],
)
def test_a_difference_is_seen(project: Project, reference: Outcome, old: str, new: str, expected: str) -> None:
    difference = str(compare(reference, execute(project(replaced=(old, new)), RUN)))
    assert expected in difference
    assert (expected == "equal") == (difference == "equal")


def test_a_scaled_loss_is_recorded_without_its_scale(project: Project) -> None:
    scaled = """
        import torch
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale((weight * 3).sum()).backward()
        scaler.step(optimizer)
    """
    outcome = execute(project(scaled), RUN)
    assert outcome.losses == (float(3).hex(),)
    assert outcome.steps == 1


def test_a_script_without_optimizer_is_stopped_by_its_backward_passes(project: Project) -> None:
    by_hand = """
        import torch
        layer = torch.nn.Linear(2, 1)
        while True:
            layer.zero_grad()
            layer(torch.ones(1, 2)).sum().backward()
            for p in layer.parameters():
                p.data.add_(p.grad, alpha=-0.1)
    """
    outcome = execute(project(by_hand), replace(RUN, count="backward", stop_after=4))
    assert (outcome.status, outcome.steps, len(outcome.losses)) == ("stopped", 0, 4)
    other = execute(
        project(by_hand, "other", ("alpha=-0.1", "alpha=-0.2")), replace(RUN, count="backward", stop_after=4)
    )
    assert outcome.state != other.state


def test_inputs_and_preparing_commands_come_before_the_run(project: Project) -> None:
    reader = """
        import sys
        from pathlib import Path
        if len(sys.argv) > 1 and sys.argv[1] == "prepare":
            Path("made").write_text("here")
        else:
            print(Path("made").read_text(), len(Path("words.txt").read_text().splitlines()))
    """
    run = replace(
        RUN,
        args=(),
        inputs=(Input("text", "scripts/words.txt", {"lines": 7}),),
        before=(("scripts/train.py", "prepare"),),
    )
    assert execute(project(reader), run).output == ("here 8",)


@pytest.mark.usefixtures("in_processes_of_their_own")
def test_a_run_past_its_limit_is_ended(project: Project) -> None:
    outcome = execute(project("import time\ntime.sleep(600)\n"), replace(RUN, timeout=3))
    assert outcome.status == "timeout"


def test_the_original_tree_stays_as_it_was(project: Project) -> None:
    tree = project("from pathlib import Path\nPath('left.txt').write_text('x')\nPath('train.py').unlink()\n")
    execute(tree, RUN)
    assert sorted(path.name for path in (tree / "here" / "scripts").iterdir()) == ["helper.py", "train.py"]


def test_an_outcome_survives_json() -> None:
    outcome = Outcome("failed", "why", ("0x1p+0",), 3, 1, "ab", "cd", 1.5, ("line",))
    assert Outcome.from_json(outcome.to_json()) == outcome


def test_the_manifest_is_complete() -> None:
    content = manifest.load()
    assert all(item.reason for item in content.excluded)
    assert not {run.path_in_tree for run in content.runs} & {item.name for item in content.excluded}


def test_an_unknown_key_of_the_manifest_is_an_error() -> None:
    with pytest.raises(TypeError, match="repositroy"):
        read_run({"repositroy": "here", "path": "x.py"}, {})
