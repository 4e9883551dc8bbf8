"""Where gradients are computed, asked for or switched off."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.pytorch.gradients import (
    asks,
    asks_for_gradients,
    backward_calls,
    backward_or_step_calls,
    called_in_grad_mode,
    calls_training,
    has_grad_mode,
    in_grad_mode,
    is_asking_function,
    is_optimizer_step,
    sets_grad_mode,
    trains,
)

HEAD = """\
import contextlib
import functools
import torch
from torch import nn
from torch.autograd import backward as go_back, grad
net = nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
"""


def function_named(script: Script, name: str) -> ast.FunctionDef:
    return next(each for each in script.find(ast.FunctionDef) if each.name == name)


def last_call(source: str) -> tuple[Script, ast.Call]:
    """The call that the last line of a script is."""
    script = load(HEAD + source)
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return script, statement.value


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.split("\n"))


# By case: the body of a function `f(loss, x, unknown)`, and the calls in it that go backward.
BACKWARD = {
    "a method": ("loss.backward()", ["loss.backward()"]),
    "of a sum": ("(loss + x.sum()).backward(retain_graph=True)", ["(loss + x.sum()).backward(retain_graph=True)"]),
    "a scaled loss": ("scaler.scale(loss).backward()", ["scaler.scale(loss).backward()"]),
    "by an accelerator": ("unknown.backward(loss)", ["unknown.backward(loss)"]),
    "a function of torch": ("torch.autograd.backward(loss)", ["torch.autograd.backward(loss)"]),
    "under another name": ("go_back(loss)", ["go_back(loss)"]),
    "twice": ("loss.backward()\nx.backward(loss)", ["loss.backward()", "x.backward(loss)"]),
    "in a function that is only made": ("def later():\n    loss.backward()", []),
    "a method of the project": ("Chain().backward()", []),
    "a function of that name": ("backward(loss)", []),
    "a method of another name": ("loss.backwards()", []),
    "mentioned": ("print(loss.backward)", []),
    "another library": ("torch.nn.functional.backward(loss)", []),
}


@pytest.mark.parametrize("case", BACKWARD)
def test_backward_calls(case: str) -> None:
    body, expected = BACKWARD[case]
    own = "class Chain:\n    def backward(self): ...\ndef backward(loss): ...\n"
    script = load(f"{HEAD}{own}def f(loss, x, unknown):\n{indented(body)}")
    assert [script.source(each) for each in backward_calls(script, function_named(script, "f"))] == expected


def test_backward_or_step_calls() -> None:
    script = load(HEAD + "loss.backward()\ngo_back(loss)\nfor x in y:\n    sched.step()\nprint(net(x).step)\n")
    named = [script.source(each) for each in backward_or_step_calls(script)]
    assert named == ["loss.backward()", "go_back(loss)", "sched.step()"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("optimizer.step()", True),
        ("optimizer.step(closure)", True),
        ("scaler.step(optimizer)", True),
        ("torch.optim.Adam(net.parameters()).step()", True),
        ("optimizer.zero_grad()", False),
        ("torch.optim.lr_scheduler.StepLR(optimizer, 1).step()", False),
        ("unknown.step(1)", False),
        ("step(optimizer)", False),
    ],
)
def test_optimizer_steps(call: str, expected: bool) -> None:
    assert is_optimizer_step(*last_call(call + "\n")) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("loss.backward()", True),
        ("optimizer.step()", True),
        ("torch.autograd.grad(loss, x)", True),
        ("grad(loss, x, create_graph=True)", True),
        ("torch.enable_grad()", True),
        ("torch.func.vjp(net, x)", True),
        ("torch.func.grad_and_value(net)", True),
        ("torch.func.hessian(net)", True),
        ("torch.autograd.functional.hessian(net, x)", True),
        ("torch.autograd.functional.hvp(net, x, x)", True),
        ("x.requires_grad_()", True),
        ("x.requires_grad_(True)", True),
        ("x.requires_grad_(flag)", True),
        ("x.requires_grad_(False)", False),
        ("x.register_hook(print)", True),
        ("x.retain_grad()", True),
        ("x.register_post_accumulate_grad_hook(print)", True),
        ("torch.zeros(3, requires_grad=True)", True),
        ("torch.zeros(3, requires_grad=False)", False),
        ("anything(loss, create_graph=True)", True),
        ("torch.no_grad()", False),
        ("net(x)", False),
        ("unknown(x)", False),
        ("grad.mean()", False),
    ],
)
def test_calls_that_ask(call: str, expected: bool) -> None:
    assert asks(*last_call(call + "\n")) is expected


RUNNER = "class Runner:\n    def register_hook(self, hook):\n        self.hook = hook\n"


def test_methods_of_its_own_ask_for_nothing() -> None:
    assert not asks(*last_call(f"{RUNNER}Runner().register_hook(print)\n"))
    assert asks(*last_call(f"{RUNNER}unknown.register_hook(print)\n"))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("go = loss.backward", True),
        ("go = x.requires_grad_", True),
        ("go = torch.autograd.grad", True),
        ("go = loss.item", False),
        ("go = loss.backward()", False),
        ("go = unknown", False),
        ("go = loss.item\nif x:\n    go = loss.backward", True),
    ],
)
def test_calls_of_a_name_that_ask(made: str, expected: bool) -> None:
    assert asks(*last_call(f"{made}\ngo(1)\n")) is expected


# By case: what is handed to a function of which nothing is known, and whether it goes backward when that calls it.
HANDED = {
    "a method of torch": ("torch.Tensor.backward", True),
    "a function of torch": ("torch.autograd.grad", True),
    "imported": ("grad", True),
    "a method of a tensor": ("loss.backward", True),
    "a hook": ("x.register_hook", True),
    "a name for one": ("kept", True),
    "its result": ("loss.backward()", False),
    "what it returns": ("grad(loss, x)[0]", False),
    "an attribute of it": ("loss.backward.calls", False),
    "another method": ("loss.item", False),
    "a name for a number": ("number", False),
    "another library's": ("contextlib.backward", False),
}


@pytest.mark.parametrize("case", HANDED)
def test_functions_that_ask(case: str) -> None:
    argument, expected = HANDED[case]
    script, call = last_call(f"kept = loss.backward\nnumber = 3\nmap({argument})\n")
    assert is_asking_function(script, call.args[0]) is expected


# By case: the body of a function, and the outermost part of it that needs gradients.
ASKED: dict[str, tuple[str, str | None]] = {
    "nothing": ("y = net(x)\nprint(y.mean())", None),
    "backward": ("net(x).sum().backward()", "net(x).sum().backward()"),
    "in a nested function": ("def closure():\n    x.backward()\nreturn closure", "x.backward()"),
    "in a lambda": ("return lambda: x.backward()", "x.backward()"),
    "the outermost": ("for y in x:\n    y.backward()\nx.retain_grad()", "x.retain_grad()"),
    "reads gradients": ("return [p.grad for p in net.parameters()]", "p.grad"),
    "writes gradients": ("x.grad = None", "x.grad"),
    "a module named so": ("import torch.autograd.grad as g\nreturn torch.autograd.grad", "torch.autograd.grad"),
    "asked for by an assignment": ("x.requires_grad = True", "x.requires_grad = True"),
    "given away by an assignment": ("x.requires_grad = False", None),
    "by what is not known": ("x.requires_grad = flag", "x.requires_grad = flag"),
    "one of several targets": ("x.requires_grad = y.requires_grad = True", "x.requires_grad = y.requires_grad = True"),
    "unpacked": ("x.requires_grad, y = True, 1", "x.requires_grad, y = True, 1"),
    "by name": ("setattr(x, 'requires_grad', True)", "setattr(x, 'requires_grad', True)"),
    "given away by name": ("setattr(x, 'requires_grad', False)", None),
    "a leaf": ("x = torch.zeros(3, requires_grad=True)", "torch.zeros(3, requires_grad=True)"),
    "handed on": ("list(map(torch.Tensor.backward, x))", "torch.Tensor.backward"),
    "a partial function": ("return functools.partial(grad, inputs=x)", "grad"),
    "a decorator": ("@torch.enable_grad()\ndef g(): ...", "torch.enable_grad()"),
    "looked up": ("getattr(x, 'backward')()", "getattr(x, 'backward')"),
    "asked whether it can": ("return x.requires_grad", None),
}


@pytest.mark.parametrize("case", ASKED)
def test_asks_for_gradients(case: str) -> None:
    body, expected = ASKED[case]
    script = load(f"{HEAD}def f(x, flag):\n{indented(body)}")
    found = asks_for_gradients(script, function_named(script, "f"))
    assert (None if found is None else script.source(found)) == expected


# By case: what stands before `f`, the body of `f(x)`, and whether it trains.
TRAINS = {
    "itself": ("", "x.backward()", True),
    "not": ("", "print(net(x))", False),
    "through a function": ("def step(x):\n    x.backward()\n", "step(x)", True),
    "through two": ("def go(x):\n    x.backward()\ndef step(x):\n    go(x)\n", "step(x)", True),
    "through a method": ("class A:\n    def go(self, x):\n        x.backward()\n", "A().go(x)", True),
    "through a constructor": ("class A:\n    def __init__(self, x):\n        x.backward()\n", "A(x)", True),
    "through a model": ("class M(nn.Module):\n    def forward(self, x):\n        return grad(x, x)\n", "M()(x)", True),
    "through an inherited method": (
        "class A:\n    def go(self, x):\n        x.backward()\nclass B(A): ...\n",
        "B().go(x)",
        True,
    ),
    "through a lambda": ("step = lambda x: x.backward()\n", "step(x)", True),
    "through another lambda": ("step = lambda x: x.item()\n", "step(x)", False),
    "through a coroutine": ("async def step(x):\n    x.backward()\n", "run(step(x))", True),
    "one of two": ("def a(x): ...\ndef b(x):\n    x.backward()\n", "(a if x else b)(x)", True),
    "a function beside it": ("def step(x):\n    x.backward()\n", "net(x)", False),
    "in a circle": ("def g(x):\n    f(x)\n", "g(x)", False),
    "in a circle that trains": ("def g(x):\n    f(x)\n    x.backward()\n", "g(x)", True),
    "in a function that it makes": ("", "def closure():\n    x.backward()\nreturn closure", True),
}


@pytest.mark.parametrize("case", TRAINS)
def test_trains(case: str) -> None:
    before, body, expected = TRAINS[case]
    script = load(f"{HEAD}{before}def f(x):\n{indented(body)}")
    assert trains(script, function_named(script, "f")) is expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("step(x)", True), ("print(step(x))", True), ("show(x)", False), ("later = lambda: step(x)", False)],
)
def test_statements_that_train_in_other_files(tmp_path: Path, statement: str, expected: bool) -> None:
    (tmp_path / "steps.py").write_text("def step(x):\n    x.backward()\ndef show(x):\n    print(x)\n")
    path, text = tmp_path / "main.py", f"from steps import show, step\n{statement}\n"
    path.write_text(text)
    script = load(text, path, Project([*tmp_path.glob("*.py")]))
    assert calls_training(script, script.tree.body[-1]) is expected


# By case: code with one call of `here()`, and whether the grad mode is set where it stands.
SET = {
    "nothing": ("here()", False),
    "no_grad": ("with torch.no_grad():\n    here()", True),
    "inference_mode": ("with torch.inference_mode():\n    here()", True),
    "one of two": ("with open('x') as f, torch.no_grad():\n    here()", True),
    "further out": ("with torch.no_grad():\n    for x in y:\n        if x:\n            here()", True),
    "beside it": ("with torch.no_grad():\n    pass\nhere()", False),
    "asynchronous": ("async def f():\n    async with torch.no_grad():\n        here()", True),
    "another context": ("with open('x'):\n    here()", False),
    "autocast": ("with torch.autocast('cuda'):\n    here()", False),
    "set to what is not known": ("with torch.set_grad_enabled(train):\n    here()", True),
    "decorated": ("@torch.no_grad()\ndef f():\n    here()", True),
    "decorated without a call": ("@torch.no_grad\ndef f():\n    here()", True),
    "decorated around it": ("@torch.no_grad()\ndef f():\n    def g():\n        here()\n    return g", False),
    "wrapped": ("def f():\n    here()\nf = torch.no_grad()(f)", True),
    "wrapped in something else": ("def f():\n    here()\nf = functools.lru_cache()(f)", False),
    "switched off before": ("torch.set_grad_enabled(False)\nhere()", True),
    "switched off by keyword": ("torch.set_grad_enabled(mode=False)\nhere()", True),
    "switched off and on": ("torch.set_grad_enabled(False)\ntorch.set_grad_enabled(True)\nhere()", False),
    "on by keyword": ("torch.set_grad_enabled(False)\ntorch.set_grad_enabled(mode=True)\nhere()", False),
    "switched off behind it": ("here()\ntorch.set_grad_enabled(False)", False),
    "switched off in the outer block": ("torch.set_grad_enabled(False)\nfor x in y:\n    here()", True),
    "switched off in another block": ("if x:\n    torch.set_grad_enabled(False)\nhere()", False),
    "an exit stack": ("s = contextlib.ExitStack()\ns.enter_context(torch.no_grad())\nhere()", True),
    "an exit stack of the project's": (
        (
            "@contextlib.contextmanager\ndef quiet():\n    with torch.no_grad():\n        yield\n"
            "s = contextlib.ExitStack()\ns.enter_context(quiet())\nhere()"
        ),
        True,
    ),
    "entered by hand": ("torch.no_grad().__enter__()\nhere()", True),
    "a call that sets it": ("def off():\n    torch.set_grad_enabled(False)\noff()\nhere()", True),
    "a call of a call that sets it": (
        "def off():\n    torch.set_grad_enabled(False)\ndef start():\n    off()\nstart()\nhere()",
        True,
    ),
    "a call that sets it for a block of its own": (
        "def train(x):\n    with torch.no_grad():\n        teacher(x)\ntrain(x)\nhere()",
        False,
    ),
    "a call that is handed such a call's result": (
        "def test(x):\n    with torch.no_grad():\n        return teacher(x)\nprint(test(x))\nhere()",
        False,
    ),
    "kept in a name": ("off = torch.no_grad()\nwith off:\n    here()", True),
    "a choice": ("off = torch.no_grad() if x else contextlib.nullcontext()\nwith off:\n    here()", True),
    "a choice without": ("off = open('x') if x else contextlib.nullcontext()\nwith off:\n    here()", False),
    "named after it": ("with maybe_no_grad(x):\n    here()", True),
    "named otherwise": ("with quietly(x):\n    here()", False),
    "the project's": (
        "@contextlib.contextmanager\ndef quiet():\n    with torch.no_grad():\n        yield\nwith quiet():\n    here()",
        True,
    ),
    "a lambda": ("with torch.no_grad():\n    f = lambda: here()", True),
}


@pytest.mark.parametrize("case", SET)
def test_in_grad_mode(case: str) -> None:
    text, expected = SET[case]
    script = load(f"{HEAD}{text}\n")
    [here] = [each for each in script.find(ast.Call) if script.source(each) == "here()"]
    assert in_grad_mode(script, here) is expected


def test_in_grad_mode_within() -> None:
    script = load("import torch\nwith torch.no_grad():\n    for x in y:\n        here()\n")
    [loop], [here] = [*script.find(ast.For)], [*script.find(ast.Expr)]
    assert in_grad_mode(script, here)
    assert not in_grad_mode(script, here, loop)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.no_grad()", True),
        ("torch.no_grad", True),
        ("torch.set_grad_enabled(False)", True),
        ("nograd()", True),
        ("unknown.inference_mode(x)", True),
        ("torch.enable_grad()", False),
        ("unknown()", False),
        ("cannot_grade()", False),
    ],
)
def test_sets_grad_mode(expression: str, expected: bool) -> None:
    script, call = last_call(f"print({expression})\n")
    assert bool(sets_grad_mode(script, call.args[0])) is expected


def test_a_function_that_is_wrapped_has_a_grad_mode() -> None:
    script = load(HEAD + "def f(): ...\ndef g(): ...\nh = torch.no_grad()(g)\n")
    assert [has_grad_mode(script, function_named(script, each)) for each in "fg"] == [False, True]


# By case: who calls `f`, and whether all of them have set the grad mode.
CALLERS = {
    "nobody": ("", False),
    "one that has": ("with torch.no_grad():\n    f()\n", True),
    "one that has not": ("f()\n", False),
    "one of two": ("f()\nwith torch.no_grad():\n    f()\n", False),
    "by way of another": ("def g():\n    f()\nwith torch.no_grad():\n    g()\n", True),
    "by way of another, not all": ("def g():\n    f()\ng()\nwith torch.no_grad():\n    g()\n", False),
    "itself": ("def g():\n    f()\n    g()\n", False),
    "handed on": ("with torch.no_grad():\n    f()\nrun(f)\n", False),
    "a computed name": ("with torch.no_grad():\n    f()\nglobals()[name]()\n", False),
    "decorated": ("@torch.no_grad()\ndef g():\n    f()\n", True),
}


@pytest.mark.parametrize("case", CALLERS)
def test_called_in_grad_mode(case: str) -> None:
    text, expected = CALLERS[case]
    script = load(f"{HEAD}def f(): ...\n{text}")
    assert called_in_grad_mode(script, function_named(script, "f")) is expected


def test_nobody_calls_a_module() -> None:
    assert not called_in_grad_mode(load(HEAD), None)
