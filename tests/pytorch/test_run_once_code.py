"""What runs a single time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
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
        pytest.param("for x in range(3):\n    pass\nrun()\n", True, id="behind a loop"),
        pytest.param("for x in range(3):\n    pass\nelse:\n    run()\n", True, id="the end of a loop"),
        pytest.param("if x:\n    run()\n", True, id="branch"),
        pytest.param("with open('x'):\n    try:\n        run()\n    finally:\n        pass\n", True, id="blocks"),
        pytest.param("while run():\n    pass\n", False, id="condition of a loop"),
        pytest.param("print({x: run() for x in y})\n", False, id="comprehension of a table"),
        pytest.param("print([x for x in y if run()])\n", False, id="condition of a comprehension"),
        pytest.param("print(x for x in y for z in run())\n", False, id="inner loop of a comprehension"),
        pytest.param("async def go():\n    run()\n\ngo()\n", False, id="coroutine"),
        pytest.param("def go():\n    run()\n\n[go() for _ in x]\n", False, id="called in a comprehension"),
        pytest.param("def go():\n    run()\n\nif x:\n    go()\nelse:\n    go()\n", False, id="called in two branches"),
        pytest.param("def go():\n    run()\n\ngo()\nThread(target=go).start()\n", False, id="started as well"),
        pytest.param("def go():\n    run()\n\ngo()\nT = {'go': go}\n", False, id="in a table as well"),
        pytest.param("def a():\n    run()\n    b()\ndef b():\n    a()\na()\n", False, id="a circle"),
        pytest.param(
            "def go():\n    run()\n\ndef main():\n    for _ in x:\n        go()\n\nmain()\n",
            False,
            id="a chain with a loop",
        ),
        pytest.param("class A:\n    run()\n", True, id="body of a class"),
    ],
)
def test_runs_once(text: str, expected: bool) -> None:
    script = load(text)
    place = next(call for call in script.find(ast.Call) if isinstance(call.func, ast.Name) and call.func.id == "run")
    assert runs_once(script, place) is expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"one.py": "from main import go\ngo()\n"}, True),
        ({"one.py": "from main import go\ngo()\n", "two.py": "import main\nmain.go()\n"}, False),
        ({"one.py": "import main\nfor _ in x:\n    main.go()\n"}, False),
        ({"one.py": "go()\n"}, False),
    ],
    ids=["one call", "two calls", "called in a loop", "a function of that name"],
)
def test_called_from_other_files(tmp_path: Path, others: dict[str, str], expected: bool) -> None:
    files = {"main.py": "def go():\n    run()\n", **others}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    script = load(files["main.py"], tmp_path / "main.py", Project([tmp_path / name for name in files]))
    [place] = script.find(ast.Call)
    assert runs_once(script, place) is expected
