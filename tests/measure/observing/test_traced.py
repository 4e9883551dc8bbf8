"""What runs are asked for that are compared with several processes: places, files, float64, seeds of each rank."""

from __future__ import annotations

from pathlib import Path

from autoaccel.measure.observing.run_record import FINISHED
from tests.measure.observing.scripts import EPOCH, SETUP, Observe

SAVES = """
import os
torch.save({"model": model.state_dict(), "epoch": 1}, "net.pt")
torch.save(model, open("whole.pt", "wb"))
os.makedirs("out/inner", exist_ok=True)
open("out/log.txt", "w").close()
os.replace("out/log.txt", "out/kept.txt")
open("/dev/null", "w").close()
"""


def test_where_losses_go_backward_and_files_are_written(observe: Observe, tmp_path: Path) -> None:
    record = observe(SETUP + EPOCH + SAVES, traced=True, protected=(str(tmp_path),))
    assert record.ending == FINISHED, record.failure
    script = str(tmp_path / "train.py")
    lines = Path(script).read_text(encoding="utf-8").splitlines()
    backward = lines.index("    loss.backward()") + 1
    assert {each.where for each in record.losses} == {f"{script}:{backward}"}
    found = {Path(each.path).relative_to(tmp_path.resolve()).as_posix(): each for each in record.written}
    assert list(found) == ["net.pt", "whole.pt", "out/log.txt", "out/kept.txt"]
    first = next(number for number, line in enumerate(lines, 1) if "net.pt" in line)
    assert [each.where for each in found.values()] == [f"{script}:{first + at}" for at in (0, 1, 3, 4)]
    assert found["net.pt"].holds[0] == "model.0.weight: torch.float32 of 8 x 4"
    assert found["net.pt"].holds[-1] == "epoch: int"
    assert found["whole.pt"].holds == tuple(each.removeprefix("model.") for each in found["net.pt"].holds[:-1])


def test_no_lines_are_noted_unless_they_are_asked_for(observe: Observe, tmp_path: Path) -> None:
    record = observe(SETUP + EPOCH + SAVES, protected=(str(tmp_path),))
    assert {each.where for each in record.losses} == {""}


def test_everything_in_double_precision(observe: Observe) -> None:
    text = SETUP.replace("TensorDataset(torch.randn(24, 4)", "TensorDataset(torch.randn(24, 4, dtype=torch.float32)")
    record = observe(text + EPOCH + "\nprint(x.dtype, torch.ones(1).float().dtype)", double=True)
    assert record.ending == FINISHED, record.failure
    assert record.printed[-1] == "torch.float64 torch.float64"
    assert {each.dtype for each in record.state if each.kind == "parameter"} == {"float64"}


def test_ranks_share_what_the_script_seeds_and_nothing_else(observe: Observe) -> None:
    draws = "import random, torch\nprint(random.random(), torch.rand(1).item())\n"
    ranks = [observe(f"{draws}torch.manual_seed(3)\nprint(torch.rand(1).item())", rank=rank) for rank in (0, 1, 1)]
    first, other, again = (record.printed for record in ranks)
    assert first[0] != other[0] and first[1] == other[1]
    assert other == again
    assert first == observe(f"{draws}torch.manual_seed(3)\nprint(torch.rand(1).item())").printed
