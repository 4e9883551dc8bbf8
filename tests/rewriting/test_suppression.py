"""Comments that keep the tool away from code."""

from __future__ import annotations

import pytest

from autoaccel.rewriting.finding import Code, Replace
from autoaccel.rewriting.suppression import suppressing, suppressions
from tests.rewriting.subject import Subject, toy


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        pytest.param("x = f(a)\n", False, id="nothing"),
        pytest.param("x = f(a)  # autoaccel: ignore\n", True, id="all rules"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA201] slow disk\n", True, id="code and reason"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA2]\n", True, id="prefix"),
        pytest.param("x = f(a)  # autoaccel: ignore[toy-aa201]\n", True, id="name"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA101, AA201]\n", True, id="several"),
        pytest.param("x = f(a)  # autoaccel: ignore[AA101]\n", False, id="another code"),
        pytest.param("x = f(a)  # AutoAccel:ignore[aa201]\n", True, id="spelling"),
        pytest.param("x = f(a)  # noqa: AA201\n", True, id="noqa"),
        pytest.param("x = f(a)  # noqa: E501,AA201\n", True, id="noqa with others"),
        pytest.param("x = f(a)  # noqa: E501\n", False, id="noqa of others"),
        pytest.param("x = f(a)  # noqa\n", False, id="bare noqa is for other tools"),
        pytest.param("# autoaccel: ignore[AA201]\nx = f(a)\n", True, id="above"),
        pytest.param("# autoaccel: ignore[AA201]\n# more\n\nx = f(a)\n", True, id="above, with more between"),
        pytest.param("# autoaccel: ignore[AA201]\ny = 1\nx = f(a)\n", False, id="above another statement"),
        pytest.param("y = 1  # autoaccel: ignore\nx = f(a)\n", False, id="beside another statement"),
        pytest.param("x = g(\n    b,  # autoaccel: ignore\n    f(a),\n)\n", True, id="within the statement"),
        pytest.param("if f(a):\n    y = 1  # autoaccel: ignore\n", False, id="in the block below"),
        pytest.param("# autoaccel: ignore\n@d\ndef g():\n    pass\nx = f(a)\n", False, id="above a decorator"),
        pytest.param("# autoaccel: off\nx = f(a)\n# autoaccel: on\n", True, id="switched off"),
        pytest.param("# autoaccel: off\ny = 1\n# autoaccel: on\nx = f(a)\n", False, id="switched on again"),
        pytest.param("y = 1\n# autoaccel: off[AA2]\nx = f(a)\n", True, id="switched off to the end"),
        pytest.param("x = f(a)\n# autoaccel: file-ignore[AA2]\n", True, id="whole file"),
        pytest.param("x = f(a)\n# autoaccel: file-ignore[AA1]\n", False, id="whole file, another topic"),
        pytest.param("x = f(a), '# autoaccel: ignore'\n", False, id="a string is no comment"),
    ],
)
def test_suppression(text: str, silent: bool) -> None:
    under = Subject(text)
    node = under.expr("f(a)")
    finding = toy("AA201").finding(node, "toy", Replace(node, Code("h")))
    assert (suppressing(finding, suppressions(under.places), under.places) is not None) is silent


def test_a_finding_that_would_edit_a_protected_statement_is_silenced() -> None:
    under = Subject("x = f(a)\ny = g(b)  # autoaccel: ignore\n")
    edits = [Replace(under.expr(source), Code("h")) for source in ("f(a)", "g(b)")]
    finding = toy().finding(under.expr("f(a)"), "toy", *edits)
    assert suppressing(finding, suppressions(under.places), under.places) is not None
