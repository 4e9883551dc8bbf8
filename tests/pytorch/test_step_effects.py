"""What code does to a training step: through the functions that it calls, and where what it calls is not known."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.gradients import is_optimizer_step
from autoaccel.pytorch.step_effects import (
    Effect,
    call_effects,
    calls_in,
    calls_model,
    effects,
    gradient_reads,
    is_sensitive,
    may_run_model,
    reads_gradient,
)

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
net = nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
loss = net(torch.ones(8)).sum()
"""


def last_call(text: str) -> tuple[Script, ast.Call]:
    script = load(f"{HEAD}{text}\n")
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return script, statement.value


# By case: a script, and what its last statement does.
EFFECTS = {
    "nothing": ("print(1)", Effect.NONE),
    "a backward pass": ("loss.backward()", Effect.BACKWARD),
    "a backward pass with a graph": ("loss.backward(create_graph=True)", Effect.BACKWARD | Effect.DOUBLE),
    "a backward pass with a graph, perhaps": ("loss.backward(create_graph=t)", Effect.BACKWARD | Effect.DOUBLE),
    "a backward pass without a graph": ("loss.backward(create_graph=False)", Effect.BACKWARD),
    "a step": ("optimizer.step()", Effect.STEP),
    "a forward pass": ("net(x)", Effect.FORWARD),
    "a loss of probabilities": ("F.binary_cross_entropy(p, y)", Effect.SENSITIVE),
    "a gradient by hand": ("torch.autograd.grad(loss, x)", Effect.DOUBLE),
    "saved": ("torch.save(net.state_dict(), 'a.pt')", Effect.SAVES),
    "clipped": ("nn.utils.clip_grad_norm_(net.parameters(), 1)", Effect.GRADIENTS),
    "clipped by something unknown": ("fabric.clip_grad_norm_(net)", Effect.GRADIENTS),
    "an optimizer that is handed on, of the name of a phase": ("pruner.before_step(optimizer)", Effect.GRADIENTS),
    "an optimizer that is handed on": ("logger.log(optimizer)", Effect.NONE),
    "handed to a hook by a computed name": ("for hook in hooks: getattr(hook, name)(net)", Effect.LOOKUP),
    "handed to a hook by its name": ("for hook in hooks: getattr(hook, 'step')(net)", Effect.NONE),
    "handed to hooks": ("for hook in hooks: hook(net)", Effect.LOOKUP),
    "handed to a hook of a key": ("hooks['after'](net)", Effect.LOOKUP),
    "handed to a hook of the name of a phase": ("for hook in hooks: hook.after_backward(net)", Effect.LOOKUP),
    "a number that is handed to hooks": ("for hook in hooks: hook(loss.item())", Effect.NONE),
    "handed to functions that are seen": ("def f(m): m.eval()\nfor hook in [f]: hook(net)", Effect.NONE),
    "handed to hooks by a function": (
        "def call(name):\n    for hook in hooks: getattr(hook, name)(net)\ncall('on_step')",
        Effect.LOOKUP,
    ),
    "the gradient": ("print(net.weight.grad)", Effect.GRADIENTS),
    "both branches": ("if t:\n    loss.backward()\nelse:\n    optimizer.step()", Effect.BACKWARD | Effect.STEP),
    "the header of a loop": ("for p in net(x):\n    pass", Effect.FORWARD),
    "an argument": ("print(net(x))", Effect.FORWARD),
    "a function that is only defined": ("def f():\n    loss.backward()", Effect.BACKWARD),
    "a function within a function": ("def f():\n    def g():\n        loss.backward()", Effect.NONE),
    "a lambda that is only made": ("f = lambda: loss.backward()", Effect.NONE),
    "a function that is called": ("def f():\n    loss.backward()\nf()", Effect.BACKWARD),
    "a function that calls another": ("def f():\n    optimizer.step()\ndef g():\n    f()\ng()", Effect.STEP),
    "functions that call each other": (
        "def f(n):\n    loss.backward()\n    g(n)\ndef g(n):\n    optimizer.step()\n    f(n)\ng(1)",
        Effect.BACKWARD | Effect.STEP,
    ),
    "a method": (
        "class A:\n    def f(self):\n        self.g()\n    def g(self):\n        loss.backward()\nA().f()",
        Effect.BACKWARD,
    ),
    "one of two functions": (
        "def f():\n    loss.backward()\ndef g():\n    optimizer.step()\nh = f if t else g\nh()",
        Effect.BACKWARD | Effect.STEP,
    ),
    "a constructor that tries its modules out": ("class A:\n    def __init__(self):\n        net(x)\nA()", Effect.NONE),
    "a constructor that trains": ("class A:\n    def __init__(self):\n        loss.backward()\nA()", Effect.BACKWARD),
    "a generator": ("def f():\n    yield 1", Effect.YIELDS),
    "a generator that is called": ("def f():\n    yield net(x)\nf()", Effect.FORWARD),
}


@pytest.mark.parametrize("case", EFFECTS)
def test_effects(case: str) -> None:
    text, expected = EFFECTS[case]
    script = load(f"{HEAD}{text}\n")
    assert effects(script, script.tree.body[-1]) == expected


def test_effects_of_a_call_are_without_its_arguments() -> None:
    assert call_effects(*last_call("print(net(x))")) == Effect.NONE


