"""Which flags a script surely leaves off, as it stands."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import load
from autoaccel.analysis.literal_flags import is_off, is_switched_off
from autoaccel.analysis.project import Project

OFF = {
    "as written": ("ask(False)", True),
    "on": ("ask(True)", False),
    "a constant": ("FLAG = False\nask(FLAG)", True),
    "a constant that is read in a function": ("FLAG = 0\ndef main():\n    ask(FLAG)", True),
    "a constant that is on": ("FLAG = True\nask(FLAG)", False),
    "a constant of two values": ("FLAG = False\nif len(names) > 1:\n    FLAG = True\nask(FLAG)", False),
    "a constant that a function sets": (
        "FLAG = False\ndef set_up():\n    global FLAG\n    FLAG = True\ndef main():\n    ask(FLAG)",
        False,
    ),
    "a constant that is set further down": ("FLAG = False\ndef main():\n    ask(FLAG)\nFLAG = True", False),
    "a constant that text may set": ("FLAG = False\nexec(open('configurator.py').read())\nask(FLAG)", False),
    "a constant among the names": ("FLAG = False\nglobals().update(options)\nask(FLAG)", False),
    "what is unpacked": ("FLAG, other = False, True\nask(FLAG)", False),
    "counted": ("FLAG = 0\nFLAG += 1\nask(FLAG)", False),
    "an option": ("ask(options.flag)", False),
    "no name in sight": ("ask(FLAG)", False),
    "a parameter that is never given": ("def set_seed(seed, flag=False):\n    ask(flag)\nset_seed(3)", True),
    "a parameter that is given": ("def set_seed(seed, flag=False):\n    ask(flag)\nset_seed(3, True)", False),
    "a parameter that is given by name": ("def set_seed(flag=False):\n    ask(flag)\nset_seed(flag=on)", False),
    "a parameter without a default": ("def set_seed(flag):\n    ask(flag)\nset_seed(False)", False),
    "a parameter among unpacked ones": ("def set_seed(flag=False):\n    ask(flag)\nset_seed(**options)", False),
    "a parameter of what is handed on": ("def main(flag=False):\n    ask(flag)\nfire.Fire(main)", False),
    "a parameter of what is decorated": ("@app.command()\ndef main(flag=False):\n    ask(flag)\nmain()", False),
    "a parameter that is bound anew": (
        "def set_seed(seed, flag=False):\n    if seed:\n        flag = True\n    ask(flag)\nset_seed(3)",
        False,
    ),
}
SWITCHED = {
    "by a constant": ("FLAG = False\nif FLAG:\n    ask()", True),
    "in a function": (
        "FLAG = False\ndef main():\n    if FLAG:\n        for each in range(3):\n            ask()",
        True,
    ),
    "by a choice": ("FLAG = False\nanswer = ask() if FLAG else None", True),
    "on": ("FLAG = True\nif FLAG:\n    ask()", False),
    "otherwise": ("FLAG = False\nif FLAG:\n    pass\nelse:\n    ask()", False),
    "the other choice": ("FLAG = False\nanswer = None if FLAG else ask()", False),
    "in the test": ("FLAG = False\nif FLAG or ask():\n    pass", False),
    "by something else": ("FLAG = False\nif not FLAG:\n    ask()", False),
}


@pytest.mark.parametrize("case", OFF)
def test_is_off(case: str) -> None:
    text, expected = OFF[case]
    script = load(text)
    (call,) = (each for each in script.find(ast.Call) if getattr(each.func, "id", "") == "ask")
    assert is_off(script, call.args[0]) is expected


@pytest.mark.parametrize("case", SWITCHED)
def test_is_switched_off(case: str) -> None:
    text, expected = SWITCHED[case]
    script = load(text)
    (call,) = (each for each in script.find(ast.Call) if getattr(each.func, "id", "") == "ask")
    assert is_switched_off(script, call) is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("import settings\nprint(settings.FLAG)", True),
        ("import settings\nsettings.FLAG = True", False),
        ("from settings import FLAG\nFLAG = True", True),
        ("import settings\nsetattr(settings, 'FLAG', True)", False),
    ],
)
def test_other_files_may_switch_it_on(tmp_path: Path, other: str, expected: bool) -> None:
    (tmp_path / "settings.py").write_text("FLAG = False\nask(FLAG)\n")
    (tmp_path / "main.py").write_text(other + "\n")
    script = load("FLAG = False\nask(FLAG)\n", tmp_path / "settings.py", Project(sorted(tmp_path.glob("*.py"))))
    (call,) = script.find(ast.Call)
    assert is_off(script, call.args[0]) is expected
