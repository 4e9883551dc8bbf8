"""Notebook files: what is read of them, and that writing a cell touches no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel import notebooks, sources
from autoaccel.notebooks.cells import cells, split
from autoaccel.notebooks.documents import Notebook


def decode(data: bytes) -> Notebook:
    source = notebooks.decode(data, "n.ipynb")
    assert isinstance(source, Notebook)
    return source


def written(*codes: Any, **more: Any) -> bytes:
    listed = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": code} for code in codes]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}, indent=1).encode()


LINES = (
    *("x = 1", "y = 'größer'", "s = '\\u00e9\\t'", "", "  ", "# “x” \U0001f600", "if x:\n    pass", "a = [1,\n 2]"),
    *("%matplotlib inline", "!ls -l \\\n  /tmp", "z = !ls", "%time q = f(x)", "f?", "if x:\n    %time f(x)", "%%time"),
    *("%%capture if", "  %%capture out"),
    *("not python at all", "%%bash\nls", "print('\x0c')", "u = '\u2028'", "\tw = 1", "x = 1\r", "'''\n%time\n!ls\n'''"),
)
LINE = st.sampled_from(LINES)
CODE = st.lists(LINE, max_size=6).map("\n".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Notebooks in any order of keys, with any indentation, escapes, line ends and outputs."""
    listed = []
    for _ in range(draw(st.integers(0, 5))):
        code = draw(CODE)
        source: Any = code.splitlines(keepends=True) if draw(st.booleans()) else code
        cell = {
            "cell_type": draw(st.sampled_from(["code", "code", "code", "markdown", "raw"])),
            "source": source,
            "metadata": draw(JSON),
            "outputs": draw(st.lists(JSON, max_size=2)),
        }
        listed.append(dict(draw(st.permutations(list(cell.items())))))
    content = {"cells": listed, "metadata": {"x": draw(JSON)}, "nbformat": 4, "source": ["no cell"]}
    text = json.dumps(
        dict(draw(st.permutations(list(content.items())))),
        indent=draw(st.sampled_from([None, 0, 1, 2, 4, "\t"])),
        ensure_ascii=draw(st.booleans()),
    )
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(st.sampled_from(["", "\n", "\n\n "]))
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return mark + text.encode("utf-8", "surrogatepass")


@settings(max_examples=100)
@given(documents())
def test_a_notebook_gives_its_bytes_back(data: bytes) -> None:
    source = decode(data)
    assert source.encode(source.text) == data


@settings(max_examples=100)
@given(documents(), st.data())
def test_a_changed_cell_changes_no_other_byte(data: bytes, draws: st.DataObject) -> None:
    source = decode(data)
    readable = [each for each in source.cells if not each.opaque]
    if not readable:
        return
    cell = draws.draw(st.sampled_from(readable))
    added = draws.draw(st.sampled_from(["new = 'é'", 'new = "\\\\u00e9"', "# \U0001f680", "if a:\n    b = 1"]))
    place = cells(source.text)
    assert place is not None
    lines = source.text.split("\n")
    end = place.line(cell.number, 1) + cell.program.count("\n")
    lines[end:end] = added.split("\n")
    after = source.encode("\n".join(lines))

    changed = decode(after)
    assert [each.number for each in changed.cells] == [each.number for each in source.cells]
    now = {each.number: each for each in changed.cells}
    assert now[cell.number].source == f"{cell.source}\n{added}"
    assert all(now[each.number].source == each.source for each in source.cells if each is not cell)
    # Undone, it is the file that it was.
    text, old = after.decode("utf-8"), data.decode("utf-8")
    mark = len("\ufeff") if data.startswith(b"\xef\xbb\xbf") else 0
    start, end = (now[cell.number].start + mark, now[cell.number].end + mark)
    assert text[:start] + old[cell.start + mark : cell.end + mark] + text[end:] == old
    assert changed.encode("\n".join(changed.text.split("\n"))) == after


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "n.ipynb:1:1: not a notebook: expecting value"),
        (b'{"cells": [\n  {"cell_type": }]}', "n.ipynb:2:17: not a notebook: expecting value"),
        (b'{"cells": []} x', "n.ipynb:1:15: not a notebook: extra data"),
        (b"[]", "n.ipynb:1: not a notebook: it has no cells"),
        (b'{"nbformat": 4}', "n.ipynb:1: not a notebook: it has no cells"),
        (b'{"cells": [\n"\xff"]}', "n.ipynb:2: not a notebook: not utf-8 text"),
        (b'{"cells": [3]}', "n.ipynb:cell 1: not a notebook: a cell is no object"),
        (b'{"cells": [{"cell_type": "code", "source": 3}]}', "n.ipynb:cell 1: not a notebook: the source of a cell"),
        (b"[" * 100_000, "n.ipynb: not a notebook: it is nested too deeply"),
        (b"version https://git-lfs.github.com/spec/v1\n", "n.ipynb:1:1: not a notebook"),
    ],
)
def test_what_is_no_notebook(data: bytes, said: str) -> None:
    with pytest.raises(sources.SourceError) as caught:
        notebooks.decode(data, "n.ipynb")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "is_read"),
    [
        ({}, True),
        ({"language_info": {"name": "python"}}, True),
        ({"kernelspec": {"language": "python", "name": "x"}}, True),
        ({"language_info": {"name": "R"}}, False),
        ({"kernelspec": {"language": "julia"}}, False),
        ({"language_info": {"name": "ipython"}}, True),
    ],
)
def test_only_python_is_read(metadata: dict[str, Any], is_read: bool) -> None:
    assert bool(decode(written("x = 1", metadata=metadata)).text) is is_read


