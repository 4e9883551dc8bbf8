"""Translation with a GRU encoder, a GRU decoder and Bahdanau attention, one word after another.

The language is made up: the translation is the sentence backwards, in other words.
"""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD_token, SOS_token, EOS_token = 0, 1, 2


class PairDataset(Dataset):
    def __init__(self, n_pairs, n_words, min_length, max_length):
        self.pairs = []
        for _ in range(n_pairs):
            length = random.randint(min_length, max_length)
            source = [3 + int(random.random() ** 2 * (n_words - 3)) for _ in range(length)]
            target = [3 + (word * 5 + 1) % (n_words - 3) for word in reversed(source)]
            self.pairs.append((source, target))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        source, target = self.pairs[index]
        return torch.tensor(source + [EOS_token]), torch.tensor(target + [EOS_token])


def collate(batch):
    sources, targets = zip(*batch)
    lengths = torch.tensor([len(source) for source in sources])
    sources = pad_sequence(sources, batch_first=True, padding_value=PAD_token)
    targets = pad_sequence(targets, batch_first=True, padding_value=PAD_token)
    return sources, lengths, targets


class EncoderRNN(nn.Module):
    def __init__(self, n_words, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(n_words, hidden_size, padding_idx=PAD_token)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def forward(self, input, lengths):
        packed = pack_padded_sequence(self.embedding(input), lengths, batch_first=True, enforce_sorted=False)
        outputs, hidden = self.gru(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        return outputs, hidden


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2)
        scores = scores.masked_fill(mask, float("-inf")).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, n_words):
        super().__init__()
        self.embedding = nn.Embedding(n_words, hidden_size, padding_idx=PAD_token)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, n_words)

    def forward(self, encoder_outputs, encoder_hidden, mask, targets):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.full((batch_size, 1), SOS_token, dtype=torch.long).to(targets.device)
        decoder_hidden = encoder_hidden
        decoder_outputs = []
        for i in range(targets.size(1)):
            output, decoder_hidden = self.forward_step(decoder_input, decoder_hidden, encoder_outputs, mask)
            decoder_outputs.append(output)
            decoder_input = targets[:, i].unsqueeze(1)  # teacher forcing
        decoder_outputs = torch.cat(decoder_outputs, dim=1)
        return F.log_softmax(decoder_outputs, dim=-1)

    def forward_step(self, input, hidden, encoder_outputs, mask):
        embedded = self.embedding(input)
        context, _ = self.attention(hidden.permute(1, 0, 2), encoder_outputs, mask)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden


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
