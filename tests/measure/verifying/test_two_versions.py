"""Two versions of a script that really run: what tells them apart, and what does not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autoaccel.measure.verifying import originals
from autoaccel.measure.verifying.originals import Limits
from autoaccel.measure.verifying.report import Verdict, Verification
from tests.measure.verifying.two_versions import Compare, reasons

LONGER = Limits(steps=16, patience=None, at_least=0.0)


TRAIN = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
data = TensorDataset(torch.randn(24, 4), torch.randint(0, 2, (24,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


# -- how they end


def test_scripts_that_end_with_the_same_status_are_compared(compare: Compare) -> None:
    text = TRAIN + "sys.exit(3)\n"
    report = compare(text, ("optimizer.zero_grad()", "model.zero_grad()"))
    assert (report.same, report.complete, report.steps) == (True, True, 6)
    assert reasons(compare(text, ("lr=0.1", "lr=0.2")))[0].startswith("optimizer group 1's lr: 0.2 instead of 0.1")
    assert reasons(compare(text, ("exit(3)", "exit(4)"))) == ["it ends with exit status 4 instead of 3"]
    assert reasons(compare(text, ("exit(3)", "exit(0)"))) == ["it ends with exit status 0 instead of 3"]


# -- what they import

GUARDED = """
import torch
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


def main():
    torch.manual_seed(1)
    model = Net(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 0, 1])).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("width", "same"), [("8", True), ("9", False)])
def test_the_other_version_may_import_from_the_script(compare: Compare, width: str, same: bool) -> None:
    begin, end = GUARDED.index("class Net"), GUARDED.index("def main")
    report = compare(GUARDED, (GUARDED[begin:end], "from train import Net\n\n\n"), ("Net(8)", f"Net({width})"))
    assert (report.same, report.steps) == (same, 6), reasons(report)
    assert not any("it fails" in each for each in reasons(report))


# -- settings


@pytest.mark.parametrize(("decay", "same"), [("0.0", True), ("1e-12", False)])
def test_a_number_is_the_same_as_another_kind_of_number(compare: Compare, decay: str, same: bool) -> None:
    text = TRAIN.replace("lr=0.1", "lr=0.1, weight_decay=0")
    report = compare(text, ("weight_decay=0", f"weight_decay={decay}"))
    assert report.same is same
    assert same or reasons(report)[0].startswith("optimizer group 1's weight_decay: 1e-12 instead of 0")


# -- what is held otherwise

MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"

SCHEDULED = TRAIN.replace("for x, y", "made = torch.optim.lr_scheduler\n{made}for x, y") + "    scheduler.step()\n"
FIRST = "first = made.LambdaLR(optimizer, lambda step: 0.5)\nlater = made.StepLR(optimizer, 2)\n"
SEQUENCE = "scheduler = made.SequentialLR(optimizer, [first, later], [3])\n"
MOVED = """
class Trainer:
    def __init__(self):
        self.scheduler = scheduler

    def step(self):
        self.scheduler.step()


trainer = Trainer()
del scheduler
"""


@pytest.mark.parametrize(("factor", "same"), [("0.5", True), ("0.25", False)])
def test_schedulers_are_told_apart_by_what_they_do(compare: Compare, factor: str, same: bool) -> None:
    text = SCHEDULED.replace("{made}", FIRST + SEQUENCE)
    made = f"def factor(step):\n    return {factor}\n\n\n{FIRST}".replace("lambda step: 0.5", "factor")
    report = compare(text, (FIRST, made), (SEQUENCE, SEQUENCE + MOVED), ("    scheduler.step()", "    trainer.step()"))
    assert report.same is same, reasons(report)
    assert same or reasons(report)[0].startswith("scheduler's _last_lr: [0.025] instead of [0.05]")


def test_models_are_told_apart_by_whether_they_are_trained(compare: Compare) -> None:
    text = TRAIN.replace("model = ", "teacher = nn.Linear(4, 2)\nmodel = ")
    seeded = "torch.manual_seed(1)\n"
    holder = "\n\nclass Holder:\n    pass\n\n\nholder = Holder()\n"
    held = (MADE, f"holder.model = model\n{MADE}")
    assert compare(text, (seeded, seeded + holder), held).same
    other = ("teacher = nn.Linear(4, 2)", "teacher = nn.Linear(4, 2).requires_grad_(False)")
    (why,) = reasons(compare(text, (seeded, seeded + holder), held, other))
    assert why.startswith("model (2).weight's requires_grad: False instead of True")


