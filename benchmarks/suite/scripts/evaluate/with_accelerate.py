"""How good is the network on the test set? Loss and accuracy, and the predictions for a look at the mistakes."""

import argparse

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader
from original import ResNet, make_test_set


@torch.no_grad()
def evaluate(model, loader, criterion, step, steps):
    model.eval()
    total_loss, correct, seen = 0.0, 0, 0
    predictions = []
    for images, labels in loader:
        outputs = model(images)
        loss = criterion(outputs, labels)
        total_loss += loss.item() * labels.size(0)
        predicted = outputs.argmax(dim=1)
        correct += (predicted == labels).sum().item()
        seen += labels.size(0)
        predictions.append(predicted.cpu())
        step += 1
        if step % 50 == 0 or step == steps:
            print(f"step {step}: loss {total_loss / seen:.4f}")
        if step == steps:
            break
    return total_loss / seen, correct / seen, torch.cat(predictions), step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200, help="batches; the test set is gone through again and again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--data", default="./data", help="not needed: the images are generated")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    accelerator = Accelerator(mixed_precision="bf16")

    if args.size == "full":
        dataset = make_test_set(2048, 224, 1000, args.seed)
        model, batch_size = ResNet([3, 4, 6, 3], 1000), 64
    else:
        dataset = make_test_set(512, 48, 100, args.seed)
        model, batch_size = ResNet([1, 1, 1, 1], 100), 32
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=False)
    model, loader = accelerator.prepare(model, loader)
    criterion = nn.CrossEntropyLoss()

    step = 0
    while step < args.steps:
        loss, accuracy, predictions, step = evaluate(model, loader, criterion, step, args.steps)
        common = torch.bincount(predictions).argmax().item()
        print(f"loss {loss:.4f}, accuracy {100 * accuracy:.2f} %, most often predicted: class {common}")


if __name__ == "__main__":
    main()
