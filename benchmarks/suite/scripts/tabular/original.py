# Regression on a table: an MLP with batch normalisation, TensorDataset and DataLoader.
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 100
LEARNING_RATE = 1e-3


def make_table(rows, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(loc=3.0, scale=2.0, size=(rows, FEATURES))
    weights = rng.normal(size=FEATURES)
    target = np.tanh(features @ weights / 20) + 0.3 * features[:, 0] * features[:, 1] / 9
    target += 0.1 * rng.normal(size=rows)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    target = (target - target.mean()) / target.std()
    return features, target


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default=1000, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--size", default="small", choices=["small", "full"])
    parser.add_argument("--data", default="", help="not needed, the table is generated")
    args = parser.parse_args()

    rows, batch_size, hidden = (1_000_000, 4096, 256) if args.size == "full" else (100_000, 2048, 32)

    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)

    features, target = make_table(rows, args.seed)
    x_train = torch.tensor(features, dtype=torch.float32)
    y_train = torch.tensor(target, dtype=torch.float32)
    train_dataset = TensorDataset(x_train, y_train)
    train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True)

    model = TabularModel(FEATURES, hidden)
    model.to(device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    step, epoch = 0, 0
    while step < args.steps:
        epoch += 1
        epoch_loss = 0
        model.train()
        for x_batch, y_batch in train_loader:
            x_batch, y_batch = x_batch.to(device), y_batch.to(device)
            optimizer.zero_grad()

            y_pred = model(x_batch)

            loss = criterion(y_pred, y_batch.unsqueeze(1))

            loss.backward()
            optimizer.step()

            epoch_loss += loss.item()
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"Epoch {epoch:03}: step {step} | loss {loss.item():.5f}")
            if step == args.steps:
                break
        else:
            print(f"Epoch {epoch:03}: mean {epoch_loss / len(train_loader):.5f}")


if __name__ == "__main__":
    main()