@pytest.mark.parametrize(("dropped", "same"), [("", True), ("layers[1].eval()\n", False)])
def test_layers_may_be_held_otherwise(compare: Compare, dropped: str, same: bool) -> None:
    held = "body = nn.Linear(4, 8)\nnorm = nn.BatchNorm1d(8)\nhead = nn.Linear(8, 2)\nbody.eval()\n"
    whole = "layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))\nlayers[0].eval()\n"
    line = next(each for each in TRAIN.splitlines(keepends=True) if each.startswith("model = "))
    parameters = "[*body.parameters(), *norm.parameters(), *head.parameters()]"
    text = (
        TRAIN.replace(line, held).replace("model.parameters()", parameters).replace("model(x)", "head(norm(body(x)))")
    )
    report = compare(
        text, (held, whole + dropped), (parameters, "layers.parameters()"), ("head(norm(body(x)))", "layers(x)")
    )
    assert report.same is same, reasons(report)
    assert same or reasons(report)[0].startswith("model (2) is in evaluation mode")


def test_what_a_checkpoint_calls_them_is_compared(compare: Compare, tmp_path: Path) -> None:
    saved = "torch.save({'trained': model.state_dict()}, 'net.pt')\n"
    named = "model = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2))\n"
    line = next(each for each in TRAIN.splitlines(keepends=True) if each.startswith("model = "))
    assert compare(TRAIN, (line, named)).same
    folder = str(tmp_path.resolve())
    (why,) = reasons(compare(TRAIN + saved, (line, named), protected=(folder,)))
    assert why.startswith("net.pt: `trained.0.weight: ")


# -- what goes together only


def test_hunks_that_fail_without_one_another_are_not_to_blame(compare: Compare) -> None:
    text = TRAIN.replace("optimizer = ", "def forward(x):\n    return model(x)\n\n\noptimizer = ")
    text = text.replace(
        "    loss = nn.functional.cross_entropy(model(x), y)",
        "    out = forward(x)\n    # its loss\n    loss = F(out, y)",
    )
    text = text.replace("import sys\n", "import sys\nfrom torch.nn.functional import cross_entropy as F\n")
    report = compare(
        text,
        ("return model(x)", "return model(x), 0.0"),
        ("out = forward(x)", "out, _ = forward(x)"),
        ("lr=0.1", "lr=0.2"),
    )
    (why,) = reasons(report)
    assert why.startswith("optimizer group 1's lr: 0.2 instead of 0.1")


def test_hunks_that_only_round_together_are_no_difference(compare: Compare) -> None:
    weights = "weights = torch.full((4, 4), 0.3)\n"
    text = TRAIN.replace("for x, y", f"{weights}for x, y").replace("model(x)", "model(x @ weights)")
    scale = ("x @ weights", "(x * 3) @ weights")
    assert compare(text, ("0.3)", "0.1)"), scale).same
    assert not compare(text, scale).same


def test_numbers_that_optimizers_and_schedulers_keep_may_be_rounded(compare: Compare) -> None:
    begin = TRAIN.index("optimizer = ")
    steps = """
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


        def closure():
            optimizer.zero_grad()
            loss = (model(data.tensors[0]) * scale).square().mean()
            loss.backward()
            return loss


        scale = torch.linspace(0.1, 0.7, 2)
        for step in range(4):
            scheduler.step(optimizer.step(closure).item())
    """
    text = TRAIN[:begin] + textwrap.dedent(steps)
    square = ("* scale).square().mean()", "* scale * 3).square().sum(0).sum() / 432")
    report = compare(text, square)
    assert report.same
    assert report.outcomes[0].reason == "the same but for rounding"
    assert not compare(text, square, ("linspace(0.1, 0.7", "linspace(0.1, 0.6999")).same


def test_batches_may_be_put_together_otherwise(compare: Compare) -> None:
    collate = "def collate(rows):\n    x, y = zip(*rows)\n    return torch.stack(x), torch.stack(y)\n\n\n"
    text = TRAIN.replace("loader = DataLoader(data,", f"{collate}loader = DataLoader(data, collate_fn=collate,")
    column = ("return torch.stack(x), torch.stack(y)", "return torch.stack(x), torch.stack(y)[:, None]")
    report = compare(text, column, ("model(x), y)", "model(x), y[:, 0])"))
    assert report.same
    assert any("batch 1 is another one" in each.reason for each in report.outcomes)
    assert not compare(text, column, ("model(x), y)", "model(x), y[:, 0].flip(0))")).same


