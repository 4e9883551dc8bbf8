"""The network's forward without the test set: one batch on the device, again and again."""

import argparse

import torch
import torch.nn.functional as F
from expert import ResNet, SIZES, Unit, has_bfloat16

# images, pixels, classes, batch, blocks


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
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--data", help="not needed: the images are generated")
    args = parser.parse_args()
    _, pixels, classes, batch, blocks = SIZES[args.size]

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if has_bfloat16(device) else torch.float32
    torch.backends.cudnn.benchmark = True
    model = ResNet(blocks, classes).eval()
    for module in model.modules():
        if isinstance(module, Unit):
            module.fold()
    model = model.to(device, dtype, memory_format=torch.channels_last)
    forward = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    images = torch.randn(batch, 3, pixels, pixels, device=device).to(dtype, memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,), device=device)

    @torch.no_grad()
    def work():
        outputs = forward(images)
        loss, predicted = F.cross_entropy(outputs, labels), outputs.argmax(1)
        (predicted == labels).sum()
        return loss

    again = repeated(work)

    step = 0
    while step < args.steps:
        loss = again()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
