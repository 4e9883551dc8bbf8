"""What the runtime needs to decide. It imports torch, which analysing scripts does without, so its numbers stand here;
`tests/library_models/test_runtime_trials.py` holds them to what the runtime does."""

from __future__ import annotations

from typing import Final

STEPS_TO_LOWER: Final = 30
"""Steps after which low precision is adopted at the earliest, however long they take and however much it brings."""

STEPS_TO_COMPILE: Final = 44
"""Steps after which compiled code is kept at the earliest."""
