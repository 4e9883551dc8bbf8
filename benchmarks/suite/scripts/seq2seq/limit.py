"""Translation without sentences: one batch on the device, again and again."""

import argparse
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

PAD, SOS, EOS = 0, 1, 2
# pairs, words, lengths, width, batch
SIZES = {"full": (50000, 10000, (10, 50), 512, 128), "small": (4000, 1000, (5, 15), 128, 32)}


def has_bfloat16(device):
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "avx512_bf16" in cpuinfo.read_text()


def make_pairs(count, words, shortest, longest):
    """Padded sources and targets with their ends, and the lengths."""
    sources, targets = (torch.full((count, longest + 1), PAD) for _ in range(2))
    lengths = []
    for i in range(count):
        length = random.randint(shortest, longest)
        source = [3 + int(random.random() ** 2 * (words - 3)) for _ in range(length)]
        target = [3 + (word * 5 + 1) % (words - 3) for word in reversed(source)]
        sources[i, : length + 1] = torch.tensor([*source, EOS])
        targets[i, : length + 1] = torch.tensor([*target, EOS])
        lengths.append(length + 1)
    return sources, targets, torch.tensor(lengths)


def attend_and_advance(state, embedded, keys, gates, mask, weight, bias, score):
    """One step of the decoder: (batch, width) to the next. `keys` and `gates` are the projected encoder states."""
    width = state.size(1)
    projected = F.linear(state, weight, bias)  # the query's width, then the three gates
    energy = torch.tanh(projected[:, None, :width] + keys) @ score
    attention = torch.softmax(energy.float() + mask, dim=1).to(gates.dtype)
    reset, update, new = (embedded + torch.bmm(attention[:, None], gates)[:, 0]).chunk(3, dim=1)
    state_reset, state_update, state_new = projected[:, width:].chunk(3, dim=1)
    reset, update = torch.sigmoid(reset + state_reset), torch.sigmoid(update + state_update)
    return torch.lerp(torch.tanh(new + reset * state_new), state, update)


class Translator(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.encoder = nn.ModuleDict({"embedding": nn.Embedding(words, width, padding_idx=PAD)})
        self.encoder["gru"] = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.ModuleDict({"embedding": nn.Embedding(words, width, padding_idx=PAD)})
        self.decoder["query"], self.decoder["key"] = nn.Linear(width, width), nn.Linear(width, width)
        self.decoder["score"] = nn.Linear(width, 1)  # its bias changes no attention
        self.decoder["gru"] = nn.GRU(2 * width, width, batch_first=True)
        self.decoder["out"] = nn.Linear(width, words)
        self.advance = attend_and_advance

    def forward(self, sources, targets, lengths):
        encoder, decoder = self.encoder, self.decoder
        states, _ = encoder["gru"](encoder["embedding"](sources))
        state = states[torch.arange(len(sources), device=sources.device), lengths - 1]
        mask = torch.zeros(sources.shape, device=sources.device).masked_fill_(sources == PAD, float("-inf"))
        gru, width = decoder["gru"], states.size(2)
        keys = decoder["key"](states)
        of_words, of_context = gru.weight_ih_l0.split(width, dim=1)
        gates = F.linear(states, of_context)
        inputs = F.pad(targets[:, :-1], (1, 0), value=SOS)
        embedded = F.linear(decoder["embedding"](inputs), of_words, gru.bias_ih_l0)
        weight = torch.cat([decoder["query"].weight, gru.weight_hh_l0])
        bias = torch.cat([decoder["query"].bias, gru.bias_hh_l0])
        score = decoder["score"].weight[0]
        state, weight, bias, score = (part.to(gates.dtype) for part in (state, weight, bias, score))
        outputs = []
        for of_word in embedded.unbind(1):
            state = self.advance(state, of_word, keys, gates, mask, weight, bias, score)
            outputs.append(state)
        logits = decoder["out"](torch.stack(outputs, dim=1))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=PAD)


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
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed: the sentences are made up")
    args = parser.parse_args()
    _, words, (shortest, longest), width, batch = SIZES[args.size]

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    sources, targets, lengths = (part.to(device) for part in make_pairs(batch, words, shortest, longest))
    model = Translator(words, width).to(device).train()
    if cuda:
        model.advance = torch.compile(attend_and_advance, dynamic=False)
    parts = [list(model.encoder.parameters()), list(model.decoder.parameters())]
    optimizer = torch.optim.Adam(parts[0] + parts[1], lr=0.002, fused=True, capturable=cuda)
    low = has_bfloat16(device)

    def work():
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            loss = model(sources, targets, lengths)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for parameters in parts:
            nn.utils.clip_grad_norm_([each for each in parameters if each.grad is not None], 1.0)
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
