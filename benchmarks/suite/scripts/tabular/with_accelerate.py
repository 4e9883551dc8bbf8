# Regression on a table: an MLP with batch normalisation, TensorDataset and DataLoader.
import argparse

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", default=1000, type=int)
parser.add_argument("--seed", default=0, type=int)
parser.add_argument("--size", default="small", choices=["small", "full"])
parser.add_argument("--data", default="", help="not needed, the table is generated")
args = parser.parse_args()

ROWS, BATCH_SIZE, HIDDEN = (1_000_000, 4096, 256) if args.size == "full" else (100_000, 2048, 32)
FEATURES = 100
LEARNING_RATE = 1e-3

accelerator = Accelerator(mixed_precision="bf16")
torch.manual_seed(args.seed)


def make_table(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(loc=3.0, scale=2.0, size=(ROWS, FEATURES))
    weights = rng.normal(size=FEATURES)
    target = np.tanh(features @ weights / 20) + 0.3 * features[:, 0] * features[:, 1] / 9
    target += 0.1 * rng.normal(size=ROWS)
    return features, target


features, target = make_table(args.seed)
features = (features - features.mean(axis=0)) / features.std(axis=0)
target = (target - target.mean()) / target.std()

x_train = torch.tensor(features, dtype=torch.float32)
y_train = torch.tensor(target, dtype=torch.float32)
train_dataset = TensorDataset(x_train, y_train)
train_loader = DataLoader(train_dataset, batch_size=BATCH_SIZE, shuffle=True)


class TabularModel(nn.Module):
    def __init__(self, n_features, hidden):
        super().__init__()
        self.layer_1 = nn.Linear(n_features, hidden)
        self.layer_2 = nn.Linear(hidden, hidden)
        self.layer_out = nn.Linear(hidden, 1)
        self.relu = nn.ReLU()
        self.batchnorm1 = nn.BatchNorm1d(hidden)
        self.batchnorm2 = nn.BatchNorm1d(hidden)

    def forward(self, inputs):
        x = self.relu(self.layer_1(inputs))
        x = self.batchnorm1(x)
        x = self.relu(self.layer_2(x))
        x = self.batchnorm2(x)
        x = self.layer_out(x)
        return x


model = TabularModel(FEATURES, HIDDEN)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)

step, epoch = 0, 0
while step < args.steps:
    epoch += 1
    epoch_loss = 0
    model.train()
    for x_batch, y_batch in train_loader:
        optimizer.zero_grad()

        y_pred = model(x_batch)

        loss = criterion(y_pred, y_batch.unsqueeze(1))

        accelerator.backward(loss)
        optimizer.step()

        epoch_loss += loss.item()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"Epoch {epoch:03}: step {step} | loss {loss.item():.5f}")
        if step == args.steps:
            break
    else:
        print(f"Epoch {epoch:03}: mean {epoch_loss / len(train_loader):.5f}")
