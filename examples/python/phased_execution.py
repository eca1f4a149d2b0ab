#!/usr/bin/python3
"""Runs a chain of layers on devices that are too small for its weights.

The weights wait in remote memory, here the memory of the host. Each layer is a phase: its weights are
loaded, used and, in training, stored again. With two devices one loads while the other computes. The
same chain on one large device gives the same bits, which the last line says.
"""

import argparse
import time

import torch
from torch import nn

import sluice
from command_line import UsageError, parser, require_finite, run_program, whole_number


class Chain(nn.Module):
    """Layers of one size. A block per layer says where the chain may be cut."""

    def __init__(self, layers, size):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(layers))

    def forward(self, x, target):
        for number, layer in enumerate(self.layers):
            with sluice.Block(f"layer{number}"):
                x = torch.tanh(layer(x))
        with sluice.Block(f"layer{len(self.layers) - 1}"):
            return x, nn.functional.mse_loss(x, target)


def phases(settings):
    """A phase per layer. Parallel phases take turns on two devices, serial ones share one."""
    blocks = [f"layer{i}" for i in range(settings.layers)]
    if settings.strategy == "sharded":
        half = (settings.layers + 1) // 2
        return sluice.ShardedExecution(
            sluice.Stage(*blocks[:half]).ipu(0), sluice.Stage(*blocks[half:]).ipu(1)
        )
    if settings.strategy == "parallel":
        kind = sluice.ParallelPhasedExecution
    else:
        kind = sluice.SerialPhasedExecution
    return kind(*(sluice.Phase(block) for block in blocks))


def options_of(settings):
    options = sluice.Options().deviceIterations(settings.batches_per_step)
    options.setExecutionStrategy(phases(settings))
    options.memoryPerDevice(settings.devices_memory)
    options.showCompilationProgressBar(False)
    if settings.strategy != "sharded":
        away = sluice.TensorLocationSettings().useOnChipStorage(False)
        options.TensorLocations.setWeightLocation(away)
        options.TensorLocations.setOptimizerLocation(away)
    if settings.profile:
        options.enableProfiling(settings.profile_dir)
    return options


def make_model(settings, options):
    torch.manual_seed(settings.seed)
    net = Chain(settings.layers, settings.dsize)
    if not settings.training:
        return net, sluice.inferenceModel(net, options)
    optimizer = sluice.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return net, sluice.trainingModel(net, options, optimizer)


def step_inputs(settings, step):
    g = torch.Generator().manual_seed(settings.seed + step)
    rows = settings.batch_size * settings.batches_per_step
    x = torch.randn(rows, settings.dsize, generator=g)
    return x, x.flip(1).tanh()


def run(settings, options, name):
    """All steps; returns the newest results and the weights."""
    net, model = make_model(settings, options)
    for step in range(settings.iters):
        inputs = step_inputs(settings, step)
        if step == 0:
            model.compile(*inputs)
        start = time.monotonic()
        output, losses = model(*inputs)
        seconds = time.monotonic() - start
        loss = losses.mean().item()
        require_finite(loss, (step + 1) * settings.batches_per_step)
        rate = settings.batch_size * settings.batches_per_step / seconds
        print(f"{name}: step {step + 1}/{settings.iters} loss {loss:.6f}, {rate:.0f} items/s",
              flush=True)
    if settings.explain and name == settings.strategy:
        print(model.explain())
    model.destroy()
    return [output, losses, *net.parameters()]


def main(settings):
    if settings.strategy == "sharded" and settings.layers < 2:
        raise UsageError("--strategy sharded: two devices need two layers or more")
    weights = 4 * settings.layers * (settings.dsize + 1) * settings.dsize
    print(f"{settings.layers} layers have {weights} bytes of weights; "
          f"a device has {settings.devices_memory}.")
    results = run(settings, options_of(settings), settings.strategy)
    if settings.profile:
        kind = "training" if settings.training else "inference"
        print(f"Report: {settings.profile_dir}/{kind}/report.html")
    if settings.compare:
        one = sluice.Options().deviceIterations(settings.batches_per_step)
        one.setExecutionStrategy(sluice.ShardedExecution(
            sluice.Stage(*(f"layer{i}" for i in range(settings.layers)))))
        one.showCompilationProgressBar(False)
        same = all(map(torch.equal, results, run(settings, one, "one large device")))
        print(f"Results and weights are {'the same, bit by bit' if same else 'DIFFERENT'}.")


def memory_size(text):
    """What Options.memoryPerDevice takes."""
    try:
        sluice.Options().memoryPerDevice(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


EXAMPLES = """\
  phased_execution.py --training                 optimizer state is off the devices, too
  phased_execution.py --strategy serial --devices-memory 768KiB
  phased_execution.py --strategy sharded         weights stay on two devices: the error says what fits
  phased_execution.py --layers 100 --explain     what is loaded when, and what a device holds"""


def arguments():
    args = parser(__doc__, EXAMPLES)
    add, count = args.add_argument, whole_number(1)
    add("--strategy", choices=["parallel", "serial", "sharded"], default="parallel",
        help="phases on two devices in turn, phases on one device, or halves on two devices")
    add("--layers", type=whole_number(1, 1024), default=12, help="layers, a phase each")
    add("--dsize", type=whole_number(1, 8192), default=256, help="inputs and outputs of a layer")
    add("--batch-size", type=count, default=32, help="rows per batch")
    add("--batches-per-step", type=count, default=10, help="batches per call")
    add("--iters", type=count, default=3, help="calls")
    add("--training", action="store_true", help="train the weights as well")
    add("--devices-memory", type=memory_size, default="1MiB", help="bytes that each device may use")
    add("--seed", type=whole_number(0), default=0, help="of weights and inputs")
    add("--no-compare", dest="compare", action="store_false", help="leave out the large device")
    add("--explain", action="store_true", help="print the plan")
    add("--profile", action="store_true", help="trace the first calls and write a report about them")
    add("--profile-dir", default="profile", help="where traces and report go")
    return args


if __name__ == "__main__":
    run_program(arguments(), main)
