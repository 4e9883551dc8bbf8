# A convolutional network for pictures of 28 x 28.
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        if size == "full":
            self.features = nn.Sequential(
                nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            )
            self.fc1 = nn.Linear(64 * 7 * 7, 128)
            self.fc2 = nn.Linear(128, 10)
        else:  # strides instead of pooling keep the small network cheap
            self.features = nn.Sequential(
                nn.Conv2d(1, 8, 7, stride=5, padding=1), nn.ReLU(),
                nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            )
            self.fc1 = nn.Linear(16 * 3 * 3, 32)
            self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        return self.fc2(x)
