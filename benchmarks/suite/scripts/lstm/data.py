"""A made-up text, as numbers and in batches."""

import numpy as np
import torch


class Dictionary:
    def __init__(self):
        self.word2idx = {}
        self.idx2word = []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]


def write_text(words, tokens, seed):
    """Words as frequent as in a language; every third one follows from the word before."""
    random = np.random.default_rng(seed)
    ids = random.zipf(1.2, tokens) % words
    ids[2::3] = (ids[1::3][: len(ids[2::3])] * 7 + 3) % words
    return " ".join(f"w{i}" for i in ids)


def tokenize(text, dictionary):
    return torch.tensor([dictionary.add_word(word) for word in text.split()], dtype=torch.int64)


def batchify(data, bsz):
    """Columns of continuous text: (length, bsz)."""
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    data = source[i : i + seq_len]
    target = source[i + 1 : i + 1 + seq_len].view(-1)
    return data, target
