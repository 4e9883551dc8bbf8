"""Steps that the text marks: one line, whatever stands around it."""

from __future__ import annotations

import pytest

from autoaccel.measure.observing.training import NAME, marked


@pytest.mark.parametrize("rest", ["", "  # one more", "\t"])
def test_the_line_that_counts_gets_the_call(rest: str) -> None:
    text = f"step = 0\nwhile step < 5:\n    work()\n    step += 1{rest}\n"
    assert marked(text) == f"step = 0\nwhile step < 5:\n    work()\n    step += 1; {NAME}(){rest}\n"


def test_a_loss_is_handed_over() -> None:
    assert marked("while True:\n    step += 1\n", loss="loss") == f"while True:\n    step += 1; {NAME}(loss)\n"


@pytest.mark.parametrize("text", ["", "for i in a:\n    step += 2\n", "if a:\n    step += 1\n    step += 1\n"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not one"):
        marked(text)
