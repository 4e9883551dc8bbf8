"""Translation with a GRU encoder, a GRU decoder and Bahdanau attention, one word after another.

The language is made up: the translation is the sentence backwards, in other words.
"""

import argparse

import torch.nn as nn
from lightning_fabric import Fabric
from torch import optim
from torch.utils.data import DataLoader
from original import AttnDecoderRNN, EncoderRNN, PAD_token, PairDataset, collate


def train_step(fabric, batch, encoder, decoder, optimizer, criterion):
    sources, lengths, targets = batch
    optimizer.zero_grad()

    encoder_outputs, encoder_hidden = encoder(sources, lengths.cpu())
    decoder_outputs = decoder(encoder_outputs, encoder_hidden, sources == PAD_token, targets)
    loss = criterion(decoder_outputs.view(-1, decoder_outputs.size(-1)), targets.view(-1))
    fabric.backward(loss)
    fabric.clip_gradients(encoder, optimizer, max_norm=1.0)
    fabric.clip_gradients(decoder, optimizer, max_norm=1.0)
    optimizer.step()
    return loss.item()


def main(args):
    fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(args.seed, verbose=False)
    if args.size == "full":
        n_pairs, n_words, lengths, hidden_size, batch_size = 50000, 10000, (10, 50), 512, 128
    else:
        n_pairs, n_words, lengths, hidden_size, batch_size = 4000, 1000, (5, 15), 128, 32
    dataset = PairDataset(n_pairs, n_words, *lengths)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, collate_fn=collate)
    encoder = fabric.setup_module(EncoderRNN(n_words, hidden_size))
    decoder = fabric.setup_module(AttnDecoderRNN(hidden_size, n_words))
    optimizer = optim.Adam(list(encoder.parameters()) + list(decoder.parameters()), lr=0.002)
    optimizer = fabric.setup_optimizers(optimizer)
    loader = fabric.setup_dataloaders(loader)
    criterion = nn.NLLLoss(ignore_index=PAD_token)

    step, total = 0, 0.0
    while step < args.steps:
        for batch in loader:
            loss = train_step(fabric, batch, encoder, decoder, optimizer, criterion)
            step += 1
            total += loss
            if step % 50 == 0 or step == args.steps:
                print(f"step {step} loss {loss:.4f} mean {total / step:.4f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--data", help="not needed: the sentences are made up")
    main(parser.parse_args())
