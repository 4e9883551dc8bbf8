"""Fields and iterators over examples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from ..vocab import Vocab  # noqa: TID252 - the absolute name exists on a script's search path alone


class FieldVocab(Vocab):
    vectors: torch.Tensor

    def load_vectors(self, name: Any) -> None:
        """Random vectors of a hundred dimensions; the generator is put back."""
        state = torch.get_rng_state()
        torch.manual_seed(0)
        self.vectors = torch.randn(len(self), 100)
        torch.set_rng_state(state)


class Field:
    vocab: FieldVocab

    def __init__(self, sequential: bool = True, lower: bool = False, tokenize: Any = None) -> None:
        self.sequential = sequential

    def tokens(self, value: str) -> list[str]:
        return value.split() if self.sequential else [value]

    def build_vocab(self, *examples: Sequence[Any]) -> None:
        seen = {
            token for part in examples for example in part for name in example.of(self) for token in self.tokens(name)
        }
        self.vocab = FieldVocab(["<unk>", "<pad>", *sorted(seen)] if self.sequential else ["<unk>", *sorted(seen)])

    def batch(self, values: Sequence[str], device: Any) -> torch.Tensor:
        if not self.sequential:
            return torch.tensor([self.vocab[value] for value in values], device=device)
        rows = [self.vocab(self.tokens(value)) for value in values]
        longest = max(map(len, rows))
        return torch.tensor([row + [1] * (longest - len(row)) for row in rows], device=device).t().contiguous()


class BucketIterator:
    """Batches with one attribute a field; shuffled with `random`, as the original does."""

    def __init__(self, examples: Sequence[Any], batch_size: int, device: Any, train: bool) -> None:
        self.examples, self.batch_size, self.device, self.train = examples, batch_size, device, train

    @classmethod
    def splits(cls, parts: Sequence[Sequence[Any]], batch_size: int, device: Any = None) -> tuple[BucketIterator, ...]:
        return tuple(cls(part, batch_size, device, index == 0) for index, part in enumerate(parts))

    def init_epoch(self) -> None:
        """An epoch starts by itself."""

    def __len__(self) -> int:
        return -(-len(self.examples) // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order = (
            random.sample(range(len(self.examples)), len(self.examples)) if self.train else range(len(self.examples))
        )
        for start in range(0, len(self.examples), self.batch_size):
            chosen = [self.examples[index] for index in order[start : start + self.batch_size]]
            columns = {
                name: field.batch([example.values[name] for example in chosen], self.device)
                for name, field in chosen[0].fields.items()
            }
            yield SimpleNamespace(batch_size=len(chosen), **columns)
