"""The small GPT, tuned by hand.

The text is encoded once and lies on the device, where a batch is one gather; queries, keys and values are one product,
attention is the fused one on CUDA (on a CPU it is slower at these lengths); bfloat16 where the hardware has it; on
CUDA model and loss are compiled; the device is only waited for where a loss is printed.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

# block, layers, heads, width, batch, characters
SIZES = {"full": (256, 6, 6, 384, 64, 1000000), "small": (64, 2, 4, 192, 8, 200000)}


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


def make_text(length, seed):
    rng = np.random.default_rng(seed)
    letters = list("etaoinshrdlucmfwypvbgk")
    lexicon = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(500)]
    words = [lexicon[i % 500] for i in rng.zipf(1.3, length // 6)]
    return " ".join(word + ("." if i % 9 == 8 else "") for i, word in enumerate(words))


def encode(text):
    codes = np.frombuffer(text.encode("latin-1"), dtype=np.uint8)
    alphabet, ids = np.unique(codes, return_inverse=True)
    return torch.from_numpy(ids.astype(np.int64)), len(alphabet)


def shuffled(count):
    """The order of DataLoader(shuffle=True), which draws a seed for its workers and then one for the order."""
    torch.empty((), dtype=torch.int64).random_()
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if x.is_cuda:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            future = x.new_full((length, length), float("-inf")).triu(1)
            out = torch.softmax(q @ k.mT * q.size(-1) ** -0.5 + future, -1) @ v
        return self.proj(out.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, block, layers, heads, width):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(1, block, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx, targets):
        x = self.blocks(self.tok_emb(idx) + self.pos_emb)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1).float(), targets.flatten())


def initialise(model, width):
    """Draws what the plain model draws, in its order: defaults of every layer first, then normal weights."""
    nn.Embedding(model.tok_emb.num_embeddings, width)
    for _ in model.blocks:
        for inputs, outputs in 4 * [(width, width)] + [(width, 4 * width), (4 * width, width)]:
            nn.Linear(inputs, outputs)
    nn.Linear(width, model.tok_emb.num_embeddings, bias=False)
    nn.init.normal_(model.tok_emb.weight, std=0.02)
    for block in model.blocks:
        key, query, value = (torch.empty(width, width).normal_(std=0.02) for _ in range(3))
        with torch.no_grad():
            block.attn.qkv.weight.copy_(torch.cat([query, key, value]))
        for linear in (block.attn.proj, block.mlp[0], block.mlp[2]):
            nn.init.normal_(linear.weight, std=0.02)
        for linear in (block.attn.qkv, block.attn.proj, block.mlp[0], block.mlp[2]):
            nn.init.zeros_(linear.bias)
    nn.init.normal_(model.head.weight, std=0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed")
    args = parser.parse_args()
    block, layers, heads, width, batch, characters = SIZES[args.size]

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    text, vocabulary = encode(make_text(characters, args.seed))
    model = GPT(vocabulary, block, layers, heads, width)
    torch.manual_seed(args.seed)
    initialise(model, width)
    model.to(device).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    low = has_bfloat16(device)
    text, window = text.to(device), torch.arange(block + 1, device=device)

    step = 0
    while step < args.steps:
        for starts in shuffled(len(text) - block).to(device).split(batch):
            chunk = text[starts[:, None] + window]
            with torch.autocast(device.type, torch.bfloat16, enabled=low):
                loss = loss_of(chunk[:, :-1], chunk[:, 1:])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step}: loss {loss.item():.5f}")
            if step == args.steps:
                return


if __name__ == "__main__":
    main()
