"""What decorators are given."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.abstract_values import Kind

TABLE = """
TABLE = {}
def register(name):
    def keep(made):
        TABLE[name] = made
        return made
    return keep
def direct(made):
    TABLE[made.__name__] = made
    return made
def plain(made):
    return made
"""
GIVEN = {
    "a class": ("@direct\nclass A: pass\n", "direct", {"A"}),
    "what is made by a call": ("@register('a')\nclass A: pass\n", "keep", {"A"}),
    "classes and functions": ("@direct\nclass A: pass\n@direct\ndef f(): pass\n", "direct", {"A", "f"}),
    "below another": ("@plain\n@direct\nclass A: pass\n", "direct", {"A"}),
    "above one of Python's": ("import functools\n@direct\n@functools.cache\ndef f(): pass\n", "direct", {"f"}),
    "above another": ("@direct\n@plain\nclass A: pass\n", "direct", None),
    "above one that is not seen": ("@direct\n@unseen\nclass A: pass\n", "direct", None),
    "called as well": ("@direct\nclass A: pass\ndirect(n)\n", "direct", None),
    "handed on as well": ("@direct\nclass A: pass\nmap(direct, n)\n", "direct", None),
    "its maker called as well": ("@register('a')\nclass A: pass\nregister('b')(n)\n", "keep", None),
    "looked up as well": ("@direct\nclass A: pass\nglobals()[n](A)\n", "direct", None),
    "used for nothing": ("", "direct", None),
}


@pytest.mark.parametrize("case", GIVEN)
def test_what_a_decorator_is_given(case: str) -> None:
    text, name, expected = GIVEN[case]
    script = load(TABLE + text)
    function = next(each for each in script.find(ast.FunctionDef) if each.name == name)
    read = next(each for each in script.within(function, ast.Name) if each.id == "made")
    values = script.values(read)
    if expected is None:
        assert Kind.UNKNOWN in values.kinds
    else:
        assert {getattr(value.node, "name", None) for value in values} == expected


def test_a_class_out_of_a_registry() -> None:
    script = load(f"{TABLE}@register('a')\nclass A: pass\nx = TABLE[n]()\n")
    made = next(each for each in script.find(ast.Assign) if ast.unparse(each) == "x = TABLE[n]()")
    assert [value.cls.node.name for value in script.values(made.value) if value.cls] == ["A"]
