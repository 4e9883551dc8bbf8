"""Which expressions surely are whole numbers: what is not known to be one is none; and how great these may be."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.integers import at_most, integral

# By case: a script; whether the argument of its last `seen(…)` surely is a whole number.
CASES = {
    "a negative literal": ("seen(-3)", True),
    "a remainder": ("seen(7 % 2)", True),
    "a division": ("seen(8 / 2)", False),
    "a power, of which the exponent may be negative": ("seen(2 ** n)", False),
    "a sum of lengths": ("seen(len(a) + len(b))", True),
    "a sum with something unknown": ("seen(len(a) + b)", False),
    "the number of elements": ("seen(x.numel())", True),
    "the number of dimensions": ("seen(x.dim())", True),
    "one size": ("seen(x.shape[-1] * 2)", True),
    "one of all sizes": ("seen(x.size()[-1] * 2)", True),
    "several of all sizes": ("seen(x.size()[:2])", False),
    "a part of one size": ("seen(x.size(0)[0])", False),
    "all sizes": ("seen(x.size())", False),
    "several sizes": ("seen(x.shape[:2])", False),
    "converted": ("seen(int(x))", True),
    "rounded, which may be a tensor": ("seen(round(x))", False),
    "a `len` of their own": ("def len(x):\n    return 0.5\nseen(len(x))", False),
    "an `int` from elsewhere": ("from elsewhere import int\nseen(int(x))", False),
    "an attribute": ("seen(args.n)", False),
    "copied names": ("a = 1\nb = a\nc = b\nseen(c)", True),
    "several targets": ("a = b = 3\nseen(b)", True),
    "bound in either branch": ("if t:\n    n = 4\nelse:\n    n = len(x)\nseen(n)", True),
    "unknown in one branch": ("n = 4\nif t:\n    n = read()\nseen(n)", False),
    "added to": ("n = 4\nn += 0.5\nseen(n)", False),
    "scaled in a loop": ("n = 1\nwhile t:\n    n = n / 2\nseen(n)", False),
    "of the module": ("n = 4\ndef f():\n    seen(n)", True),
    "of the module, bound by another function": (
        "n = 4\ndef g():\n    global n\n    n = 0.5\ndef f():\n    seen(n)",
        False,
    ),
    "of a function, bound by an inner one": (
        "def f():\n    n = 4\n    def g():\n        nonlocal n\n        n = 0.5\n    def h():\n        seen(n)",
        False,
    ),
    "bound by a context": ("with open(x) as n:\n    seen(n)", False),
    "a parameter": ("def f(n):\n    seen(n)", False),
    "a parameter with a default": ("def f(n=4):\n    seen(n)", False),
    "a parameter that is annotated": ("def f(n: int):\n    seen(n)", True),
    "a parameter that may be None": ("def f(n: int | None):\n    seen(n)", False),
    "a parameter that is a float": ("def f(n: float):\n    seen(n)", False),
    "parameters of which each is a number": ("def f(*n: int):\n    seen(n)", False),
    "keywords of which each is a number": ("def f(**n: int):\n    seen(n)", False),
    "a name that is annotated": ("n: int = read()\nseen(n)", True),
    "of a range": ("for i in range(n):\n    seen(i)", True),
    "of a range in a comprehension": ("[seen(i) for i in range(n)]", True),
    "of a `range` of their own": ("range = steps\nfor i in range(n):\n    seen(i)", False),
    "of anything": ("for i in xs:\n    seen(i)", False),
    "counted": ("for i, x in enumerate(xs):\n    seen(i)", True),
    "what is counted": ("for i, x in enumerate(xs):\n    seen(x)", False),
    "pairs": ("for i in enumerate(xs):\n    seen(i)", False),
    "the first size": ("n, *rest = x.shape\nseen(n)", True),
    "the last size": ("*rest, n = x.shape\nseen(n)", True),
    "the other sizes": ("n, *rest = x.shape\nseen(rest)", False),
    "of what a function gives": ("n, c = sizes(x)\nseen(n)", False),
    "of a size, which has no parts": ("n, c = x.size(0)\nseen(n)", False),
    "of a pair": ("n, c = 3, 0.5\nseen(n)", True),
    "of the end of a pair": ("*rest, n = 0.5, 3\nseen(n)", True),
    "of a pair in a pair": ("(n, m), c = x.shape, 3\nseen(n)", False),
    "behind what is unpacked": ("a, n, b = *xs, 3\nseen(n)", False),
    "of too few": ("*a, n, b, c = 3, 4\nseen(n)", False),
}


@pytest.mark.parametrize("case", CASES)
def test_integral(case: str) -> None:
    text, expected = CASES[case]
    script = load(text + "\n")
    seen = [each for each in script.find(ast.Call) if script.source(each.func) == "seen"]
    assert integral(script, seen[-1].args[0]) is expected


# By case: a script; the greatest number that the argument of its last `seen(…)` may be.
AT_MOST: dict[str, tuple[str, int | None]] = {
    "a literal": ("seen(12)", 12),
    "a truth value": ("seen(True)", None),
    "a negative literal": ("seen(-3)", None),
    "a product of names": ("n, m = 3, 4\nseen(n * m + 1)", 13),
    "a difference": ("n = 10\nseen(n - 4)", 10),
    "a difference from something unknown": ("seen(x - 4)", None),
    "a quotient": ("seen(10 // 3)", 10),
    "by something unknown": ("seen(10 // x)", None),
    "from the command line": ("import sys\nseen(int(sys.argv[1]))", None),
    "bound twice": ("n = 3\nif t:\n    n = 4\nseen(n)", None),
    "counted on": ("n = 3\nfor _ in x:\n    n += 1\nseen(n)", None),
    "of a loop": ("for n in range(3):\n    seen(n)", None),
    "itself": ("n = n + 1\nseen(n)", None),
    "an attribute": ("seen(args.n)", None),
    "a list": ("seen(len([1, 2, 3]))", 3),
    "a list of others": ("seen(len([1, *x]))", None),
    "a list that grows": ("a = [1, 2]\na.append(3)\nseen(len(a))", None),
    "a list that is written to": ("a = [1, 2]\na[:] = x\nseen(len(a))", None),
    "a mapping": ("seen(len({'a': 1, 'b': 2}))", 2),
    "a mapping of others": ("seen(len({'a': 1, **x}))", None),
    "words": ("text = 'to be or not to be'\nseen(len(set(text.split())))", 6),
    "words of several lines": ("lines = ['to be', 'or not']\nseen(len(' '.join(lines).split()))", 4),
    "words of lines that come later": (
        "lines = ['to be']\nlines.append(read())\nseen(len(' '.join(lines).split()))",
        None,
    ),
    "words of a file": ("seen(len(open('a').read().split()))", None),
    "characters": ("seen(len('abc'))", 3),
    "numbered words": (
        "words = list(set('to be or'.split()))\ntable = {w: i for i, w in enumerate(words)}\nseen(len(table))",
        3,
    ),
    "pairs": ("seen(len([a + b for a in 'abc' for b in 'abc']))", None),
    "a range": ("n = 7\nseen(len([i for i in range(n)]))", 7),
    "a `len` of their own": ("def len(x):\n    return 5000\nseen(len([1]))", None),
    "a parameter": ("def f(n):\n    seen(n)\nf(3)", None),
}


@pytest.mark.parametrize(("text", "expected"), AT_MOST.values(), ids=AT_MOST.keys())
def test_at_most(text: str, expected: int | None) -> None:
    script = load(text)
    call = [each for each in ast.walk(script.tree) if isinstance(each, ast.Call) and script.source(each.func) == "seen"]
    assert at_most(script, call[-1].args[0]) == expected
