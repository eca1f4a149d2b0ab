#!/usr/bin/python3
"""Fine-tunes torchvision's ResNet-18 for other classes, over two devices with recomputation.

The first layers are frozen: they have no gradients, no optimizer state and no updates. The last ones
and a new head are trained. torchvision's network is not touched: BeginBlock marks the layer where the
second device begins.
"""

import time

import torch
from torch import nn

import sluice
from command_line import (
    UsageError, add_profile, parser, real_number, require_finite, run_program, whole_number
)

try:
    import torchvision
except ImportError:
    raise SystemExit("error: this example needs torchvision (Debian: python3-torchvision)")

LAYERS = ["layer1", "layer2", "layer3", "layer4"]


class FineTuned(nn.Module):
    """A body with a new head. Norms of frozen layers keep their statistics."""

    def __init__(self, body, classes, trained_layers):
        super().__init__()
        self.body = body
        self.body.fc = nn.Linear(body.fc.in_features, classes)
        self.trained = [*LAYERS[len(LAYERS) - trained_layers :], "fc"]
        for name, part in self.body.named_children():
            part.requires_grad_(name in self.trained)

    def train(self, mode=True):
        super().train(mode)
        for name, part in self.body.named_children():
            part.train(mode and name in self.trained)
        return self

    def forward(self, images, labels=None):
        output = self.body(images)
        if labels is None:
            return output
        return output, nn.functional.cross_entropy(output, labels)


def make_network(settings):
    body = torchvision.models.resnet18(weights=None)
    if settings.weights:
        body.load_state_dict(torch.load(settings.weights, map_location="cpu"))
    net = FineTuned(body, settings.classes, settings.trained_layers)
    if settings.devices == 2:
        sluice.BeginBlock(body.conv1, "first", ipu_id=0)
        sluice.BeginBlock(body.layer3, "second", ipu_id=1)
    return net.train()


def picture(settings, count, seed):
    """Stripes: their direction is the class, their phase and the noise are not."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, settings.classes, (count,), generator=g)
    angle = labels * torch.pi / settings.classes
    shift = 6.28 * torch.rand(count, 1, 1, generator=g)
    at = torch.arange(settings.image_size) * 0.7
    along = angle.cos().view(-1, 1, 1) * at.view(1, -1, 1) + angle.sin().view(-1, 1, 1) * at
    stripes = torch.sin(along + shift).unsqueeze(1).expand(-1, 3, -1, -1)
    noise = torch.randn(count, 3, settings.image_size, settings.image_size, generator=g)
    return stripes + 0.3 * noise, labels


def options_of(settings):
    options = sluice.Options().randomSeed(settings.seed).threads(settings.threads)
    options.showCompilationProgressBar(False)
    options.outputMode(sluice.OutputMode.All)
    return options


def train(net, settings):
    options = options_of(settings).recomputation(settings.recomputation)
    options.Training.gradientAccumulation(settings.gradient_accumulation)
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = sluice.optim.SGD(trained, lr=settings.learning_rate, momentum=0.9)
    model = sluice.trainingModel(net, options, optimizer)
    rows = settings.batch_size * settings.gradient_accumulation
    start = time.monotonic()
    for step in range(settings.steps):
        output, losses = model(*picture(settings, rows, seed=step))
        loss = losses.mean().item()
        require_finite(loss, step + 1)
        print(f"step {step + 1:3}/{settings.steps} loss {loss:.4f}", flush=True)
    seconds = time.monotonic() - start
    print(f"{seconds / settings.steps:.2f} s per update, with compiling")
    if settings.explain:
        print(model.explain())
    model.destroy()


def test(net, settings):
    images, labels = picture(settings, 16 * settings.batch_size, seed=1_000_000)
    options = options_of(settings).deviceIterations(16)
    output = sluice.inferenceModel(net.eval(), options)(images)
    return 100 * (output.argmax(1) == labels).float().mean().item()


def main(settings):
    if settings.image_size < 32:
        raise UsageError("--image-size: ResNet-18 halves an image five times; take 32 or more")
    torch.manual_seed(settings.seed)
    net = make_network(settings)
    frozen = {name: p.clone() for name, p in net.named_parameters() if not p.requires_grad}
    count = sum(p.numel() for p in net.parameters())
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    print(f"{count} parameters, {trained} of them are trained: {', '.join(net.trained)}")
    train(net, settings)
    same = all(torch.equal(p, frozen[name]) for name, p in net.named_parameters() if name in frozen)
    print(f"Frozen parameters {'are as before' if same else 'HAVE CHANGED'}.")
    print(f"Accuracy on other images: {test(net, settings):.1f}%")
    if settings.save:
        torch.save(net.body.state_dict(), settings.save)
        print(f"Wrote {settings.save}.")


EXAMPLES = """\
  resnet_finetune.py                             stripes in two directions
  resnet_finetune.py --weights resnet18.pth      start from a file with torchvision's state_dict
  resnet_finetune.py --trained-layers 0          only the head
  resnet_finetune.py --trained-layers 4 --image-size 96 --recomputation Pipeline --explain
                                                 the stash bytes; compare them with None"""


def arguments():
    args = parser(__doc__, EXAMPLES)
    add, count = args.add_argument, whole_number(1)
    add("--weights", help="file with a state_dict of torchvision's resnet18")
    add("--save", help="file for the trained state_dict")
    add("--classes", type=whole_number(2, 1000), default=2, help="directions of the stripes")
    add("--trained-layers", type=whole_number(0, 4), default=1,
        help="of layer1 to layer4, the last ones that are trained besides the head")
    add("--image-size", type=whole_number(1, 1024), default=32, help="rows and columns")
    add("--steps", type=count, default=8, help="weight updates")
    add("--batch-size", type=whole_number(2), default=8, help="images per micro-batch")
    add("--gradient-accumulation", type=count, default=3, help="micro-batches per weight update")
    add("--learning-rate", type=real_number(0), default=0.01, help="of SGD with momentum 0.9")
    add("--recomputation", choices=["None", "Pipeline", "Standard", "NormOnly", "All"],
        default="Standard", help="which activations are computed again for the backward pass")
    add("--devices", type=whole_number(1, 2), default=2, help="stages of the pipeline")
    add("--threads", type=whole_number(1, 1024), default=1, help="threads of each device")
    add("--seed", type=whole_number(0), default=0, help="of the weights")
    add("--explain", action="store_true", help="print the plan of the training model")
    add_profile(args)
    return args


if __name__ == "__main__":
    run_program(arguments(), main)
