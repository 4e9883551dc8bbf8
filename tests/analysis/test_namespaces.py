"""What is assigned through the namespace of a module, a class, an object."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.namespaces import binds, binds_own, bound_values, namespaces

# By case: a statement, and whether it may bind `log` in the namespace that it mentions.
CASES = {
    "an item": ("vars(engine)['log'] = mine", True),
    "another item": ("vars(engine)['step'] = mine", False),
    "a computed item": ("vars(engine)[name] = mine", True),
    "an item that is read": ("x = vars(engine)['log']", False),
    "an item that is deleted": ("del engine.__dict__['log']", True),
    "an item that is added to": ("self.__dict__['log'] += 1", True),
    "update with a mapping": ("self.__dict__.update(options)", True),
    "update with keys": ("self.__dict__.update({'log': mine})", True),
    "update with other keys": ("self.__dict__.update({'step': mine})", False),
    "update with an unpacked mapping": ("self.__dict__.update({**options})", True),
    "update with keywords": ("self.__dict__.update(log=mine)", True),
    "update with other keywords": ("self.__dict__.update(step=mine)", False),
    "update with unpacked keywords": ("vars(args).update(**options)", True),
    "update of another mapping": ("options.update(vars(args))", False),
    "what was pickled": ("def __setstate__(self, state):\n    self.__dict__.update(state)", False),
    "setdefault": ("vars(engine).setdefault('log', mine)", True),
    "pop": ("vars(engine).pop('log')", True),
    "clear": ("vars(engine).clear()", True),
    "the whole": ("self.__dict__ = shared", True),
    "joined": ("self.__dict__ |= options", True),
    "read": ("for key, value in vars(args).items(): print(key, value)", False),
    "printed": ("print(vars(args))", False),
    "copied": ("config = dict(vars(args))", False),
    "written down": ("json.dump(vars(args), file)", False),
    "unpacked": ("Namespace(**vars(args))", False),
    "compared": ("x = self.__dict__ == other.__dict__", False),
    "asked": ("x = 'log' in vars(args)", False),
    "under another name": ("table = vars(engine)", True),
    "by a walrus": ("(table := vars(engine))", True),
    "handed to a function": ("install(vars(engine))", True),
    "handed to a function by keyword": ("install(into=vars(engine))", True),
    "returned": ("def table():\n    return vars(engine)", True),
    "returned by a lambda": ("table = lambda: vars(engine)", True),
    "yielded": ("def tables():\n    yield vars(engine)", True),
    "one of some": ("for table in [vars(engine), vars(other)]: table['log'] = mine", True),
    "one of two": ("table = vars(engine) if c else {}", True),
    "this or that": ("table = c and vars(engine)", True),
    "the globals of a function": ("engine.run.__globals__['log'] = mine", True),
    "the code of a function": ("engine.run.__code__ = mine.__code__", True),
}
OWNERS = {
    "vars": ("vars(engine)['log'] = mine", ["engine"]),
    "a dictionary": ("self.net.__dict__.update(options)", ["self.net"]),
    "a module that is loaded": ("vars(sys.modules['engine'])['log'] = mine", [None]),
    "the globals of a function": ("engine.run.__globals__['log'] = mine", [None]),
    "the code of a function": ("engine.run.__code__ = mine.__code__", [None]),
    "the code that is read": ("x = run.__code__.co_name", []),
    "of no object": ("x = vars()", []),
    "none": ("engine.log = mine", []),
}
OWN = {
    "an item": ("globals()['log'] = mine", True),
    "another item": ("globals()['step'] = mine", False),
    "update": ("globals().update(config)", True),
    "read": ("x = globals()['log']", False),
    "items that are read": ("keys = [k for k, v in globals().items()]", False),
    "computed": ("for key in config:\n    globals()[key] = config[key]", True),
    "handed on": ("install(globals())", True),
    "none": ("log = mine", False),
}


@pytest.mark.parametrize("case", CASES)
def test_binds(case: str) -> None:
    text, expected = CASES[case]
    script = load(text + "\n")
    assert any(binds(script, each, "log") for each, _ in namespaces(script)) == expected


@pytest.mark.parametrize("case", OWNERS)
def test_whose_it_is(case: str) -> None:
    text, expected = OWNERS[case]
    script = load(text + "\n")
    assert [None if owner is None else script.source(owner) for _, owner in namespaces(script)] == expected


@pytest.mark.parametrize("case", OWN)
def test_binds_own(case: str) -> None:
    text, expected = OWN[case]
    assert binds_own(load(text + "\n"), "log") == expected


@pytest.mark.parametrize(
    ("use", "values"),
    [
        ("vars(a)['x'] = 1", ["1"]),
        ("a.__dict__['x'] = 1", ["1"]),
        ("a.__dict__.update(x=1, y=2)", ["1"]),
        ("a.__dict__.update({'x': 1, 'y': 2})", ["1"]),
        ("options = {'x': 1}\nvars(a).update(options)", ["1"]),
        ("vars(a).setdefault('x', 1)", ["1"]),
        ("vars(a)['y'] = 1", []),
        ("vars(a)[name] = 1", []),
        ("vars(a).update(options)", []),
        ("print(vars(a)['x'])", []),
    ],
)
def test_bound_values(use: str, values: list[str]) -> None:
    script = load(f"a = A()\n{use}\n")
    [(namespace, _)] = namespaces(script)
    assert [script.source(each) for each in bound_values(script, namespace, "x")] == values
