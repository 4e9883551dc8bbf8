"""A word language model: two layers of LSTM, trained by truncated backpropagation through time."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from lightning_fabric import Fabric
from data import Dictionary, batchify, get_batch, tokenize, write_text
from model import RNNModel, repackage_hidden

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

dictionary = Dictionary()
train_data = batchify(tokenize(write_text(words, tokens, args.seed), dictionary), batch_size).to(fabric.device)
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
        data, targets = get_batch(train_data, i, args.bptt)
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
