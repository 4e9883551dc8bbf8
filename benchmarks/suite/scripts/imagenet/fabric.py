import argparse
import os

import torch
import torch.nn as nn
import torch.optim as optim
import torchvision.datasets as datasets
import torchvision.transforms as transforms
from lightning_fabric import Fabric
from original import AverageMeter, ResNet


def main():
    parser = argparse.ArgumentParser(description="ImageNet training")
    parser.add_argument("--steps", default=1000, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--size", default="small", choices=["small", "full"])
    parser.add_argument("--data", default="data")
    args = parser.parse_args()

    fabric = Fabric(accelerator="auto", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(args.seed, verbose=False)
    image_size, batch_size = (224, 64) if args.size == "full" else (64, 8)

    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_dataset = datasets.ImageFolder(
        os.path.join(args.data, "imagenet"),
        transforms.Compose([
            transforms.RandomResizedCrop(image_size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            normalize,
        ]),
    )
    train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=batch_size, shuffle=True)

    if args.size == "full":
        model = ResNet([3, 4, 6, 3], 64, len(train_dataset.classes))
    else:
        model = ResNet([1, 1, 1, 1], 32, len(train_dataset.classes))
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.1 * batch_size / 256, momentum=0.9, weight_decay=1e-4)
    model, optimizer = fabric.setup(model, optimizer)
    train_loader = fabric.setup_dataloaders(train_loader)

    losses = AverageMeter()
    step = 0
    model.train()
    while step < args.steps:
        for images, target in train_loader:
            output = model(images)
            loss = criterion(output, target)
            losses.update(loss.item())

            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()

            step += 1
            if step % 50 == 0 or step == args.steps:
                print(f"step {step} loss {losses.avg:.4f}", flush=True)
                losses.reset()
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
