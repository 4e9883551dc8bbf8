"""Random comments in random scripts: unused ones go, and nothing else does."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoaccel.rewriting import engine, registry
from autoaccel.rewriting.baseline import _continued_lines
from autoaccel.rewriting.linting import lint
from autoaccel.rewriting.places import Places, newline_of, raw_lines
from tests.rewriting.edited_texts import applied
from tests.rewriting.test_baseline import CALLS, DEFINITIONS, UNUSED
from tests.rewriting.test_properties import scripts

OURS = (
    "# autoaccel: ignore",
    "# autoaccel: ignore[AA101]",
    "# autoaccel: ignore[AA101, AA401] why",
    "# autoaccel: ignore[toy-aa401 ,AA9]",
    "# autoaccel: ignore[AA777]",
    "# autoaccel: off",
    "# autoaccel: off[AA1]",
    "# autoaccel: on",
    "# autoaccel: on[AA1]",
    "# autoaccel: file-ignore[AA4] see #4",
    "# noqa: E501,AA101 long",
    "# noqa: AA401",
)
OTHERS = ("# type: ignore", "# keep", "# nosec")
KEPT = ("AA777", "E501", *OTHERS)


@st.composite
def commented(draw: st.DrawFn) -> str:
    text = draw(scripts())
    places = Places(text, ast.parse(text))
    lines, newline = raw_lines(text), newline_of(text)
    free = [line for line in range(1, len(lines) + 1) if line not in _continued_lines(places)]
    wanted = draw(st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=5))
    for number, alone in wanted:
        fragments = draw(st.lists(st.sampled_from((*OURS, *OTHERS)), min_size=1, max_size=3))
        line = free[number % len(free)]
        body = lines[line - 1].rstrip("\r\n")
        comment = "  ".join(fragments)
        if alone and line - 1 in (0, *free):
            lines[line - 1] = f"{comment}{newline}{lines[line - 1]}"
        else:
            lines[line - 1] = f"{body}  {comment}{lines[line - 1][len(body) :]}"
    return "".join(lines)


def counts(text: str) -> Counter[str]:
    return Counter({word: text.count(word) for word in KEPT if word in text})


@example("x = f(a, b)\n\n    # autoaccel: ignore")  # the last line, below a blank one
@given(commented())
@settings(max_examples=40)
def test_random_comments(text: str) -> None:
    rules = [CALLS, DEFINITIONS, UNUSED]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "rules", lambda: tuple(rules))
        result = engine.rewrite(text, None, rules)
        assert not result.errors
        assert counts(result.after) == counts(text)
        assert engine.rewrite(result.after, None, rules).after == result.after
        assert not [each for each in lint(result.after, None, rules, changes=True).findings if each.changes]

        only_comments = engine.rewrite(text, None, [UNUSED, *(rule for rule in rules if rule is not UNUSED)])
        assert only_comments.after == result.after
        for record in lint(text, None, rules, changes=True).findings:
            if record.code == UNUSED.code:
                assert ast.dump(ast.parse(applied(text, record.changes))) == ast.dump(ast.parse(text))
