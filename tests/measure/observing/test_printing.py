"""What an observed script prints, which of its lines are run, and what the runtime decides meanwhile."""

from __future__ import annotations

from pathlib import Path

from autoaccel.measure.observing.output import Decisions, lines
from tests.measure.observing.scripts import EPOCH, SETUP, Observe


def test_lines_are_what_a_terminal_shows() -> None:
    assert lines("") == ()
    assert lines("a\n\nb") == ("a", "", "b")
    assert lines("10 %\r50 %\r100 %\ndone\r\n") == ("100 %", "done")


def test_everything_printed_is_there_in_order(observe: Observe) -> None:
    text = """
    import contextlib, ctypes, io, os, subprocess, sys
    print("one")
    sys.stdout.write("two\\nthree\\n")
    sys.stdout.flush()
    subprocess.run(["echo", "four"])
    os.write(1, b"five\\n")
    ctypes.CDLL(None).puts(b"six")
    ctypes.CDLL(None).fflush(None)
    with contextlib.redirect_stdout(io.StringIO()):
        print("not seen")
    print("not printed", file=sys.stderr)
    sys.stdout = open("log", "w")
    print("not seen either")
    sys.stdout = sys.__stdout__
    print("a\\rb")
    print("last", end="")
    """
    assert observe(text).printed == ("one", "two", "three", "four", "five", "six", "b", "last")


def test_lines_that_were_reached(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(
        "def used(x):\n    if x:\n        return 1\n    return 2\n\n\ndef unused():\n    return 3\n"
    )
    text = SETUP + "from helper import used\nused(1)\nif used(1) == 2:\n    print('never')\n" + EPOCH
    record = observe(text, lines=True)
    assert record.reached[str(tmp_path / "helper.py")] == (1, 2, 3, 7)
    script, number = record.reached[str(tmp_path / "train.py")], len(SETUP.splitlines()) + 1
    assert {number, number + 1, number + 2, number + 5, number + 10} <= set(script)
    assert number + 3 not in script
    assert list(record.files) == [str(tmp_path / "train.py"), str(tmp_path / "helper.py")]
    plain = observe(text)
    assert (plain.reached, plain.losses, plain.random) == ({}, record.losses, record.random)


def test_files_that_no_other_text_can_stand_for_are_not_among_those_of_the_run(
    observe: Observe, tmp_path: Path
) -> None:
    """A change in them would never be made, and seem to make no difference."""
    for name in ("helper", "executed"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    text = """
    import sys, types
    import helper
    module = sys.modules["executed"] = types.ModuleType("executed")
    module.__file__ = "executed.py"
    exec(open("executed.py").read(), vars(module))
    """
    assert observe(text).files == (str(tmp_path / "train.py"), str(tmp_path / "helper.py"))


def test_lines_in_threads(observe: Observe, tmp_path: Path) -> None:
    text = """import threading
def work():
    x = 1
thread = threading.Thread(target=work)
thread.start()
"""
    assert observe(text, lines=True).reached[str(tmp_path / "train.py")] == (1, 2, 3, 4, 5)


def test_rewritten_texts_have_the_lines_of_the_file(observe: Observe, tmp_path: Path) -> None:
    before = "import torch\nx = 1\nif x == 2:\n    x = 3\nprint(x)\n"
    after = "import torch\nfrom autoaccel import runtime as accel\n\nx = 2\nif x == 2:\n    x = 3\nprint(x)\n"
    record = observe(before, lines=True, texts={str(tmp_path / "train.py"): after})
    assert record.printed == ("3",)
    assert record.reached[str(tmp_path / "train.py")] == (1, 2, 3, 4, 5)


def test_decisions_are_taken_and_swallowed(observe: Observe) -> None:
    text = """
    import sys
    sys.stderr = sys.stdout
    from autoaccel import runtime as accel
    accel.num_workers()
    accel.num_workers()
    accel.pin_memory()
    """
    record = observe(text)
    assert record.printed == ()
    found = [(each.topic, each.value) for each in record.decisions]
    assert found == [("num_workers", "0"), ("pin_memory", "off")]
    assert record.decisions[1].reason == "no accelerator"
    loud = observe(text, {"AUTOACCEL_LOG": "info"})
    assert loud.decisions == record.decisions
    assert loud.printed == tuple(f"autoaccel: {each.topic}: {each.value} ({each.reason})" for each in loud.decisions)


def test_the_last_decision_on_a_topic_stands(observe: Observe) -> None:
    text = """
    from autoaccel.runtime.environment import Decision, note
    note("amp", Decision("trying", "bfloat16 against float32"))
    note("resident", Decision(True, "fits"))
    note("amp", Decision("bfloat16", "1.8x faster over 12 laps"))
    """
    found = [(each.topic, each.value, each.reason) for each in observe(text).decisions]
    assert found == [("amp", "bfloat16", "1.8x faster over 12 laps"), ("resident", "on", "fits")]


def test_a_reason_may_hold_anything() -> None:
    found = Decisions.read("compile Net: off (TorchRuntimeError: f(x): no (really))")
    assert found is not None
    assert (found.topic, found.value, found.reason) == ("compile Net", "off", "TorchRuntimeError: f(x): no (really)")
    assert Decisions.read("something else") is None
