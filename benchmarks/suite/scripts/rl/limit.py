"""Deep Q-learning without the simulator: one batch of transitions on the device, again and again."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from original import GAMMA, LR, TAU
from expert import SIZES


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
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed")
    args = parser.parse_args()
    num_envs, batch, hidden = SIZES[args.size]

    torch.manual_seed(args.seed)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    layers = [nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2)]
    policy = nn.Sequential(*layers).to(device)
    target = copy.deepcopy(policy).requires_grad_(False)
    parameters, averages = list(policy.parameters()), list(target.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=LR, amsgrad=True, fused=True, capturable=cuda)
    obs, states, next_states = (torch.randn(n, 4, device=device) for n in (num_envs, batch, batch))
    actions, done = torch.randint(2, (batch, 1), device=device), torch.zeros(batch, device=device)

    def loss_of(states, next_states, actions, done):
        wanted = 1.0 + GAMMA * target(next_states).amax(1) * (1 - done)
        return F.smooth_l1_loss(policy(states).gather(1, actions).squeeze(1), wanted)

    if cuda:
        loss_of = torch.compile(loss_of, dynamic=False)

    def work():
        # on a CPU such small products are slower in bfloat16
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=cuda):
            policy(obs).argmax(1)
        with torch.autocast("cuda", torch.bfloat16, enabled=cuda):
            loss = loss_of(states, next_states, actions, done)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(parameters, 100)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, parameters, TAU)
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
