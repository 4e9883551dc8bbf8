"""Mappings that are unpacked into calls: `DataLoader(data, **options)`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.keyword_arguments import mapping_items, mapping_keys

# By case: the code before `seen(**o)`, and the items of `o`; None where they are not known.
ITEMS = {
    "a literal": ("o = {'a': 1, 'b': x}", {"a": "1", "b": "x"}),
    "dict": ("o = dict(a=1, b=x)", {"a": "1", "b": "x"}),
    "a key twice": ("o = {'a': 1, 'a': 2}", {"a": "2"}),
    "with an annotation": ("o: dict[str, int] = {'a': 1}", {"a": "1"}),
    "empty": ("o = {}", {}),
    "read": ("o = {'a': 1}\nx = o['a']", {"a": "1"}),
    "a computed key": ("o = {name: 1}", None),
    "unpacked into it": ("o = {**other, 'a': 1}", None),
    "dict of a mapping": ("o = dict(other, a=1)", None),
    "dict with an unpacked mapping": ("o = dict(a=1, **other)", None),
    "one of two": ("o = {'a': 1}\nif c:\n    o = {'a': 2}", None),
    "a conditional": ("o = {'a': 1} if c else {}", None),
    "an item that is set": ("o = {'a': 1}\no['a'] = 2", None),
    "an item that is set in a function": ("o = {'a': 1}\ndef f():\n    o['a'] = 2", None),
    "an item that is deleted": ("o = {'a': 1}\ndel o['a']", None),
    "updated": ("o = {'a': 1}\no.update(a=2)", None),
    "joined": ("o = {'a': 1}\no |= {'a': 2}", None),
    "handed on": ("o = {'a': 1}\nchange(o)", None),
    "under another name": ("o = {'a': 1}\np = o", None),
    "the same as another": ("p = {'a': 1}\no = p", None),
    "of a function": ("o = options()", None),
    "of nothing in sight": ("", None),
    "by a loop": ("for o in [{'a': 1}]: ...", None),
    "one of a tuple": ("o, p = {'a': 1}, 2", None),
    "of two names": ("p = o = {'a': 1}\np['b'] = 2", None),
}
# By case: what stands below a method with `**self.o`, of a class whose `__init__` stores it, and whether it is known.
ATTRIBUTES = {
    "read by all": ("    def other(self):\n        return f(**self.o), self.o['a']", True),
    "stored anew": ("    def other(self):\n        self.o = {}", False),
    "stored by a class that derives from it": ("class D(C):\n    def other(self):\n        self.o = {}", False),
    "an attribute of a class that derives from it": ("class D(C):\n    o = {}", False),
    "stored from outside": ("def g(c: C):\n    c.o = {}", False),
    "an item is set": ("    def other(self):\n        self.o['b'] = 1", False),
    "an item is deleted": ("    def other(self):\n        del self.o['a']", False),
    "updated": ("    def other(self):\n        self.o.update(a=2)", False),
    "handed on": ("    def other(self):\n        f(self.o)", False),
    "under another name": ("    def other(self):\n        o = self.o", False),
    "of who knows what": ("def g(c):\n    c.o.clear()", False),
    "under two names": ("    def other(self):\n        self.o = p = {}\n        p['a'] = 2", False),
    "by a text": ("    def other(self):\n        getattr(self, 'o')['a'] = 2", False),
    "by a computed name": ("def g(c: C, k):\n    getattr(c, k).clear()", False),
    "by another text": ("    def other(self):\n        getattr(self, 'p')['a'] = 2", True),
    "a computed name that is called": ("    def other(self, k):\n        getattr(self, k)(3)", True),
    "by a reader of attributes": ("import operator\noperator.attrgetter('o')(C(1)).clear()", False),
    "by the namespace": ("    def other(self):\n        vars(self)['o']['a'] = 2", False),
    "all of the namespace": (
        "    def other(self):\n        for each in self.__dict__.values():\n            each.clear()",
        False,
    ),
    "a namespace that is printed": ("    def other(self):\n        print(vars(self))", True),
    "by a pattern": ("def g(c):\n    match c:\n        case C(o=p):\n            p.clear()", False),
    "another attribute": ("    def other(self):\n        self.p = {}\n        self.p['a'] = 2", True),
}


@pytest.mark.parametrize("case", ATTRIBUTES)
def test_items_of_an_attribute(case: str) -> None:
    after, known = ATTRIBUTES[case]
    storing = (
        "class C:\n    def __init__(self, x):\n        self.o = {'a': x}\n    def use(self):\n        seen(**self.o)\n"
    )
    script = load(f"{storing}{after}\n", None)
    (call,) = script.syntax_index.calls_named("seen")
    items = mapping_items(script, call.keywords[0].value)
    assert (items is not None) is known
    if items is not None:
        assert [script.source(each) for each in items.values()] == ["x"]


KEYS = {
    "a literal": ("o = {'a': 1, 'b': x}", "a b"),
    "dict": ("o = dict(a=1)", "a"),
    "dict of another": ("p = {'a': 1}\no = dict(p, b=2)", "a b"),
    "dict of pairs": ("o = dict([('a', 1)])", None),
    "unpacked into it": ("p = {'a': 1}\no = {**p, 'b': 2}", "a b"),
    "something unknown is unpacked into it": ("o = {**p, 'b': 2}", None),
    "a computed key": ("o = {name: 1}", None),
    "a conditional": ("o = {'a': 1} if c else {}", "a"),
    "one of two": ("o = {'a': 1}\nif c:\n    o = {'b': 2}", "a b"),
    "of the union of two": ("o = {'a': 1} | dict(b=2)", "a b"),
    "of the union with something unknown": ("o = {'a': 1} | p", None),
    "an item that is set": ("o = {'a': 1}\nif c:\n    o['b'] = 2", "a b"),
    "an item that is set in a function": ("o = {'a': 1}\ndef f():\n    o['b'] = 2", "a b"),
    "a computed item": ("o = {'a': 1}\no[name] = 2", None),
    "an item of an item": ("o = {'a': {}}\no['a']['b'] = 2", "a"),
    "updated": ("o = {'a': 1}\no.update(b=2)\no.update({'c': 3})", "a b c"),
    "updated with something unknown": ("o = {'a': 1}\no.update(p)", None),
    "updated with keywords that are unknown": ("o = {'a': 1}\no.update(**p)", None),
    "setdefault": ("o = {'a': 1}\no.setdefault('b', 2)", None),
    "joined": ("o = {'a': 1}\no |= {'b': 2}", None),
    "its update is handed on": ("o = {'a': 1}\nadd = o.update\nadd(b=2)", None),
    "read": ("o = {'a': 1}\nprint(o, o.get('b'), len(o), f'{o}', 'a' in o)", "a"),
    "pop": ("o = {'a': 1}\no.pop('a')", "a"),
    "updates another": ("o = {'a': 1}\np = {}\np.update(o)", "a"),
    "unpacked into another": ("o = {'a': 1}\np = {**o}", "a"),
    "a value of another": ("o = {'a': 1}\np = {'o': o}\np['o']['b'] = 2", None),
    "handed on": ("o = {'a': 1}\nchange(o)", None),
    "under another name": ("o = {'a': 1}\np = o\np['b'] = 2", None),
    "the same as another": ("p = {'a': 1}\no = p", None),
    "of a function": ("o = options()", None),
    "of nothing in sight": ("", None),
    "by a loop": ("for o in [{'a': 1}]: ...", None),
    "imported": ("from options import o", None),
}
# By case: a function and its calls, and the keys of the parameter `o` in it.
PASSED = {
    "keyword arguments": ("def f(x, **o):\n    seen(**o)\nf(1, a=2)\nf(1, b=3)\n", "a b"),
    "a keyword that has a parameter": ("def f(x, **o):\n    seen(**o)\nf(x=1, a=2)\n", "a"),
    "keyword arguments out of a mapping": ("def f(**o):\n    seen(**o)\nf(**{'a': 1}, b=2)\n", "a b"),
    "keyword arguments out of something unknown": ("def f(**o):\n    seen(**o)\nf(**options)\n", None),
    "keyword arguments that are added to": ("def f(**o):\n    o['b'] = 2\n    seen(**o)\nf(a=1)\n", "a b"),
    "keyword arguments of a function that nobody calls": ("def f(**o):\n    seen(**o)\n", None),
    "keyword arguments of a function that is handed on": ("def f(**o):\n    seen(**o)\nf(a=1)\nrun(f)\n", None),
    "a mapping": ("def f(o):\n    seen(**o)\nf({'a': 1})\nf(o={'b': 1})\n", "a b"),
    "a mapping that is unknown": ("def f(o):\n    seen(**o)\nf({'a': 1})\nf(options)\n", None),
    "a default": ("def f(o={'a': 1}):\n    seen(**o)\nf()\nf({'b': 1})\n", "a b"),
    "a default that nobody needs": ("def f(o={'a': 1}):\n    seen(**o)\nf({'b': 1})\n", "b"),
    "behind a star": ("def f(o={'a': 1}):\n    seen(**o)\nf(*args)\n", None),
    "through two functions": ("def f(**o):\n    g(**o)\ndef g(**o):\n    seen(**o)\nf(a=1)\n", "a"),
}


def unpacked(text: str, path: Path | None = None, project: Project | None = None) -> tuple[Script, ast.expr]:
    """What is unpacked into the call of `seen`."""
    script = load(text, path, project)
    (call,) = script.syntax_index.calls_named("seen")
    return script, call.keywords[0].value


def words(keys: frozenset[str] | None) -> str | None:
    return None if keys is None else " ".join(sorted(keys))


@pytest.mark.parametrize("case", ITEMS)
def test_items(case: str) -> None:
    text, expected = ITEMS[case]
    script, expression = unpacked(f"{text}\nseen(**o)\n")
    found = mapping_items(script, expression)
    assert (None if found is None else {key: script.source(value) for key, value in found.items()}) == expected


@pytest.mark.parametrize("case", KEYS)
def test_keys(case: str) -> None:
    text, expected = KEYS[case]
    assert words(mapping_keys(*unpacked(f"{text}\nseen(**o)\n"))) == expected


@pytest.mark.parametrize("case", PASSED)
def test_keys_that_are_passed(case: str) -> None:
    text, expected = PASSED[case]
    assert words(mapping_keys(*unpacked(text))) == expected


@pytest.mark.parametrize(
    ("other", "known"),
    [
        pytest.param("import config\nprint(config.o)\n", True, id="read"),
        pytest.param("import config\nconfig.o = {'b': 2}\n", False, id="bound to another"),
        pytest.param("import config\nconfig.p = {'b': 2}\n", True, id="another name is bound"),
        pytest.param("import config\nsetattr(config, 'o', {'b': 2})\n", False, id="bound by setattr"),
    ],
)
def test_another_file_binds_the_name(tmp_path: Path, other: str, known: bool) -> None:
    text = "o = {'a': 1}\ndef load():\n    seen(**o)\n"
    (tmp_path / "config.py").write_text(text)
    (tmp_path / "main.py").write_text(other)
    project = Project(sorted(tmp_path.glob("*.py")))
    script, expression = unpacked(text, tmp_path / "config.py", project)
    assert (mapping_items(script, expression) is not None) == known
    assert (mapping_keys(script, expression) is not None) == known
