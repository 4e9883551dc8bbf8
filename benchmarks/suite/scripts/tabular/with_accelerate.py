# Regression on a table: an MLP with batch normalisation, TensorDataset and DataLoader.
import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from original import FEATURES, LEARNING_RATE, TabularModel, make_table


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default=1000, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--size", default="small", choices=["small", "full"])
    parser.add_argument("--data", default="", help="not needed, the table is generated")
    args = parser.parse_args()

    rows, batch_size, hidden = (1_000_000, 4096, 256) if args.size == "full" else (100_000, 2048, 32)

    accelerator = Accelerator(mixed_precision="bf16")
    torch.manual_seed(args.seed)

    features, target = make_table(rows, args.seed)
    x_train = torch.tensor(features, dtype=torch.float32)
    y_train = torch.tensor(target, dtype=torch.float32)
    train_dataset = TensorDataset(x_train, y_train)
    train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True)

    model = TabularModel(FEATURES, hidden)
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


if __name__ == "__main__":
    main()
