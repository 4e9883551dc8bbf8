"""Generated text: pairs of short sentences in which the second follows from the first."""

from __future__ import annotations

import os
import random


def pairs(split: str) -> list[tuple[str, str]]:
    """`(source, target)` sentences; the target is the source reversed, in other words."""
    count = int(
        os.environ.get("STANDIN_SAMPLES", "300") if split == "train" else os.environ.get("STANDIN_TEST_SAMPLES", "100")
    )
    draw = random.Random(f"pairs {split}")  # own generator: a script's random stream stays untouched
    sentences = [[draw.randrange(40) for _ in range(draw.randint(3, 9))] for _ in range(count)]
    return [(" ".join(f"w{n}" for n in words), " ".join(f"v{n}" for n in reversed(words))) for words in sentences]
