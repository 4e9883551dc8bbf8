"""What a search in the bytes of a file finds: every way to import, every way to mention a name."""

from __future__ import annotations

import pytest

from autoaccel.summaries import summary


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        pytest.param("import a.b\n", ("a.b",), id="dotted"),
        pytest.param("import a as b, c.d as e\n", ("a=b", "c.d=e"), id="several with aliases"),
        pytest.param("from . import c\n", (".c",), id="from the package"),
        pytest.param("from .import c\n", (".c",), id="no space behind the dot"),
        pytest.param("from.x import c\n", (".x.c",), id="no space before the dot"),
        pytest.param("from . x import c\n", (".x.c",), id="a space behind the dot"),
        pytest.param("from ..x import y as z\n", ("..x.y=z",), id="relative with an alias"),
        pytest.param("from ... import y\n", ("...y",), id="two levels up"),
        pytest.param("from x import *\n", ("x.*",), id="star"),
        pytest.param("from x import (a,\n  b as c, # (why)\n  d)\n", ("x.a", "x.b=c", "x.d"), id="several lines"),
        pytest.param("from x import a, \\\n    b\n", ("x.a", "x.b"), id="continued line"),
        pytest.param("from x \\\n    import a\n", ("x.a",), id="continued before import"),
        pytest.param("from x import a  # and b\n", ("x.a",), id="comment"),
        pytest.param("try:\n    import a\nexcept ImportError:\n    import b\n", ("a", "b"), id="conditional"),
        pytest.param("if x: import a\n", ("a",), id="behind a colon"),
        pytest.param("import a; from b import c; import d\n", ("a", "b.c", "d"), id="behind a semicolon"),
        pytest.param("def f():\n\tfrom x import a\n", ("x.a",), id="inside a function"),
        pytest.param("\ufeffimport a\n", ("a",), id="byte order mark"),
        pytest.param("x = 1\rimport a\r\nimport b\r", ("a", "b"), id="other line ends"),
        pytest.param("import importlib\nimportlib.import_module('a.b')\n", ("importlib", "a.b"), id="import_module"),
        pytest.param("__import__('a')\n", ("a",), id="__import__"),
        pytest.param("m = import_module(f'models.{name}')\n", ("?models.",), id="begins with"),
        pytest.param("m = import_module('models.' + name)\n", ("?models.",), id="begins with, added"),
        pytest.param("m = import_module('_'.join(names))\n", ("?",), id="computed by a method"),
        pytest.param("m = import_module('models.%s' % name)\n", ("?models.",), id="begins with, formatted"),
        pytest.param("m = import_module(name)\n", ("?",), id="computed"),
        pytest.param("s = spec_from_file_location('m', path)\n", ("?",), id="a file of any name"),
        pytest.param("m = run_path('scripts/train.py')\n", ("?",), id="a file"),
        pytest.param("f = locate(find_spec('a.b'))\n", ("a.b",), id="a specification"),
        pytest.param(
            "from importlib import import_module as f\nf(x)\n", ("importlib.import_module=f", "?"), id="by another name"
        ),
        pytest.param("m = import_module('.' + name, __package__)\n", ("?.",), id="computed in the package"),
        pytest.param("m = import_module('.' + name, 'other')\n", ("?",), id="computed in another package"),
        pytest.param("x = important('a')\n# from a import b\n", (), id="no import"),
        pytest.param("from é import ü\n", ("é.ü",), id="not ASCII"),
    ],
)
def test_imports(text: str, imports: tuple[str, ...]) -> None:
    assert summary(text.encode()).imports == imports


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [
        pytest.param("features(x)\n", "features", True, id="name"),
        pytest.param("features(x)\n", ".features", False, id="a name is no attribute"),
        pytest.param("m.features(x)\n", ".features", True, id="attribute"),
        pytest.param("m. features(x)\n", ".features", True, id="attribute behind a space"),
        pytest.param("(m.\n  features(x))\n", ".features", True, id="attribute on the next line"),
        pytest.param("m.\\\nfeatures(x)\n", ".features", True, id="attribute on a continued line"),
        pytest.param("def features(x): pass\n", ":features", True, id="function"),
        pytest.param("async def features(x): pass\n", ":features", True, id="async function"),
        pytest.param("class  Features: pass\n", ":Features", True, id="class"),
        pytest.param("getattr(m, 'features')(x)\n", ".features", True, id="by name"),
        pytest.param("x = {'features': 1}\n", ".features", False, id="a text is no attribute"),
        pytest.param("my_features(x)\n", "features", False, id="part of a name"),
        pytest.param("prüfe(x)\n", "prüfe", True, id="not ASCII"),
        pytest.param("from m import A\nOld = A\n", "=Old=A", True, id="assigned"),
        pytest.param("def a(): pass\nOld = New = a  # both\n", "=New=a", True, id="assigned to several names"),
        pytest.param("import m\nOld: type = m.A\n", "=Old=A", True, id="an attribute assigned with an annotation"),
        pytest.param("from m import *\nif x:\n    Old = A\n", "=Old=A", True, id="assigned what a star may bring"),
        pytest.param("from m import A, B\nx, y = A, B\n", "=x=B", True, id="assigned as one of a tuple"),
        pytest.param("Old = A\n", "=Old=A", False, id="assigned what is neither imported nor defined"),
        pytest.param("from m import A\nx = A()\n", "=x=A", False, id="assigned what a call gives"),
        pytest.param("from m import A\nx.y = A\n", "=y=A", True, id="assigned to an attribute"),
        pytest.param("import m\nm.log = f\n", ".log=", True, id="an attribute of an import"),
        pytest.param("import m as n\nn.a.log: int = f\n", ".log=", True, id="a part of a renamed import"),
        pytest.param("import a.m\na.m.log = f\n", ".log=", True, id="a part of a package"),
        pytest.param("import a.m\nOld = a.m.A\n", "=Old=A", True, id="a class of a module of a package"),
        pytest.param("import m\nm.log == f\n", ".log=", False, id="compared, not assigned"),
        pytest.param("x.log = f\n", ".log=?", True, id="an attribute of something else"),
        pytest.param("self.log = f\n", ".log=?", False, id="an attribute of self"),
        pytest.param("import m\nsetattr(m, 'log', f)\n", ".log=", True, id="setattr"),
        pytest.param("import m\nsetattr(m, name, f)\n", ".?=", True, id="setattr by a computed name"),
        pytest.param("setattr(self, name, f)\n", ".?=", False, id="setattr of self"),
        pytest.param("class A(make(B)):\n    pass\n", "<()", True, id="a base that is computed"),
        pytest.param("class A(B, Generic[T]):\n    pass\n", "<()", False, id="a generic class"),
    ],
)
def test_words(text: str, word: str, there: bool) -> None:
    assert (word in summary(text.encode()).words.split()) is there


def test_what_is_no_text_has_a_summary() -> None:
    assert summary(b"import a\n\xff\xfe\x00 = b\n").imports == ("a",)