def test_calls_of_a_scope_are_its_own() -> None:
    script = load("b(a())\ndef f():\n    c()\n    lambda: d()\n    [e() for _ in x]\n")
    [function] = script.find(ast.FunctionDef)
    found = [[script.source(each.func) for each in calls_in(script, scope)] for scope in (script.tree, function)]
    assert found == [["b", "a"], ["c", "e"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("optimizer.step()", True),
        ("optimizer.step(closure)", True),
        ("scaler.step(optimizer)", True),
        ("scheduler.step()", False),
        ("optimizer.zero_grad()", False),
        ("env.step(action)", False),
        ("args.optim.step()", True),
        ("optimizers['g'].step()", True),
        ("optim_scheduler.step()", False),
        ("optimizer = make()\noptimizer.step()", True),
        ("either = optimizer if t else make()\neither.step()", True),
        ("class Optim:\n    def step(self):\n        optimizer.step()\noptim = Optim()\noptim.step()", False),
        ("for each in (optimizer, torch.optim.Adam(ps)):\n    pass\neach.step()", True),
    ],
)
def test_optimizer_steps(text: str, expected: bool) -> None:
    assert is_optimizer_step(*last_call(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nn.BCELoss()(p, y)", True),
        ("bce = nn.BCELoss()\nbce(p, y)", True),
        ("losses = {'a': nn.BCELoss()}\nlosses['a'](p, y)", True),
        ("either = nn.BCELoss() if t else nn.MSELoss()\neither(p, y)", True),
        ("nn.BCEWithLogitsLoss()(p, y)", False),
        ("F.binary_cross_entropy_with_logits(p, y)", False),
        ("from torch.nn.functional import binary_cross_entropy as bce\nbce(p, y)", True),
        ("torch.binary_cross_entropy(p, y)", True),
    ],
)
def test_sensitive_losses(text: str, expected: bool) -> None:
    assert is_sensitive(*last_call(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("net(x)", True),
        ("net.forward(x)", True),
        ("net.encode(x)", True),
        ("net.train()", False),
        ("net.load_weights(x)", False),
        ("nn.Linear(8, 2)", False),
        ("nn.Linear(8, 2)(x)", True),
        ("nn.MSELoss()(x, y)", False),
        ("F.relu(x)", False),
        ("model = make()\nmodel(x)", True),
        ("self.net(x)", True),
        ("parts.generator(x)", True),
        ("[each for each in generator(x)]\nlog(x)", False),
        ("batches = generator(x)\nfor each in batches:\n    pass\nbatches.close()", False),
        ("either = net if t else make()\neither(x)", True),
        ("thing = make()\nthing(x)", False),
        ("model = make()\nmodel.save(x)", False),
        ("class N(nn.Module):\n    def encode(self, x):\n        return x\nn = N()\nn.encode(x)", True),
        ("class N(nn.Module):\n    def note(self, x):\n        return x\nn = N()\nn.note(x)", False),
    ],
)
def test_direct_forwards(text: str, expected: bool) -> None:
    assert calls_model(*last_call(text)) is expected


# By case: a script, and whether its last call may run a model.
MAY_RUN = {
    "a model": ("net(x)", True),
    "a function that runs one": ("def f(x):\n    return net(x)\nf(x)", True),
    "a function that is handed one": ("from lib import evaluate\nevaluate(net, x)", True),
    "a function of torch that is handed one": ("torch.save(net, x)", False),
    "a function of a library": ("from lib import compute\ncompute(x)", False),
    "an object that a library made": ("from lib import make\nthing = make()\nthing(x)", True),
    "an object that a library made, given numbers alone": ("from lib import make\nthing = make()\nthing(3)", False),
    "an object that a library made, in a function": (
        "from lib import make\nthing = make()\ndef f(x):\n    return thing(x)\nf(x)",
        True,
    ),
    "what is asked for its parameters": (
        "from lib import thing\no = torch.optim.SGD(thing.parameters(), lr=1)\nthing(x)",
        True,
    ),
    "a builtin": ("print(x)", False),
    "a builtin by a name of their own": ("print = make()\nprint(x)", True),
    "a method of a tensor": ("x.sum(y)", False),
    "an attribute that is made elsewhere": (
        "class A:\n    def __init__(self, m):\n        self.m = m\n    def f(self, x):\n        self.m(x)\nA(m).f(x)",
        True,
    ),
    "a constructor": ("class A:\n    def __init__(self, m):\n        m(x)\nA(m)", False),
    "an optimizer": ("torch.optim.SGD(net)", False),
}


@pytest.mark.parametrize("case", MAY_RUN)
def test_may_run_model(case: str) -> None:
    text, expected = MAY_RUN[case]
    assert may_run_model(*last_call(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(p.grad)", True),
        ("p.grad.mul_(2)", True),
        ("p.grad.data.clamp_(-1, 1)", True),
        ("p.grad.detach().norm()", True),
        ("p.grad.data.zero_()", False),
        ("p.grad.detach_()", False),
        ("p.grad.detach().zero_()", False),
        ("p.grad = g", False),
        ("p.grad += noise", True),
        ("p.grad[0] = 0", True),
        ("p.grad, q = g, 1", False),
        ("del p.grad", False),
        ("p.grad is None", False),
        ("p.grad == g", True),
        ("if p.grad:\n    pass", False),
        ("norm = p.grad.norm() if p.grad is not None else 0", True),
        ("from torch.autograd import grad\ntorch.autograd.grad(loss, x)", False),
    ],
)
def test_reads_gradient(text: str, expected: bool) -> None:
    script = load(f"{HEAD}{text}\n")
    assert any(reads_gradient(script, each) for each in script.find(ast.Attribute) if each.attr == "grad") is expected


def test_gradient_reads_are_those_of_functions_too() -> None:
    script = load(f"{HEAD}def f(p):\n    return p.grad.norm()\nf(p)\nprint(p)\np.grad.zero_()\n")
    assert [script.source(each) for each in gradient_reads(script, script.tree)] == ["f(p)"]
