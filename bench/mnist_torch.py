"""The MNIST network of bench_mnist in PyTorch.

    mnist_torch.py contiguous|channels_last single|foreach
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import torch_timing

torch = torch_timing.import_torch()
F = torch.nn.functional

BATCH = 40
STEPS = 10
FORMAT = torch.channels_last if sys.argv[1] == "channels_last" else torch.contiguous_format


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 10, 5)
        self.conv2 = torch.nn.Conv2d(10, 20, 5)
        self.fc1 = torch.nn.Linear(320, 256)
        self.fc2 = torch.nn.Linear(256, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


net = Network().to(memory_format=FORMAT)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=sys.argv[2] == "foreach")
images = torch.randn(STEPS, BATCH, 1, 28, 28)
labels = torch.randint(0, 10, (STEPS, BATCH))
batches = [(images[i].contiguous(memory_format=FORMAT), labels[i]) for i in range(STEPS)]


def step():
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()


torch_timing.report(step, STEPS, 10, 50)