def test_what_was_moved_is_not_to_blame(compare: Compare) -> None:
    seed = "torch.manual_seed(1)\n"
    text = TRAIN.replace(seed, f"torch.set_num_threads(1)\n{seed}")
    other = "torch.set_num_threads(1)\nwidth = 8\n"
    (why,) = reasons(
        compare(
            text, (f"torch.set_num_threads(1)\n{seed}", other), ("model = ", f"{seed}model = "), ("lr=0.1", "lr=0.2")
        )
    )
    assert why.startswith("optimizer group 1's lr: 0.2 instead of 0.1")


# -- what they wrap

WRAPPED = """
class Wrapped(torch.optim.Optimizer):
    def __init__(self, optimizer):
        self.optimizer = optimizer

    param_groups = property(lambda self: self.optimizer.param_groups)

    def step(self, closure=None):
        self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


"""


@pytest.mark.parametrize(("lr", "same"), [("0.1", True), ("0.2", False)])
def test_an_optimizer_may_be_wrapped(compare: Compare, lr: str, same: bool) -> None:
    made = MADE.replace("= ", "= Wrapped(", 1).replace("0.1", lr) + ")"
    report = compare(TRAIN, ("torch.manual_seed(1)\n", f"{WRAPPED}torch.manual_seed(1)\n"), (MADE, made))
    assert report.same is same
    assert same or reasons(report)[0].startswith("optimizer group 1's lr: 0.2 instead of 0.1")


@pytest.mark.parametrize(("momentum", "same"), [("0.1", True), ("0.2", False)])
def test_a_library_may_wrap_the_model(compare: Compare, momentum: str, same: bool) -> None:
    text = TRAIN.replace("nn.ReLU()", "nn.BatchNorm1d(8, momentum=0.1)")
    line = next(each for each in text.splitlines() if each.startswith("model = "))
    other = line.replace("= ", "= nn.DataParallel(", 1).replace("momentum=0.1", f"momentum={momentum}") + ")"
    report = compare(text, (line, other))
    assert report.same is same
    assert same or "model.1.running_mean" in reasons(report)[0]


# -- what they write to stderr

SAYS = """
import warnings
for step in range(3):
    print(f"step {step}: {loss.item():.3f}", file=sys.stderr)
warnings.warn("it is late")
torch.nn.functional.mse_loss(torch.zeros(2), torch.zeros(1))
"""


def test_stderr_is_compared_on_request(compare: Compare) -> None:
    other = ("{loss.item():.3f}", "{loss.item():.2f}")
    assert compare(TRAIN + SAYS, other).same
    (why,) = reasons(compare(TRAIN + SAYS, other, stderr=True))
    assert why.startswith("stderr: written 'step 0: 0.")


def test_where_a_warning_is_given_is_no_matter(compare: Compare) -> None:
    moved = ("for step in range(3)", "steps = 3\n\nfor step in range(steps)")
    assert compare(TRAIN + SAYS, moved, stderr=True).same
    assert reasons(compare(TRAIN + SAYS, ("late", "later"), stderr=True)) == [
        "stderr: written 'train.py: UserWarning: it is later' instead of 'train.py: UserWarning: it is late'"
    ]


# -- what never ran

NEVER = """
def report(loss):
    print(loss)


for step in range(3):
    if step > 5:
        report(loss)
    else:
        loss = loss * 1
"""


def never_ran(report: Verification) -> list[tuple[str, ...]]:
    assert report.same
    return [each.never_ran for each in report.outcomes]


def test_changed_lines_that_lead_to_what_never_ran_are_named(compare: Compare) -> None:
    start = TRAIN.count("\n") + 1
    text = TRAIN + NEVER
    report = compare(text, ("step > 5", "step > 7"))
    assert len(report.trials) == 3
    assert never_ran(report) == [(f"train.py:{start + 6}",)]
    assert never_ran(compare(text, ("(loss):", "(loss, of=0):"))) == [(f"train.py:{start + 1}",)]
    assert never_ran(compare(text, ("* 1\n", "* 1\n    if step > 6:\n        loss = 0\n        break\n"))) == [
        (f"other.py:{start + 11}-{start + 12}",)
    ]
    assert never_ran(compare(text, ("loss * 1", "1 * loss"), ("import sys\n", "# what it needs\nimport sys\n"))) == [()]
    assert never_ran(compare(text, ("range(3)", "range(4)"))) == [()]


