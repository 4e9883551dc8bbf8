"""Training steps: what belongs together, where regions and scaling go, and what forbids them."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.pytorch import device_expressions
from autoaccel.pytorch.step_effects import Effect, effects
from autoaccel.pytorch.training_steps import TrainingStep, training_steps
from autoaccel_codemods.autocast import gradient_scaling, regions
from autoaccel_codemods.autocast.step_problems import problems

HEAD = """\
import torch
from torch import nn
model = nn.Linear(8, 2).cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = 6  # the line of the loop below


def script(body: str, head: str = HEAD) -> Script:
    return load(head + textwrap.dedent(body).lstrip("\n"))


def only(found: Script) -> TrainingStep:
    [step] = training_steps(found)
    return step


def reasons(found: Script) -> list[str]:
    return [reason for step in training_steps(found) for _, reason in problems(step)]


def lines(found: Script) -> list[tuple[int, int]]:
    plan = regions.place_regions(found, only(found))
    assert not plan.problems
    return [(each.first.lineno, each.last.lineno) for each in plan.regions if each.first and each.last]


# -- components


def test_two_independent_functions_are_two_steps() -> None:
    found = script("""
        def first(net: nn.Module, opt: torch.optim.Adam, x):
            net(x).sum().backward()
            opt.step()

        def second(net: nn.Module, opt: torch.optim.Adam, x):
            net(x).mean().backward()
            opt.step()
    """)
    assert len(training_steps(found)) == 2


def test_one_optimizer_joins_the_functions_that_step_it() -> None:
    found = script("""
        def first(x):
            model(x).sum().backward()
            optimizer.step()

        def second(x):
            model(x).mean().backward()
            optimizer.step()
    """)
    assert len(only(found).backwards) == 2


