"""Trains a small GPT on characters. The model is written out in full, as in the usual lectures."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from original import CharDataset, GPT, GPTConfig, make_text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--size", type=str, default="small", choices=("small", "full"))
    parser.add_argument("--data", type=str, default=None, help="unused, the text is made up")
    args = parser.parse_args()

    set_seed(args.seed)
    accelerator = Accelerator(mixed_precision="bf16")
    full = args.size == "full"
    text = make_text(1000000 if full else 200000, args.seed)
    config = GPTConfig(len(set(text)), *((256, 6, 6, 384) if full else (64, 2, 4, 192)))
    train_dataset = CharDataset(text, config.block_size)
    model = GPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    loader = DataLoader(train_dataset, shuffle=True, batch_size=64 if full else 8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    model.train()
    step = 0
    while step < args.steps:
        for x, y in loader:
            logits, loss = model(x, y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            train_loss = loss.item()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step}: loss {train_loss:.5f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
