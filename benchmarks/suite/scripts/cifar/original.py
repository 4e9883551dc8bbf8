'''Train CIFAR10 with PyTorch.'''
import argparse

import torch
import torch.nn as nn
import torch.optim as optim
import torchvision
import torchvision.transforms as transforms
from models import ResNet

parser = argparse.ArgumentParser(description='PyTorch CIFAR10 Training')
parser.add_argument('--steps', default=1000, type=int)
parser.add_argument('--lr', default=0.02, type=float, help='learning rate')
parser.add_argument('--seed', default=0, type=int)
parser.add_argument('--size', default='small', choices=['small', 'full'])
parser.add_argument('--data', default='data')
args = parser.parse_args()

torch.manual_seed(args.seed)
device = 'cuda' if torch.cuda.is_available() else 'cpu'

# Data
transform_train = transforms.Compose([
    transforms.RandomCrop(32, padding=4),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
])

trainset = torchvision.datasets.CIFAR10(root=args.data, train=True, download=True, transform=transform_train)
trainloader = torch.utils.data.DataLoader(trainset, batch_size=128 if args.size == 'full' else 16, shuffle=True)

# Model
if args.size == 'full':
    net = ResNet([2, 2, 2, 2])
else:
    net = ResNet([1, 1, 1, 1], width=32)
net = net.to(device)

criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)

step = 0
train_loss = 0
correct = 0
total = 0
batches = 0
while step < args.steps:
    net.train()
    for batch_idx, (inputs, targets) in enumerate(trainloader):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()

        train_loss += loss.item()
        batches += 1
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum().item()
        step += 1
        if step % 50 == 0 or step == args.steps:
            print('step %d loss %.4f accuracy %.3f%%' % (step, train_loss / batches, 100. * correct / total), flush=True)
            train_loss = correct = total = batches = 0
        if step == args.steps:
            break
    scheduler.step()
