"""The table, tuned by hand.

The rows lie on the device, where a batch is one `index_select`; they are standardised in place. On CUDA a step is one
replay of a graph: forward, backward and Adam. The last batch of an epoch, which is smaller, goes the usual way.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"full": (1_000_000, 4096, 256), "small": (100_000, 2048, 32)}
FEATURES = 100


def make_table(rows, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(loc=3.0, scale=2.0, size=(rows, FEATURES))
    weights = rng.normal(size=FEATURES)
    target = np.tanh(features @ weights / 20) + 0.3 * features[:, 0] * features[:, 1] / 9
    target += 0.1 * rng.normal(size=rows)
    features -= features.mean(axis=0)
    features /= features.std(axis=0)
    return features, (target - target.mean()) / target.std()


def shuffled(count):
    """The order of DataLoader(shuffle=True), which draws a seed for its workers and then one for the order."""
    torch.empty((), dtype=torch.int64).random_()
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def build(hidden):
    return nn.Sequential(
        nn.Linear(FEATURES, hidden),
        nn.ReLU(inplace=True),
        nn.BatchNorm1d(hidden),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.BatchNorm1d(hidden),
        nn.Linear(hidden, 1),
    )


class Trainer:
    """Eager steps; on CUDA, full batches are replayed from the fourth on."""

    def __init__(self, model, x, y, batch):
        self.model, self.x, self.y = model, x, y
        self.cuda = x.is_cuda
        options = {"capturable": True} if self.cuda else {}
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, **options)
        self.rows = torch.zeros(batch, dtype=torch.int64, device=x.device)
        self.graph, self.loss, self.done = None, None, 0

    def work(self, rows):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(self.x.index_select(0, rows)), self.y.index_select(0, rows))
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def capture(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.work(self.rows)

    def step(self, rows):
        self.done += 1
        if not self.cuda or len(rows) != len(self.rows):
            return self.work(rows)
        if self.graph is None and self.done <= 3:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                loss = self.work(rows)
            torch.cuda.current_stream().wait_stream(side)
            return loss
        if self.graph is None:
            self.capture()
        self.rows.copy_(rows)
        self.graph.replay()
        return self.loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed, the table is generated")
    args = parser.parse_args()
    count, batch, hidden = SIZES[args.size]

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    features, target = make_table(count, args.seed)
    x = torch.from_numpy(features).to(torch.float32).to(device)
    y = torch.from_numpy(target).to(torch.float32).unsqueeze(1).to(device)
    trainer = Trainer(build(hidden).to(device).train(), x, y, batch)

    step = 0
    while step < args.steps:
        for rows in shuffled(count).to(device).split(batch):
            loss = trainer.step(rows)
            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step}: loss {loss.item():.5f}")
            if step == args.steps:
                return


if __name__ == "__main__":
    main()
