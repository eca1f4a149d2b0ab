#!/usr/bin/python3
"""Trains a small character-level GPT on text, cut into a pipeline, and lets it continue a prompt."""

import torch
from torch import nn
from torch.nn import functional as F

import sluice
from command_line import (
    UsageError, add_profile, parser, real_number, require_finite, run_program, whole_number
)

TEXT = """\
A lock gate holds the water back until the boat is inside, and a sluice lets the water in.
The water rises, the boat rises with it, and the next gate opens.
One lock after the other lifts the boat over the hill, and many boats are on the way at the same time.
A network is cut in the same way: each device holds a part, and each part works on another batch.
"""
VOCABULARY = 128  # ASCII


class Layer(nn.Module):
    """Attention and two linear layers, each behind a norm and beside the identity."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        # Made of known numbers, so the mask becomes a constant of the graph.
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))


class Gpt(nn.Module):
    """Tied embeddings, learned positions. Returns the logits, and the loss if there are targets."""

    def __init__(self, context, width, heads, layers, dropout):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.1)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, ids, targets=None):
        with sluice.Block("embedding"):
            x = self.tokens(ids) + self.positions[: ids.shape[1]]
        for number, layer in enumerate(self.layers):
            with sluice.Block(f"layer{number}"):
                x = layer(x)
        with sluice.Block("head"):
            logits = self.norm(x) @ self.tokens.weight.t()
            if targets is None:
                return logits
            return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_text(settings):
    text = TEXT
    if settings.file:
        with open(settings.file, encoding="utf-8", errors="replace") as file:
            text = file.read()
    ids = torch.tensor([ord(c) if ord(c) < VOCABULARY else ord(" ") for c in text])
    if len(ids) <= settings.context + 1:
        raise ValueError(
            f"the text has {len(ids)} characters, and a context of {settings.context} needs more: "
            "take a longer text or a smaller --context"
        )
    return ids


def windows(ids, count, context, generator):
    """Random pieces of the text, and the same pieces one character further."""
    starts = torch.randint(0, len(ids) - context - 1, (count, 1), generator=generator)
    at = starts + torch.arange(context)
    return ids[at], ids[at + 1]


def stages(settings):
    """The layers in even shares: the embedding joins the first stage, the head the last one."""
    blocks = ["embedding", *(f"layer{i}" for i in range(settings.layers)), "head"]
    share = [i * settings.devices // settings.layers for i in range(settings.layers)]
    share = [0, *share, settings.devices - 1]
    return [
        sluice.Stage(*(b for b, where in zip(blocks, share) if where == device)).ipu(device)
        for device in range(settings.devices)
    ]


def train(net, ids, settings):
    options = sluice.Options().randomSeed(settings.seed)
    options.Training.gradientAccumulation(settings.gradient_accumulation)
    options.setExecutionStrategy(sluice.PipelinedExecution(*stages(settings)))
    options.outputMode(sluice.OutputMode.All)  # the losses of all micro-batches of the update
    options.showCompilationProgressBar(False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.learning_rate)
    # The scheduler is torch's: setOptimizer takes the new learning rate over.
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    model = sluice.trainingModel(net, options, optimizer)
    generator = torch.Generator().manual_seed(settings.seed)
    rows = settings.batch_size * settings.gradient_accumulation
    for step in range(settings.steps):
        _, losses = model(*windows(ids, rows, settings.context, generator))
        loss = losses.mean().item()
        require_finite(loss, step + 1)
        schedule.step()
        model.setOptimizer(optimizer)
        if step % 25 == 0 or step + 1 == settings.steps:
            rate = optimizer.param_groups[0]["lr"]
            print(f"step {step:4} loss {loss:.4f} learning rate {rate:.2g}", flush=True)
    if settings.explain:
        print(model.explain())
    model.destroy()  # the weights stay in net


def sample(net, settings):
    """Draws one character after the other from an inference model with a context of fixed length."""
    model = sluice.inferenceModel(net.eval(), sluice.Options().showCompilationProgressBar(False))
    generator = torch.Generator().manual_seed(settings.seed)
    text = [ord(c) if ord(c) < VOCABULARY else ord(" ") for c in settings.prompt]
    for _ in range(settings.sample):
        window = torch.zeros(1, settings.context, dtype=torch.long)
        seen = text[-settings.context :]
        window[0, : len(seen)] = torch.tensor(seen)
        weights = (model(window)[0, len(seen) - 1] / settings.temperature).softmax(0)
        text.append(int(torch.multinomial(weights, 1, generator=generator)))
    return "".join(map(chr, text))


def main(settings):
    if settings.width % settings.heads:
        raise UsageError(
            f"--heads: {settings.heads} heads do not divide a width of {settings.width}"
        )
    if settings.devices > settings.layers:
        raise UsageError(
            f"--devices: {settings.layers} layers fill at most {settings.layers} devices, "
            f"got {settings.devices}"
        )
    if not settings.prompt:
        raise UsageError("--prompt: expected at least one character to continue")
    torch.manual_seed(settings.seed)
    ids = read_text(settings)
    net = Gpt(settings.context, settings.width, settings.heads, settings.layers, settings.dropout)
    print(f"{len(ids)} characters, {sum(p.numel() for p in net.parameters())} parameters")
    train(net, ids, settings)
    if settings.sample:
        print(f"---\n{sample(net, settings)}")


EXAMPLES = """\
  gpt.py                                        learns a built-in text by heart
  gpt.py --file README.md --steps 500 --context 128
  gpt.py --devices 4 --layers 4 --explain       a layer per device, and how that is balanced
  gpt.py --devices 1                            the same losses as with two devices"""


def arguments():
    args = parser(__doc__, EXAMPLES)
    add, count = args.add_argument, whole_number(1)
    add("--file", help="text to learn; the built-in one if left out")
    add("--steps", type=count, default=150, help="weight updates")
    add("--batch-size", type=count, default=4, help="sequences per micro-batch")
    add("--gradient-accumulation", type=count, default=4, help="micro-batches per weight update")
    add("--context", type=whole_number(2, 4096), default=32, help="characters of a sequence")
    add("--width", type=whole_number(1, 4096), default=64, help="numbers per character")
    add("--heads", type=count, default=4, help="of attention; they divide the width")
    add("--layers", type=whole_number(1, 96), default=2, help="transformer layers")
    add("--dropout", type=real_number(0), default=0.0, help="share of values left out in training")
    add("--devices", type=whole_number(1, 96), default=2, help="stages of the pipeline")
    add("--learning-rate", type=real_number(0), default=0.005, help="of AdamW, at its highest")
    add("--sample", type=whole_number(0), default=120, help="characters to generate")
    add("--prompt", default="The water ", help="what to continue")
    add("--temperature", type=real_number(0.01), default=0.5, help="below 1: likelier characters")
    add("--seed", type=whole_number(0), default=0, help="of weights, dropout and samples")
    add("--explain", action="store_true", help="print the plan of the training model")
    add_profile(args)
    return args


if __name__ == "__main__":
    run_program(arguments(), main)