SOLVING = """\
def solve(x):
    solver = torch.optim.LBFGS([x])
    def closure():
        solver.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss
    solver.step(closure)

x = torch.ones(3, requires_grad=True)
BEFORE
for _ in range(3):
    INSIDE
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "inside", "count"),
    [("solve(x)", "pass", 2), ("for _ in range(3): solve(x)", "pass", 2), ("pass", "solve(x)", 1)],
)
def test_what_trains_by_a_closure_is_a_step_of_its_own_outside_of_the_loop(
    before: str, inside: str, count: int
) -> None:
    found = script(SOLVING.replace("BEFORE", before).replace("INSIDE", inside))
    assert len(training_steps(found)) == count


def test_methods_of_a_class_are_one_step() -> None:
    found = script("""
        class Trainer:
            def backward(self):
                self.loss.backward()

            def update(self, x):
                self.loss = model(x).sum()
                self.backward()
                optimizer.step()
    """)
    step = only(found)
    assert [len(step.backwards), len(step.optimizer_steps), len(step.scopes)] == [1, 1, 2]


def test_a_step_that_goes_on_in_another_file_is_a_problem(tmp_path: Path) -> None:
    text = HEAD + "from update import update\nmodel(x).sum().backward()\nupdate(optimizer)\n"
    (tmp_path / "update.py").write_text("def update(optimizer):\n    extra(x).backward()\n    optimizer.step()\n")
    found = load(text, tmp_path / "train.py", Project())
    assert "a part of the training step is in update.py" in reasons(found)


def test_an_optimizer_that_steps_in_another_file_gets_no_scaler(tmp_path: Path) -> None:
    text = HEAD + "from update import update\nfor x in loader:\n    model(x).sum().backward()\n    update(optimizer)\n"
    (tmp_path / "update.py").write_text("def update(optimizer):\n    optimizer.step()\n")
    found = load(text, tmp_path / "train.py", Project())
    assert reasons(found) == []
    [(_, obstacle)] = gradient_scaling.scale_gradients(found, only(found)).obstacles
    assert obstacle == "the optimizer steps in a function or a class of its own"


def test_a_loop_over_optimizers_is_the_unit_of_its_step() -> None:
    found = script("""
        both = [optimizer, torch.optim.Adam(model.parameters())]
        for x in loader:
            model(x).sum().backward()
            for each in both:
                each.step()
    """)
    [step] = only(found).optimizer_steps
    assert isinstance(step.unit, ast.For)
    assert step.optimizer is not None
    assert found.source(step.optimizer) == "both"


def test_environments_and_schedulers_are_no_optimizers() -> None:
    found = script("""
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        env.step(action)
        scheduler.step()
    """)
    assert training_steps(found) == ()


# -- problems


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("model(x).sum().backward(create_graph=True)\noptimizer.step()", "create_graph"),
        ("loss = model(x).sum()\nloss.backward()", "no optimizer steps"),
        ("optimizer.step()", "no backward pass"),
        ("model(x).sum().backward()\noptimizer.step(closure)", "closure"),
        ("f = lambda x: model(x).sum().backward()\noptimizer.step()", "lambda"),
        ("model.half()\nmodel(x).sum().backward()\noptimizer.step()", ".half()"),
        ("model.to(torch.float64)\nmodel(x).sum().backward()\noptimizer.step()", "another precision"),
        ("p.register_hook(print)\nmodel(x).sum().backward()\noptimizer.step()", "hooks"),
        ("with torch.autocast('cuda'):\n    loss = model(x).sum()\nloss.backward()\noptimizer.step()", "of its own"),
        ("import accelerate\nmodel(x).sum().backward()\noptimizer.step()", "Accelerate"),
        ("import opacus\nmodel(x).sum().backward()\noptimizer.step()", "opacus"),
        ("g = torch.cuda.CUDAGraph()\nmodel(x).sum().backward()\noptimizer.step()", "captured"),
        ("@torch.compile\ndef f(x):\n    model(x).sum().backward()\n    optimizer.step()", "compiled"),
        ("import gym\nmodel(x).sum().backward()\noptimizer.step()", "learns from an environment"),
    ],
)
def test_problems(body: str, reason: str) -> None:
    found = reasons(script(body))
    assert any(reason in each for each in found), found


def test_a_plain_step_has_no_problem() -> None:
    found = script("""
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """)
    step = only(found)
    assert tuple(problems(step)) == ()
    assert not step.converted
    assert [found.source(call) for call in step.zero_grads] == ["optimizer.zero_grad()"]
    assert [found.source(call) for call in step.forwards] == ["model(x)"]


# -- regions


def test_a_region_reaches_from_the_forward_to_the_loss() -> None:
    found = script("""
        for x, y in loader:
            x = x.cuda()
            output = model(x)
            print(output.shape)
            loss = criterion(output, y)
            print(loss.item())
            loss.backward()
            optimizer.step()
    """)
    assert lines(found) == [(LOOP + 2, LOOP + 4)]


def test_what_runs_once_before_the_loop_is_left_alone() -> None:
    found = script("""
        for epoch in range(2):
            for x, y in loader:
                loss = criterion(model(x), y) + anchor
                loss.backward()
                optimizer.step()
    """)
    assert lines(found) == [(LOOP + 2, LOOP + 2)]
    once = script("""
        target = model(first).detach()
        for x, y in loader:
            loss = (model(x) - target).abs().mean()
            loss.backward()
            optimizer.step()
    """)
    assert lines(once) == [(LOOP + 2, LOOP + 2)]


def test_backwards_in_a_row_get_a_region_each() -> None:
    found = script("""
        for x, y in loader:
            first = criterion(model(x), y)
            first.backward()
            second = criterion(model(y), x)
            second.backward()
            optimizer.step()
    """)
    assert lines(found) == [(LOOP + 1, LOOP + 1), (LOOP + 3, LOOP + 3)]


def test_a_forward_without_gradients_gets_a_region_of_its_own() -> None:
    found = script("""
        for x, y in loader:
            with torch.no_grad():
                before = model(x)
            loss = (model(x) - before).pow(2).mean()
            loss.backward()
            optimizer.step()
    """)
    assert lines(found) == [(LOOP + 1, LOOP + 1), (LOOP + 3, LOOP + 3)]  # the lines of `with` and `loss`


def test_a_region_goes_inside_a_loop_over_a_loader() -> None:
    found = script("""
        from torch.utils.data import DataLoader
        loader = DataLoader(data)
        for epoch in range(3):
            total = 0
            for x, y in loader:
                total = total + criterion(model(x), y)
            total.backward()
            optimizer.step()
    """)
    assert lines(found) == [(LOOP + 5, LOOP + 5)]


def test_the_forward_may_be_in_a_caller() -> None:
    found = script("""
        def update(loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        for x, y in loader:
            loss = criterion(model(x), y)
            update(loss)
    """)
    assert lines(found) == [(LOOP + 6, LOOP + 6)]


def test_hoisted_forwards_of_a_binary_cross_entropy_are_named_after_their_losses() -> None:
    found = script("""
        bce = nn.BCELoss()
        for x, y in loader:
            real_loss = bce(model(x), y)
            loss = real_loss + bce(model(y), x)
            loss.backward()
            optimizer.step()
    """)
    plan = regions.place_regions(found, only(found))
    hoists = [(hoist.name, found.source(hoist.expression)) for each in plan.regions for hoist in each.hoists]
    assert hoists == [("real_output", "model(x)"), ("output", "model(y)")]
    assert not plan.problems


# -- scaling


@pytest.mark.parametrize(
    ("body", "updates"),
    [
        ("a.backward()\noptimizer.step()\nb.backward()\nother.step()", [9]),
        ("a.backward()\noptimizer.step()\nif c:\n    b.backward()\n    other.step()", [7, 10]),
        ("a.backward()\noptimizer.step()\nif c: continue\nb.backward()\nother.step()", [7, 10]),
        ("a.backward()\noptimizer.step()\nif c:\n    b.backward()\n    other.step()\noptimizer.step()", [11]),
        ("if c:\n    a.backward()\n    optimizer.step()\n    continue\nb.backward()\noptimizer.step()", [8, 11]),
    ],
)
def test_updates(body: str, updates: list[int]) -> None:
    text = "while True:\n" + textwrap.indent(body, "    ")
    found = load(HEAD.replace("criterion = nn.CrossEntropyLoss()\n", "") + "other = torch.optim.SGD(m, lr=1)\n" + text)
    step = only(found)
    shift = -1  # the loop is on line 6
    assert [each.lineno + shift for each in gradient_scaling.scale_gradients(found, step).updates] == updates


def test_unscale_once_before_the_first_read() -> None:
    found = script("""
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            norm = sum(p.grad.norm() for p in model.parameters())
            optimizer.step()
    """)
    [unscale] = gradient_scaling.scale_gradients(found, only(found)).unscales
    assert unscale.before.lineno == LOOP + 3


def test_gradients_read_after_the_step_are_unscaled_already() -> None:
    found = script("""
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            log(model.weight.grad)
    """)
    plan = gradient_scaling.scale_gradients(found, only(found))
    assert not plan.unscales
    assert not plan.problems


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ("p.grad.zero_()", False),
        ("p.grad.data.zero_()", False),
        ("p.grad = None", False),
        ("if p.grad is not None: pass", False),
        ("q = p.grad.clone()", True),
        ("p.data.add_(p.grad, alpha=-lr)", True),
        ("torch.nn.utils.clip_grad_value_(ps, 1)", True),
    ],
)
def test_reads_of_gradients(statement: str, reads: bool) -> None:
    found = load(f"import torch\n{statement}\n")
    assert (Effect.GRADIENTS in effects(found, found.tree)) is reads


def test_a_scaler_stands_beside_its_optimizer() -> None:
    found = script("""
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    """)
    [creation] = gradient_scaling.scale_gradients(found, only(found)).creations
    assert (creation.statement.lineno, creation.after, creation.optimizers) == (5, True, ("optimizer",))


def test_a_scaler_of_a_parameter_stands_before_the_outermost_loop() -> None:
    found = script("""
        def fit(model: nn.Module, opt: torch.optim.Optimizer, loader):
            model.train()
            for epoch in range(3):
                for x in loader:
                    model(x).sum().backward()
                    opt.step()
    """)
    [creation] = gradient_scaling.scale_gradients(found, only(found)).creations
    assert (creation.statement.lineno, creation.after, creation.optimizers) == (LOOP + 2, False, ("opt",))


def test_backward_and_step_in_functions_with_no_common_name_are_a_problem() -> None:
    found = script("""
        def go_back(net: nn.Module, x):
            net(x).sum().backward()

        def step(opt: torch.optim.Optimizer):
            opt.step()

        def train(net, opt, x):
            go_back(net, x)
            step(opt)
            opt.step()
    """)
    assert gradient_scaling.scale_gradients(found, only(found)).problems


# -- devices


def test_the_device_is_said_in_words_that_are_bound_there() -> None:
    found = load(
        textwrap.dedent("""
            import torch
            device = torch.device("cuda")

            def train(model, x, dev):
                x = x.to(dev)
                y = model(x)

            def other(model, x):
                y = model(x.to(device))

            def third(device, model, x):
                y = model(x)

            def fourth(model, x):
                device = None
                y = model(x)
        """)
    )
    places = [
        statement
        for function in found.find(ast.FunctionDef)
        for statement in function.body
        if isinstance(statement, ast.Assign) and found.source(statement).startswith("y")
    ]
    assert [device_expressions.visible_device(found, place) for place in places] == ["dev", "device", "device", None]


def test_functions_on_one_line_come_in_its_order() -> None:
    named = ", ".join(f"f{number}" for number in range(12))
    made = ", ".join(["lambda: optimizer.step()"] * 12)
    step = only(script(f"{named} = {made}"))
    places = [(scope.lineno, scope.col_offset) for scope in step.scopes if isinstance(scope, ast.Lambda)]
    assert len(places) == 12
    assert places == sorted(places)
