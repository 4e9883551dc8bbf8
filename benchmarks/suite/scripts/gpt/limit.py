"""The small GPT without its text: one batch on the device, again and again."""

import argparse
from pathlib import Path

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


def repeated(work):
    """`work`, on CUDA as one replay of a graph."""
    if not torch.cuda.is_available():
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    def replay():
        graph.replay()
        return loss

    return replay


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed")
    args = parser.parse_args()
    block, layers, heads, width, batch, _ = SIZES[args.size]
    vocabulary = 24

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = GPT(vocabulary, block, layers, heads, width).to(device).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True, capturable=device.type == "cuda"
    )
    loss_of = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    chunk = torch.randint(vocabulary, (batch, block + 1), device=device)
    low = has_bfloat16(device)

    def work():
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            loss = loss_of(chunk[:, :-1], chunk[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    again = repeated(work)

    step = 0
    while step < args.steps:
        loss = again()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
