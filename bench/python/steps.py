"""Training steps of ResNet-18 and of a GPT called from Python, against the same networks written in C++.

    ./dev bench resnet gpt        # builds the programs that this starts
    ./dev python bench/python/steps.py [launches]

One device of one thread. Every launch is a process of its own and the sides take turns; a figure is the
median over launches of their median step. The ratio is Python to C++.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/support"))

import torch
import torch.nn.functional as F
import torch_timing
from torch import nn

import sluice

VOCABULARY, CONTEXT, HEADS, BATCH = 128, 64, 4, 16


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, ids, targets):
        mask = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x, mask)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCABULARY), targets.view(-1))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        import torchvision

        self.body = torchvision.models.resnet18()

    def forward(self, images, labels):
        return F.cross_entropy(self.body(images), labels)


def gpt(width, layers):
    net = Gpt(width, layers)
    step = [torch.randint(0, VOCABULARY, (BATCH, CONTEXT)) for _ in range(2)]
    return net, torch.optim.AdamW(net.parameters(), lr=1e-3), step


def resnet():
    net = ResNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return net, optimizer, [torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))]


#: name: the network, steps that are timed, and the program with its arguments
CASES = {
    "GPT 2 x 64": (lambda: gpt(64, 2), 100, ["bench_gpt", "--train", "width64"]),
    "GPT 4 x 256": (lambda: gpt(256, 4), 12, ["bench_gpt", "--train", "width256"]),
    "ResNet-18": (resnet, 7, ["bench_resnet", "--train"]),
}


def train(name):
    make, steps, _ = CASES[name]
    net, optimizer, step = make()
    model = sluice.trainingModel(net, sluice.Options().threads(1), optimizer)
    torch_timing.report(lambda: model(*step), 1, max(3, steps // 10), steps)


def microseconds(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])["us_per_update"]


def main(launches):
    print(f"{'network':14} {'C++ ms':>9} {'Python ms':>10} {'ratio':>7}   (lowest to highest of each pair)")
    for name, (_, _, (program, *arguments)) in CASES.items():
        pairs = []
        for _ in range(launches):
            own = microseconds([sys.executable, __file__, "--train", name])
            pairs.append((microseconds([str(ROOT / "build/bin" / program), *arguments]), own))
        ratios = [own / theirs for theirs, own in pairs]
        theirs, own = (statistics.median(times) / 1e3 for times in zip(*pairs))
        print(f"{name:14} {theirs:9.2f} {own:10.2f} {statistics.median(ratios):7.3f}   "
              f"({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
