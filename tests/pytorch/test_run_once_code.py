"""What runs a single time."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.run_once_code import runs_once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("run()\n", True, id="module"),
        pytest.param("for _ in range(3):\n    run()\n", False, id="loop"),
        pytest.param("while True:\n    run()\n", False, id="while"),
        pytest.param("print([run() for _ in range(3)])\n", False, id="comprehension"),
        pytest.param("if __name__ == '__main__':\n    run()\n", True, id="guard"),
        pytest.param("def go():\n    run()\n\ngo()\n", True, id="one call"),
        pytest.param("def go():\n    run()\n\ngo()\ngo()\n", False, id="two calls"),
        pytest.param("def go():\n    run()\n\nfor _ in range(3):\n    go()\n", False, id="called in a loop"),
        pytest.param("def go():\n    run()\n", False, id="nobody known calls it"),
        pytest.param("def go():\n    run()\n\ngo()\nstart(go)\n", False, id="handed over as well"),
        pytest.param("def go():\n    run()\n\ndef main():\n    go()\n\nmain()\n", True, id="a chain"),
        pytest.param("def go():\n    run()\n    go()\n", False, id="calls itself only"),
        pytest.param("class A:\n    def go(self):\n        run()\n\nA().go()\n", False, id="method"),
        pytest.param("def outer():\n    def go():\n        run()\n    go()\n\nouter()\n", False, id="closure"),
        pytest.param("lambda: run()\n", False, id="lambda"),
    ],
)
def test_runs_once(text: str, expected: bool) -> None:
    script = load(text)
    place = next(call for call in script.find(ast.Call) if isinstance(call.func, ast.Name) and call.func.id == "run")
    assert runs_once(script, place) is expected
