"""Lines that are for IPython: which they are, what stands for them, and that they come back."""

from __future__ import annotations

import ast

import pytest

from autoaccel import notebooks, sources
from autoaccel.notebooks.magics import Hidden, cell, hide


def hidden(code: str) -> tuple[str, str]:
    """The code with placeholders, without the comments on them, and with the lines back."""
    kept = Hidden()
    text = hide(code, kept)
    assert text.count("\n") == code.count("\n")
    shown = "\n".join(line.split("  #autoaccel[")[0] for line in text.split("\n"))
    return shown, kept.restored(text, range(len(kept.lines)))


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("%matplotlib inline", "print()"),
        ("!pip install -q torch  # it's", "print()"),
        ("!pip install a \\\n  b\nx = 1", "print(\n)\nx = 1"),
        ("files = !ls *.py", "files = get_ipython()"),
        ("a, b = !ls", "a, b = get_ipython()"),
        ("d['k'] = !ls", "d['k'] = get_ipython()"),
        ("here = %pwd", "here = get_ipython()"),
        ("%time y = f(x, lr=0.1)", "y = get_ipython(y, f, x)"),
        ("%timeit -n 3 f(x)", "get_ipython(f, x)"),
        ("t = %timeit -o f(x)", "t = get_ipython(f, x)"),
        ("%lprun -f f f(x)", "get_ipython(f, x)"),
        ("model?", "print()"),
        ("torch.nn.Linear??", "print()"),
        ("?model", "print()"),
        ("%cd?", "print()"),
        ("if x:\n    !ls\n    %time f()", "if x:\n    print()\n    get_ipython(f)"),
        ("%store x", "print()"),
    ],
)
def test_what_is_hidden(code: str, shown: str) -> None:
    text, back = hidden(code)
    assert text == shown
    assert back == code
    ast.parse(text)


@pytest.mark.parametrize(
    "code",
    [
        "x = (a\n% b)",
        "x = a \\\n% b",
        "s = '''\n%time x\n!ls\n'''",
        's = f"""\n!ls {x}\n"""\n',
        "'''Really?\n'''",
        "r'''Really?\n'''",
        "# !ls",
        "# what?",
        "s = 'a = !ls'",
        "d = {\n'a': '%d'\n% 3}",
        'x["a"] = "!"',
        "a = b != c",
        "print('%s' % x)",
        "x = '\\'' ; y = [\n'!'\n]",
    ],
)
def test_what_is_python(code: str) -> None:
    ast.parse(code)
    assert hidden(code) == (code, code)


def read(code: str) -> tuple[str | None, bool, str]:
    found, word = cell(code, Hidden(), frozenset({"torch"}))
    return (None, False, word) if found is None else (found.text.split("  #autoaccel[")[0], found.opaque, word)


@pytest.mark.parametrize(
    ("code", "text", "opaque"),
    [
        ("%%bash\necho 'x", None, False),
        ("%%writefile utils.py\nimport torch", None, False),
        ("%%html\n<b>", None, False),
        ("%%!\nls", None, False),
        ("%%bash --out text\nls", "get_ipython(out, text)", True),
        ("%%timeit\ny = f(x)", "y = get_ipython(y, f, x)", True),
        ("%%cython\ncdef f(int x):\n    return torch", "f = get_ipython(cdef, f, x)", True),
        ("x = [", "x = get_ipython(x)", True),
        ("print 'x', model", "get_ipython(x, model)", True),
        ("pip install torch", "get_ipython(pip, install)", True),
    ],
)
def test_cells(code: str, text: str | None, opaque: bool) -> None:
    shown, is_opaque, _ = read(code)
    assert (shown, is_opaque) == (text, opaque)
    if shown is not None:
        ast.parse(shown)


def test_a_timed_cell_is_code() -> None:
    kept = Hidden()
    found, word = cell("%%time\n\nx = 1\n!ls", kept, frozenset())
    assert found is not None
    assert not found.opaque
    assert word == ""
    assert found.text.startswith("print()  #autoaccel[line 0]\n\nx = 1\nprint()")
    assert kept.restored(found.text, range(2)) == "%%time\n\nx = 1\n!ls"
    captured, _ = cell("%%capture out --no-stderr\nx = 1", Hidden(), frozenset())
    assert captured is not None
    assert captured.text.startswith("out = get_ipython()")


def test_a_word_on_what_cannot_be_parsed() -> None:
    assert read("x = 1\ny = (")[2] == "2: left out, cannot parse: '(' was never closed"
    assert read("%%time\nx = 1\ny = (")[2] == "3: left out, cannot parse: '(' was never closed"


def test_indentation_is_that_of_the_code_around() -> None:
    kept = Hidden()
    text = hide("for x in y:\n  !ls {x} \\\n    -l", kept)
    moved = "\n".join(f"    {line}" for line in text.split("\n"))
    assert kept.restored(moved, range(2)) == "    for x in y:\n      !ls {x} \\\n    -l"


PERCENT = b"# %%\n!pip install torch\n%matplotlib inline\n# %% train\nx = f(1)\n"


def test_percent_scripts() -> None:
    source = notebooks.decode(PERCENT, "n.py")
    ast.parse(source.text)
    assert source.encode(source.text) == PERCENT
    assert source.encode(source.text.replace("f(1)", "g(1)")) == PERCENT.replace(b"f(1)", b"g(1)")
    assert source.parts(source.text) == {"": PERCENT.decode()}


@pytest.mark.parametrize(
    "data",
    [b"# %%\nx = 1\n", b"!pip install torch\n", b"# %%\nx = (1\n", b"# %%\n!ls\nx = (\n", b"# %%\ns = '''\n!ls\n'''\n"],
)
def test_other_scripts_are_read_as_they_are(data: bytes) -> None:
    assert notebooks.decode(data, "n.py") == sources.decode(data, "n.py")


def test_a_percent_script_of_which_nothing_is_known() -> None:
    source = notebooks.decode(b"# %%\n%run x.py\n", "n.py")
    assert source.problem == "n.py:2: `%run` may bind or delete any name; the script is left alone"