@pytest.mark.parametrize(
    "head", ["  \n%%time", "\n\n  %%time", "  %%time", "%%capture if", "\t\n%%capture out --no-stderr"]
)
def test_what_stands_above_a_cell_magic(head: str) -> None:
    source = decode(written(f"{head}\nx = 1"))
    assert source.problem == ""
    changed = decode(source.encode(source.text.replace("x = 1", "x = 2")))
    assert changed.cells[0].source == f"{head}\nx = 2"


def test_modules_are_not_what_unknown_code_changes() -> None:
    source = decode(written("import torch\nfrom torch import nn", "%timeit torch.relu(f(nn, x))"))
    assert "get_ipython(f, nn, x)" in source.text


def test_cells_are_numbered_as_people_count_them() -> None:
    data = {
        "cells": [{"cell_type": "markdown", "source": "x"}, *[{"cell_type": "code", "source": s} for s in ("", "a")]]
    }
    source = decode(json.dumps(data).encode())
    assert split(source.text) == [(0, ""), (3, "a\n")]
    assert source.parts(source.text) == {":cell 3": "a\n"}


def test_the_line_of_the_file() -> None:
    source = decode(written(["x = 1\n", "y = 2"], "z = 3\nw = 4"))
    lines = source.data.decode().split("\n")
    assert '"x = 1' in lines[source.row(1, 1) - 1]
    assert '"y = 2' in lines[source.row(1, 2) - 1]
    assert "z = 3" in lines[source.row(2, 2) - 1]


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(lambda text: text.replace("cell 2]", "cell 9]"), id="number"),
        pytest.param(lambda text: text.replace("pass  #autoaccel[cell 2]\n", ""), id="lost"),
        pytest.param(lambda text: "x = 0\n" + text, id="above all"),
        pytest.param(lambda text: text + "x = 0\n", id="below all"),
        pytest.param(lambda text: text.replace("pass  #autoaccel[end]\n", ""), id="end"),
        pytest.param(lambda text: text.replace("cell 3]\n", "cell 3]\nx = 0\n"), id="above a cell magic"),
        pytest.param(lambda text: text.replace("#autoaccel[line 0]", "#autoaccel[line 1]"), id="line"),
        pytest.param(lambda text: text.replace("print()  #autoaccel[line 0]\n", ""), id="line lost"),
    ],
)
def test_what_an_edit_must_not_do(move: Any) -> None:
    source = decode(written("a = 1", "!ls\nb = 2", "%%time\nc = 3"))
    with pytest.raises(sources.SourceError, match="self-check failed"):
        source.encode(move(source.text))


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("m = 1", "m = 1\nf(m)", "m = 1\nf(m);"),
        ("m = 1", "m = 1\nf(m)  # why", "m = 1\nf(m);  # why"),
        ("m = 1", "m = 1\nf('ü')", "m = 1\nf('ü');"),
        ("g(m)", "g(m)\nf(m)", "g(m)\nf(m)"),
        ("g(m);", "g(m);\nf(m)", "g(m);\nf(m);"),
        ("m = 1", "m = 2", "m = 2"),
        ("m = 1", "m = 1\naccel.matmul_precision()", "m = 1\naccel.matmul_precision()"),
        ("m = 1\n!ls", "n = 1\n!ls", "n = 1\n!ls"),
    ],
)
def test_a_new_last_line_shows_nothing(before: str, after: str, shown: str) -> None:
    source = decode(written(before))
    changed = source.text.replace(before.split("\n!")[0], after.split("\n!")[0])
    assert decode(source.encode(changed)).cells[0].source == shown


@pytest.mark.parametrize(
    ("codes", "problem"),
    [
        (["a = b", "b = 1"], "cell 1:1: reads `b`, which only cell 2 binds"),
        (["def f():\n    return b", "b = 1\nf()"], ""),
        (["b = 0", "a = b", "b = 1"], ""),
        (["a = [c for c in x]", "c = 1"], ""),
        (["from x import *\na = b", "b = 1"], ""),
        (["a = b", "def f():\n    b = 1"], ""),
        (["a = undefined"], ""),
        (["x = 1\n%run other.py"], "cell 1:2: `%run` may bind or delete any name"),
        (["%reset -f"], "cell 1:1: `%reset` may bind"),
        (["import os\nos.kill(os.getpid(), 9)"], "cell 1:2: `os.kill` ends the interpreter"),
        (["get_ipython().run_cell('x = 1')"], "may bind or delete any name"),
        (["get_ipython().run_line_magic('matplotlib', 'inline')"], ""),
        (["get_ipython().magic('%run x')"], "may bind or delete any name"),
        (["'google.colab' in str(get_ipython())"], ""),
    ],
)
def test_what_keeps_a_notebook_from_being_rewritten(codes: list[str], problem: str) -> None:
    source = decode(written(*codes))
    assert (problem in source.problem) if problem else source.problem == ""
    assert source.encode(source.text) == source.data
