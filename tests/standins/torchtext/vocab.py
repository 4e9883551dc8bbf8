"""Vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class Vocab:
    def __init__(self, tokens: Sequence[str]) -> None:
        self.itos = list(tokens)
        self.stoi = {token: index for index, token in enumerate(tokens)}
        self.default: int | None = None

    def __len__(self) -> int:
        return len(self.itos)

    def __call__(self, tokens: Iterable[str]) -> list[int]:
        return [self[token] for token in tokens]

    def __getitem__(self, token: str) -> int:
        if token not in self.stoi and self.default is not None:
            return self.default
        return self.stoi[token]

    def set_default_index(self, index: int) -> None:
        self.default = index

    def lookup_tokens(self, indices: Iterable[int]) -> list[str]:
        return [self.itos[index] for index in indices]


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]],
    min_freq: int = 1,
    specials: Sequence[str] = (),
    special_first: bool = True,
) -> Vocab:
    counts: Counter[str] = Counter()
    for tokens in iterator:
        counts.update(tokens)
    words = sorted(
        (word for word, count in counts.items() if count >= min_freq), key=lambda word: (-counts[word], word)
    )
    return Vocab([*specials, *words] if special_first else [*words, *specials])
