"""What a call leaves out of a function by the constants that it passes."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.constant_arguments import specialize
from autoaccel.analysis.script import load

_RUN = "def run(loader, train, optimizer=None, mode='val', *, half=False):\n"


def _left_out(body: str, call: str, *, above: str = "", head: str = _RUN) -> list[str] | None:
    """The sources of what `call` leaves out of a function with that body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    script = load(f"{above}{head}{lines}\n\n{call}\n")
    made = script.syntax_index.calls_named("run")[-1]
    found = specialize(script, made)
    return None if found is None else [script.source(each) for each in found.dead]


@pytest.mark.parametrize(
    ("body", "call", "expected"),
    [
        ("if train:\n    a()", "run(x, False)", ["a()"]),
        ("if train:\n    a()", "run(x, train=False)", ["a()"]),
        ("if train:\n    a()\nelse:\n    b()", "run(x, True)", ["b()"]),
        ("if not train:\n    a()", "run(x, 1)", ["a()"]),
        ("if optimizer is not None:\n    a()", "run(x, 1)", ["a()"]),
        ("if optimizer is None:\n    a()\nelse:\n    b()", "run(x, 1, None)", ["b()"]),
        ("if optimizer:\n    a()", "run(x, 1)", ["a()"]),
        ("if mode == 'train':\n    a()", "run(x, 1)", ["a()"]),
        ("if mode == 'train':\n    a()", "run(x, 1, mode='test')", ["a()"]),
        ("if mode != 'train':\n    a()", "run(x, 1, mode='train')", ["a()"]),
        ("if mode in ('train', 'fit'):\n    a()", "run(x, 1)", ["a()"]),
        ("if half:\n    a()", "run(x, 1)", ["a()"]),
        ("if train and unknown():\n    a()", "run(x, False)", ["unknown()", "a()"]),
        ("if unknown() and train:\n    a()", "run(x, False)", ["a()"]),
        ("if train or optimizer is not None:\n    a()", "run(x, False)", ["a()"]),
        ("fit = optimizer is not None\nif fit:\n    a()", "run(x, 1)", ["a()"]),
        ("fit = train\nif fit:\n    a()", "run(x, False)", ["a()"]),
        ("for b in loader:\n    if train:\n        a()", "run(x, False)", ["a()"]),
        ("for b in loader:\n    if not train:\n        continue\n    a()", "run(x, False)", ["a()"]),
        ("if not train:\n    return 1\na()\nb()", "run(x, False)", ["a()", "b()"]),
        ("with c():\n    if train:\n        a()", "run(x, False)", ["a()"]),
        ("while train:\n    a()", "run(x, False)", ["a()"]),
        ("a() if train else b()", "run(x, False)", ["a()"]),
        ("x = train and a()", "run(x, False)", ["a()"]),
    ],
)
def test_left_out(body: str, call: str, expected: list[str]) -> None:
    assert sorted(_left_out(body, call) or []) == sorted(expected)


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("if train:\n    a()", "run(x, flag)"),
        ("if train:\n    a()", "run(x, True)"),
        ("if optimizer is not None:\n    a()", "run(x, 1, opt)"),
        ("train = loader.train\nif train:\n    a()", "run(x, False)"),
        ("for train in loader:\n    if train:\n        a()", "run(x, False)"),
        ("if (train := a()):\n    b()", "run(x, False)"),
        ("def inner():\n    nonlocal train\n    train = True\ninner()\nif train:\n    a()", "run(x, False)"),
        ("exec('train = True')\nif train:\n    a()", "run(x, False)"),
        ("if train is loader:\n    a()", "run(x, False)"),
        ("if mode.startswith('t'):\n    a()", "run(x, 1)"),
        ("if train:\n    return\nelse:\n    b()\na()", "run(x, flag)"),
        ("with suppress(E):\n    if not train:\n        raise E\na()", "run(x, False)"),
        ("try:\n    if not train:\n        raise E\nexcept E:\n    pass\na()", "run(x, False)"),
    ],
)
def test_left_open(body: str, call: str) -> None:
    assert _left_out(body, call) == []


@pytest.mark.parametrize(
    ("above", "head", "call"),
    [
        ("", _RUN, "run(x, *flags)"),
        ("", _RUN, "run(x, **flags)"),
        ("@deco\n", _RUN, "run(x, False)"),
        ("", _RUN.replace("def", "async def"), "run(x, False)"),
        ("run_epoch = 1\n", _RUN, "run.__kwdefaults__.update(half=True)\nrun(x, False)"),
        ("", _RUN, "module.run = other\nrun(x, False)"),
        ("", _RUN, "setattr(module, name, other)\nrun(x, False)"),
    ],
)
def test_not_in_sight(above: str, head: str, call: str) -> None:
    assert _left_out("if train:\n    a()", call, above=above, head=head) is None


@pytest.mark.parametrize(
    ("base", "extra", "expected"),
    [
        ("", "", 1),
        ("(metaclass=Meta)", "", None),
        ("", "class Derived(Trainer):\n    def run(self, train):\n        return 1\n", None),
        ("", "class Derived(Trainer):\n    def other(self):\n        return 1\n", 1),
        ("", "class Name:\n    def __set_name__(self, owner, name):\n        pass\n", None),
    ],
)
def test_methods(base: str, extra: str, expected: int | None) -> None:
    source = (
        f"class Trainer{base}:\n    def run(self, train=True):\n        if train:\n            a()\n"
        f"    def test(self):\n        return self.run(train=False)\n{extra}"
    )
    script = load(source)
    [call] = [each for each in script.find(ast.Call) if script.source(each.func) == "self.run"]
    found = specialize(script, call)
    assert (None if found is None else len(found.dead)) == expected


def test_handed_on() -> None:
    source = (
        "def step(batch, train):\n    if train:\n        a()\n"
        "def run(loader, train):\n    for b in loader:\n        step(b, train)\n"
        "run(x, False)\n"
    )
    script = load(source)
    inner, outer = script.syntax_index.calls_named("step")[0], script.syntax_index.calls_named("run")[0]
    first = specialize(script, outer)
    assert first is not None
    nested = specialize(script, inner, first)
    assert nested is not None
    assert [script.source(each) for each in nested.dead] == ["a()"]
    assert nested.leads == (outer, inner)
    alone = specialize(script, inner)
    assert alone is not None
    assert not alone.dead
