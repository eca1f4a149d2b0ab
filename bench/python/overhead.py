"""What Python costs: a call of a small model above the step itself, and capture and compilation.

    ./dev python bench/python/overhead.py

Every figure is the median of several rounds in one process, with the quartiles beside it.
"""

import statistics
import time

import torch
from torch import nn

import sluice


def timed(call, rounds, count=1):
    """Median and quartiles of the seconds that a call takes."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    quarters = statistics.quantiles(times, n=4)
    return quarters[1], quarters[0], quarters[2]


def line(what, times, scale, unit):
    middle, low, high = (t * scale for t in times)
    print(f"{what:44} {middle:9.1f} {unit}   ({low:.1f} to {high:.1f})")


class Mnist(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 256), nn.Linear(256, 10)

    def forward(self, x, labels):
        x = nn.functional.max_pool2d(self.conv1(x), 2).relu()
        x = nn.functional.max_pool2d(self.conv2(x), 2).relu()
        x = self.fc2(self.fc1(x.flatten(1)).relu())
        return x, nn.functional.cross_entropy(x, labels)


class WithLoss(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, labels):
        x = self.body(x)
        return x, nn.functional.cross_entropy(x, labels)


def call_overhead():
    net = Mnist()
    model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.01))
    x, y = torch.randn(1, 1, 28, 28), torch.randint(0, 10, (1,))
    model(x, y)
    core, inputs = model._core, [sluice._convert.to_core(x), sluice._convert.to_core(y)]
    step = timed(lambda: core.run_here(inputs), 30, 50)
    whole = timed(lambda: model(x, y), 30, 50)
    line("MNIST step, batch 1, in C++", step, 1e6, "us")
    line("the same called from Python", whole, 1e6, "us")
    print(f"{'Python above C++':44} {1e6 * (whole[0] - step[0]):9.1f} us")


def compile_time(name, make, image):
    def once():
        net = WithLoss(make())
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.01))
        start = time.perf_counter()
        model.compile(torch.randn(2, 3, image, image), torch.randint(0, 1000, (2,)))
        times.append(time.perf_counter() - start)
        model.destroy()

    times = []
    for _ in range(3):
        once()
    line(f"capture and compile {name}", (statistics.median(times), min(times), max(times)), 1e3, "ms")


def main():
    call_overhead()
    try:
        import torchvision
    except ImportError:
        print("torchvision is not installed: no networks to compile")
        return
    compile_time("resnet18", torchvision.models.resnet18, 224)
    compile_time("vit_b_16", torchvision.models.vit_b_16, 224)


if __name__ == "__main__":
    main()
