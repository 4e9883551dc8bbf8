"""Words of our own that were replaced by those of the field, and do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GONE = {
    r"runs kernel by kernel": "is not compiled",
    r"is no pattern\b(?!\.)": "is not a valid pattern",
    r"leads in a circle": "circular",
    r"(loss|losses) is no number": "is NaN",
    r"what the work is worth": "automatic",
    r"\b(hazards|judging|saturation|courses|laps|gating|jitter)\.py": "blockers, evaluation_only, …",
    r"\bfrom autoaccel\.script\b": "autoaccel.analysis, autoaccel.pytorch",
    r"\b(Lane|HostThread|NotUnderstood|_with_company|_CALM)\b": "CopyStream, FetchThread, Unsupported, …",
    r"\b(graph_loss|graph_places|inference_only|tensor_types|execution_count|unused_forwards|patched_names)\b": (
        "graph_requirement, object_references, evaluation_only, tensor_type_aliases, run_once_code, …"
    ),
    r"\b(pinning\.py|call_context|worker_cost|tree_index|lost_graph|ALIKE\b(?<!_ALIKE))\b": (
        "pin_memory, execution_mode, worker_count, syntax_index, needs_graph, SAME_DTYPE"
    ),
    r"\b(runs_forward|is_direct_forward|calls_by_phase|gradients_off|switches_off|off_by_callers)\b": (
        "runs_model, calls_model, backward_or_step_calls, in_grad_mode, has_grad_mode, called_in_grad_mode"
    ),
    r"\bgraph_capture\b": "cuda_graphs: a graph alone is autograd's",
    r"\b(home_of|training_homes|class Home|Escapes|is_step|is_forward)\b": "scope, file, LowPrecisionFlow, …",
}


@pytest.mark.parametrize("pattern", GONE)
def test_a_word_of_our_own_does_not_come_back(pattern: str) -> None:
    files = [*(ROOT / "autoaccel").rglob("*.py"), *(ROOT / "codemods").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()} (say: {GONE[pattern]})"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == []
