"""The ResNet-18 of bench_resnet in PyTorch.

    resnet_torch.py contiguous|channels_last
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import torch_timing

torch = torch_timing.import_torch()
nn, F = torch.nn, torch.nn.functional

BATCH = 4
FORMAT = torch.channels_last if sys.argv[1] == "channels_last" else torch.contiguous_format


class Block(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or inputs != channels:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, width=64, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inputs, stages = width, []
        for stage in range(4):
            channels = width << stage
            stages += [Block(inputs, channels, 1 if stage == 0 else 2), Block(channels, channels, 1)]
            inputs = channels
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        return self.fc(self.stages(x).mean((2, 3)))


net = ResNet().to(memory_format=FORMAT)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
images = torch.randn(BATCH, 3, 224, 224).contiguous(memory_format=FORMAT)
labels = torch.randint(0, 1000, (BATCH,))


def step():
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(net(images), labels).backward()
    optimizer.step()


torch_timing.report(step, 1, 2, 7)
