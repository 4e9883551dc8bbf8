"""Trains a small GPT on characters. The model is written out in full, as in the usual lectures."""

import argparse
import math

import numpy as np
import torch
import torch.nn as nn
from lightning_fabric import Fabric, seed_everything
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class GPTConfig:
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd):
        self.vocab_size, self.block_size = vocab_size, block_size
        self.n_layer, self.n_head, self.n_embd = n_layer, n_head, n_embd


class CharDataset(Dataset):
    # blocks of characters and the characters that follow
    def __init__(self, data, block_size):
        chars = sorted(set(data))
        self.stoi = {ch: i for i, ch in enumerate(chars)}
        self.data, self.block_size = data, block_size

    def __len__(self):
        return len(self.data) - self.block_size

    def __getitem__(self, idx):
        chunk = self.data[idx : idx + self.block_size + 1]
        dix = [self.stoi[s] for s in chunk]
        x = torch.tensor(dix[:-1], dtype=torch.long)
        y = torch.tensor(dix[1:], dtype=torch.long)
        return x, y


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.key = nn.Linear(config.n_embd, config.n_embd)
        self.query = nn.Linear(config.n_embd, config.n_embd)
        self.value = nn.Linear(config.n_embd, config.n_embd)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.register_buffer("mask", torch.tril(torch.ones(1, 1, config.block_size, config.block_size)))
        self.n_head = config.n_head

    def forward(self, x):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln1 = nn.LayerNorm(config.n_embd)
        self.ln2 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd)
        )

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.block_size, config.n_embd))
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.data.zero_()

    def forward(self, idx, targets=None):
        b, t = idx.size()
        x = self.blocks(self.tok_emb(idx) + self.pos_emb[:, :t, :])
        logits = self.head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def make_text(length, seed):
    """Sentences of made-up words."""
    rng = np.random.default_rng(seed)
    letters = list("etaoinshrdlucmfwypvbgk")
    lexicon = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(500)]
    words = [lexicon[i % 500] for i in rng.zipf(1.3, length // 6)]
    return " ".join(word + ("." if i % 9 == 8 else "") for i, word in enumerate(words))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--size", type=str, default="small", choices=("small", "full"))
    parser.add_argument("--data", type=str, default=None, help="unused, the text is made up")
    args = parser.parse_args()

    seed_everything(args.seed, verbose=False)
    fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
    fabric.launch()
    full = args.size == "full"
    text = make_text(1000000 if full else 200000, args.seed)
    config = GPTConfig(len(set(text)), *((256, 6, 6, 384) if full else (64, 2, 4, 192)))
    train_dataset = CharDataset(text, config.block_size)
    model = GPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    loader = DataLoader(train_dataset, shuffle=True, batch_size=64 if full else 8)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)

    model.train()
    step = 0
    while step < args.steps:
        for x, y in loader:
            logits, loss = model(x, y)
            optimizer.zero_grad()
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            train_loss = loss.item()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step}: loss {train_loss:.5f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