# -- what comes of a change only at the end of the script

EPOCHS = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model = nn.Linear(4, 2)
data = TensorDataset(torch.randn(24, 4), torch.randint(0, 2, (24,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = []
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    rows.append(f"{epoch},{loss.item():.4f}")
print(f"took {time.perf_counter():.9f} s")
with open("rows.csv", "w") as file:
    file.write("\\n".join(rows))
"""
UNTIL_LONG = Limits(steps=8, at_least=0.0)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{epoch},{loss.item():.4f}", "{loss.item():.4f},{epoch}", "rows.csv: written "),
        ("        optimizer.step()", "        if epoch < 3:\n            optimizer.step()", "9 steps instead of 12"),
    ],
)
def test_what_shows_only_at_the_end(compare: Compare, tmp_path: Path, old: str, new: str, why: str) -> None:
    """Eight steps reach each changed line, and neither the file nor the last epoch."""
    found = reasons(compare(EPOCHS, (old, new), limits=UNTIL_LONG, protected=(str(tmp_path.resolve()),)))
    assert found[0].startswith(why)


def test_another_style_is_the_same_to_the_end(compare: Compare) -> None:
    report = compare(EPOCHS, ("rows.append(", "rows.extend(["), ('.4f}")', '.4f}"])'), limits=UNTIL_LONG)
    assert report.same, reasons(report)
    assert [each.name for each in report.trials] == [
        "original",
        "original again",
        "original, to its end",
        "original, to its end, again",
        "rewritten",
        "rewritten, to its end",
    ]
    assert not report.notes


def test_a_short_script_runs_whole(compare: Compare) -> None:
    """With passes cut short the best figure may be the last one, too."""
    report = compare(EPOCHS, ("rows.append(", "rows.extend(["), ('.4f}")', '.4f}"])'), limits=Limits(steps=8))
    assert (report.same, report.complete, report.steps, len(report.trials)) == (True, True, 24, 3)


def test_a_long_script_does_not(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "_WHOLE", 0.5)
    monkeypatch.setattr(originals, "_LONGER", 0.1)
    text = EPOCHS.replace("range(4)", "range(10**6)")
    report = compare(text, ("rows.append(", "rows.extend(["), ('.4f}")', '.4f}"])'), limits=Limits(8, at_least=1e-3))
    assert (report.same, report.complete, report.steps) == (True, False, 8)
    assert report.trials[0].steps > 8
    assert report.trials[1].name == "original, 8 steps"


def test_an_end_that_no_run_comes_to_is_said(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "_LONGER", 0.1)
    text = EPOCHS.replace("range(4)", "range(10**6)")
    report = compare(text, ("rows.append(", "rows.extend(["), ('.4f}")', '.4f}"])'), limits=UNTIL_LONG)
    assert report.same
    assert report.notes == ("no run came to the end of the script, so what it does there was not compared",)


# -- constant tensors that are kept

MASKED = """
import torch
from torch import nn

torch.manual_seed(1)


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        keep = torch.ones(6, 6).tril()
        return (self.layer(x) * keep).sum(1)


model = Causal()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(6, 6)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
USES_KEPT = ("keep = torch.ones(6, 6).tril()", "keep = self.keep")


def kept_as(mask: str, persistent: str = ", persistent=False") -> tuple[str, str]:
    layer = "self.layer = nn.Linear(6, 6)"
    return layer, f'{layer}\n        self.register_buffer("keep", {mask}{persistent})'


def test_a_constant_may_be_kept_where_no_checkpoint_holds_it(compare: Compare) -> None:
    report = compare(MASKED, kept_as("torch.ones(6, 6).tril()"), USES_KEPT)
    assert report.same, reasons(report)


def test_what_is_kept_must_be_the_constant(compare: Compare) -> None:
    assert "loss of step 1" in reasons(compare(MASKED, kept_as("torch.ones(6, 6).triu()"), USES_KEPT))[0]


def test_a_buffer_of_checkpoints_is_a_difference(compare: Compare) -> None:
    found = reasons(compare(MASKED, kept_as("torch.ones(6, 6).tril()", ""), USES_KEPT))
    assert found[0] == "buffer model.keep, which the original does not have"


# -- rounding, and what is none

VAE = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
encoder, decoder = nn.Linear(16, 8), nn.Linear(4, 16)
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
x = (torch.rand(64, 16) > 0.5).float()
held_out = DataLoader(TensorDataset(torch.rand(16, 16), torch.arange(16)), batch_size=4)
for step in range(6):
    mu, log_var = encoder(x).chunk(2, dim=1)
    z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_var)
    reconstruction = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
    loss = reconstruction + divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    error = 0.0
    for inputs, _ in held_out:
        error += F.mse_loss(decoder(encoder(inputs)[:, :4]), inputs, reduction="sum").item()
    print(f"error {error:.3f}")
"""
RECONSTRUCTION = 'F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")'
DIVERGENCE = "-0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DIVERGENCE, "0.5 * (log_var.exp().sum() + mu.square().sum() - log_var.sum() - log_var.numel())"),
        (RECONSTRUCTION, "(F.softplus(decoder(z)) - x * decoder(z)).sum()"),
    ],
)
def test_another_style_is_the_same_but_for_rounding(compare: Compare, old: str, new: str) -> None:
    report = compare(VAE, (old, new))
    assert [each.reason for each in report.outcomes] == ["the same but for rounding"]
    assert len(report.trials) <= 8


@pytest.mark.parametrize("factor", ["1.001", "0.999"])
def test_a_weight_that_is_off_is_no_rounding(compare: Compare, factor: str) -> None:
    """Of a term so small that the losses differ in the last digits at first."""
    text = VAE.replace("decoder(z), x", "decoder(z), x.repeat(1, 1)").replace(
        "reconstruction + div", "reconstruction * 9 + div"
    )
    (why,) = reasons(compare(text, ("+ divergence", f"+ {factor} * divergence")))
    assert why.startswith("loss of step ")


def test_another_epsilon_is_no_rounding(compare: Compare) -> None:
    text = VAE.replace("decoder(z), x", "F.layer_norm(decoder(z), (16,), eps=1e-6), x")
    assert reasons(compare(text, ("eps=1e-6", "eps=2e-6")))


def test_where_float64_fails_the_trajectory_tells(compare: Compare) -> None:
    text = VAE + "assert loss.dtype == torch.float32\n"
    report = compare(text, (DIVERGENCE, "0.5 * (log_var.exp().sum() + mu.square().sum() - (log_var + 1).sum())"))
    assert [each.reason for each in report.outcomes] == ["the same but for rounding"]
    assert reasons(compare(text, ("+ divergence", "+ 1.001 * divergence")))


# -- the same in other portions


def test_one_backward_of_a_sum(compare: Compare) -> None:
    report = compare(
        VAE, ("    loss.backward()\n", "    reconstruction.backward(retain_graph=True)\n    divergence.backward()\n")
    )
    (said,) = report.outcomes
    assert said.reason == "the same but for rounding; 2 backwards a step instead of 1, of the same sum of losses"
    assert said.verdict is Verdict.PASSED
    (why,) = reasons(
        compare(
            VAE,
            (
                "    loss.backward()\n",
                "    reconstruction.backward(retain_graph=True)\n    reconstruction.backward()\n",
            ),
        )
    )
    assert why.startswith("12 backwards instead of 6")


def test_an_evaluation_in_other_batches(compare: Compare) -> None:
    other = ("batch_size=4", "batch_size=16")
    (said,) = compare(VAE, other, samples=True).outcomes
    assert said.reason == (
        "pass 1 over loader 1: the same samples in 1 batch instead of 4, and nothing was trained on them"
    )
    assert said.verdict is Verdict.PASSED
    figure = VAE.replace("error += ", "error = ")
    (why,) = reasons(compare(figure, other, samples=True))
    assert why.startswith("pass 1 over loader 1: the same samples in 1 batch instead of 4, ")
    (why,) = reasons(
        compare(VAE, ("torch.arange(16)), batch_size=4", "torch.arange(16) * 2), batch_size=16"), samples=True)
    )
    assert why.startswith("1 batches per pass of loader 1 instead of 4")


def test_training_in_other_batches_is_another_training(compare: Compare) -> None:
    (why,) = reasons(compare(TRAIN, ("batch_size=4", "batch_size=8"), samples=True))
    assert why.startswith("3 batches per pass of loader 1 instead of 6")


# -- gradients that overflow

SCALED = """
import torch
from torch import nn
from torch.amp import GradScaler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
data = TensorDataset(torch.randn(48, 4), torch.randint(0, 2, (48,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
use_amp = torch.cuda.is_available()
scaler = GradScaler("cuda", enabled=use_amp)
for x, y in loader:
    with torch.autocast("cuda", enabled=use_amp):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("scaler.step(optimizer)", "optimizer.step()", "optimizer group 1's lr: 0.1 instead of 0.01"),
        ("    scaler.update()\n", "", "it fails: RuntimeError: unscale_() is being called after step()"),
        ("    if scaler.get_scale() >= before:\n        scheduler.step()", "    scheduler.step()", "scheduler"),
        (
            'GradScaler("cuda", ',
            'GradScaler("cuda", backoff_factor=0.25, ',
            "gradient scaler 1's scale: 16384 instead of",
        ),
    ],
)
def test_what_is_done_otherwise_when_gradients_overflow(compare: Compare, old: str, new: str, why: str) -> None:
    (said,) = reasons(compare(SCALED, (old, new)))
    assert said.startswith(why)
    assert ", where gradients overflow" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scaler.step(optimizer)", "scaler.step(optimizer=optimizer)"),
        ("GradScaler(", "torch.amp.GradScaler("),
        ("before = scaler.get_scale()", "before = scaler.state_dict().get('scale', 1.0)"),
        ("scaler.scale(loss).backward()", "scaler.scale(loss * 1.0).backward()"),
    ],
)
def test_what_is_done_alike_when_gradients_overflow(compare: Compare, old: str, new: str) -> None:
    report = compare(SCALED, (old, new))
    assert report.same, reasons(report)
    assert any("overflow" in each.name for each in report.trials)


def test_a_scaler_of_the_runtime_has_scales_of_its_own(compare: Compare) -> None:
    text = SCALED.replace("    if scaler.get_scale() >= before:\n        scheduler.step()\n", "")
    of_the_runtime = "__import__('autoaccel.runtime').runtime.grad_scaler(optimizer)"
    report = compare(text, ('GradScaler("cuda", enabled=use_amp)', of_the_runtime))
    assert report.same, reasons(report)
    assert "the same" in [each.result for each in report.trials if "gradients overflow" in each.name]


def test_a_script_without_a_scaler_has_no_overflow_to_leave_out(compare: Compare) -> None:
    scaled = (
        ("loss.backward()", "scaler.scale(loss).backward()"),
        ("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()"),
    )
    report = compare(TRAIN, ("loader = D", 'scaler = torch.amp.GradScaler("cuda")\nloader = D'), *scaled)
    assert report.same
    assert not any("overflow" in each.name for each in report.trials)


TWO = """
import torch
from torch import nn

torch.manual_seed(1)
first, second = nn.Linear(4, 2), nn.Linear(2, 1)
one = torch.optim.Adam(first.parameters(), lr=0.01)
two = torch.optim.Adam(second.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda")
x = torch.randn(16, 4)
for step in range(20):
    one.zero_grad()
    scaler.scale(first(x).square().mean()).backward()
    scaler.step(one)
    two.zero_grad()
    scaler.scale((second(first(x).detach()) - 1).square().mean()).backward()
    scaler.step(two)
    scaler.update()
"""


@pytest.mark.parametrize("name", ["one", "two"])
def test_each_of_several_optimizers_has_its_overflow(compare: Compare, name: str) -> None:
    (why,) = reasons(compare(TWO, (f"scaler.step({name})", f"{name}.step()"), limits=LONGER))
    assert "left out because gradients overflowed" in why or "nan" in why


def test_evaluations_that_were_cut_short_in_other_batches_tell_nothing(compare: Compare) -> None:
    """In the place of an evaluation of twelve samples the other version would have one of forty-eight."""
    text = TRAIN.replace("batch_size=4, shuffle=True", "batch_size=2, shuffle=True")
    text += """
with torch.no_grad():
    right = 0
    for x, y in DataLoader(data, batch_size=4):
        right += (model(x).argmax(1) == y).sum().item()
    print(right)
    print("that is", right / 24)
"""
    report = compare(text, ("data, batch_size=4", "data, batch_size=8"), ('"that is"', '"these are"'), samples=True)
    assert report.same, reasons(report)
    assert {each.verdict for each in report.outcomes} == {Verdict.NOT_REACHED}
    assert report.notes[-1].startswith("what comes after passes in batches of another size was not compared")
    (why,) = reasons(compare(text, ('"that is"', '"these are"'), samples=True))
    assert why.startswith("printed 'these are")
