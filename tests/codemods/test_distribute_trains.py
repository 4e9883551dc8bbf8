"""What the rules write trains the same by one, two and three processes: fixtures, in float64, over gloo."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from autoaccel.rewriting import engine, registry
from tests.runtime.distributed.test_distributed import found, launch, status

pytestmark = pytest.mark.slow

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
SCRIPTS: Final = (
    "distribute/plain",
    "distribute/two_models",
    "distribute/trainer_class",
    "distribute/cuda_by_a_flag",
    "distribute-replicas/made_in_the_wrapper",
)
RANKS: Final = (1, 2, 3)
RULES: Final = tuple(
    rule for rule in registry.rules() if rule.command == "distribute" or rule.name == "discarded-gradients"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each launch: of the script as it was, and of the rewritten one."""
    folder = tmp_path_factory.mktemp("ranks")
    plan = []
    for name in SCRIPTS:
        text = (FIXTURES / f"{name}.in.py").read_text()
        result = engine.rewrite(text, Path("/train.py"), RULES)
        assert result.applied
        for kind, content in (("original", text), ("rewritten", result.after)):
            path = folder / name / f"{kind}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            for ranks in RANKS if kind == "rewritten" else (1,):
                place = str(folder / name / f"{kind} {ranks}")
                log = {"AUTOACCEL_LOG": "info"}
                arguments = [str(path)]
                plan.append(
                    {"ranks": ranks, "run": "script", "arguments": arguments, "folder": place, "environment": log}
                )
    launch(plan)
    return folder


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("ranks", RANKS)
def test_it_trains_the_same(runs: Path, name: str, ranks: int) -> None:
    original, rewritten = runs / name / "original 1", runs / name / f"rewritten {ranks}"
    assert status(rewritten) == [0] * ranks, (rewritten / f"err.{ranks - 1}").read_text()
    expected, seen = found(original), found(rewritten)
    assert len(expected["losses"]) > 2
    assert seen["losses"] == (expected["losses"] if ranks == 1 else pytest.approx(expected["losses"], rel=1e-12, abs=0))
    assert seen["saved"] == expected["saved"] and seen["saved"]
    shared = f"each of {ranks} ranks has its rows" in (rewritten / "err.0").read_text()
    assert shared is (ranks > 1)
    assert (rewritten / "out.0").read_text() == (original / "out.0").read_text()
    assert all((rewritten / f"out.{rank}").read_text() == "" for rank in range(1, ranks))
