"""A word language model: two layers of LSTM, trained by truncated backpropagation through time."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from lightning_fabric import Fabric

parser = argparse.ArgumentParser(description="LSTM word language model")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--size", choices=["small", "full"], default="small")
parser.add_argument("--data", default="data", help="not needed: the text is generated")
parser.add_argument("--lr", type=float, default=4.0)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--bptt", type=int, default=35)
args = parser.parse_args()

if args.size == "full":
    words, tokens, emsize, nhid, batch_size = 33278, 2000000, 650, 650, 20
else:
    words, tokens, emsize, nhid, batch_size = 4000, 200000, 200, 200, 20
nlayers, dropout = 2, 0.2

fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
fabric.launch()
fabric.seed_everything(args.seed, verbose=False)


class Dictionary:
    def __init__(self):
        self.word2idx = {}
        self.idx2word = []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]


def write_text(seed):
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
    return data.view(bsz, -1).t().contiguous().to(fabric.device)


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    data = source[i : i + seq_len]
    target = source[i + 1 : i + 1 + seq_len].view(-1)
    return data, target


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout):
        super().__init__()
        self.nhid, self.nlayers = nhid, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -initrange, initrange)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        decoded = self.decoder(output)
        return decoded.view(-1, decoded.size(-1)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


def repackage_hidden(h):
    """Cut hidden states off from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


dictionary = Dictionary()
train_data = batchify(tokenize(write_text(args.seed), dictionary), batch_size)
ntokens = len(dictionary.idx2word)
model = RNNModel(ntokens, emsize, nhid, nlayers, dropout)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=args.lr)
model, optimizer = fabric.setup(model, optimizer)


def train(step):
    model.train()
    total_loss = 0.0
    hidden = model.module.init_hidden(batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=args.clip)
        optimizer.step()

        total_loss += loss.item()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} | loss {loss.item():.4f} | average {total_loss / (batch + 1):.4f}")
        if step == args.steps:
            break
    return step


step = 0
while step < args.steps:
    step = train(step)
