#!/usr/bin/python3
"""Trains a convolutional network on MNIST as a pipeline of four stages and tests it.

The network is plain PyTorch. Four blocks say where it may be cut, and a strategy says which device runs
which block. The names are PopTorch's.
"""

import contextlib
import os

import numpy
import torch
from torch import nn

import sluice as poptorch
from command_line import (
    Progress, UsageError, parser, real_number, require_finite, run_program, whole_number
)

MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of MNIST


class ConvLayer(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=5)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        return torch.relu(self.pool(self.conv(x)))


class Network(nn.Module):
    """Everything that runs on a device is inside a block. Outside of a model blocks do nothing."""

    def __init__(self):
        super().__init__()
        self.layer1 = ConvLayer(1, 10)
        self.layer2 = ConvLayer(10, 20)
        self.layer3 = nn.Linear(320, 256)
        self.layer4 = nn.Linear(256, 10)

    def forward(self, x):
        with poptorch.Block("B1"):
            x = self.layer1(x)
        with poptorch.Block("B2"):
            x = self.layer2(x)
        with poptorch.Block("B3"):
            x = torch.relu(self.layer3(x.flatten(1)))
        with poptorch.Block("B4"):
            return self.layer4(x)


class WithLoss(nn.Module):
    """A training model minimises the last result of forward. The loss joins the last stage."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images, labels):
        output = self.network(images)
        with poptorch.Block("B4"):
            return output, self.loss(output, labels)


# --- data ------------------------------------------------------------------------------------


def read_idx(path):
    """The array of an IDX file of bytes: two zeros, 8 (bytes), the rank, the extents, the values."""
    data = numpy.fromfile(path, dtype=numpy.uint8)
    if len(data) < 4 or tuple(data[:3]) != (0, 0, 8):
        raise ValueError(f"{path} is not an IDX file of bytes")
    rank = int(data[3])
    shape = data[4 : 4 + 4 * rank].view(">u4").astype(int)
    if len(data) != 4 + 4 * rank + shape.prod():
        raise ValueError(f"{path}: {tuple(shape)} need another size than {len(data)} bytes")
    return torch.from_numpy(data[4 + 4 * rank :].reshape(tuple(shape)))


def mnist(folder, split):
    """Images as floats around 0, [n, 1, 28, 28], and labels."""
    name = {"train": "train", "test": "t10k"}[split]
    files = [f"{folder}/{name}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
    for file in files:
        if not os.path.exists(file):
            raise FileNotFoundError(
                f"there is no file '{file}': --data names the folder of MNIST's files, "
                "and --synthetic trains without data"
            )
    images, labels = map(read_idx, files)
    images = (images.float() / 255 - MEAN) / DEVIATION
    return torch.utils.data.TensorDataset(images.unsqueeze(1), labels.long())


def synthetic(split, count):
    """Ten patterns of 7 x 7 squares under noise."""
    patterns = torch.rand(10, 1, 7, 7, generator=torch.Generator().manual_seed(1)).round()
    patterns = nn.functional.interpolate(patterns, size=(28, 28)) * 2 - 1
    g = torch.Generator().manual_seed(2 if split == "train" else 3)
    labels = torch.randint(0, 10, (count,), generator=g)
    noise = torch.randn(count, 1, 28, 28, generator=g)
    return torch.utils.data.TensorDataset(patterns[labels] + 2 * noise, labels)


def images(settings, split):
    if not settings.synthetic:
        return mnist(settings.data, split)
    if split == "test":
        return synthetic(split, 2 * settings.test_batch_size * settings.test_iterations)
    call = settings.batch_size * settings.gradient_accumulation * settings.device_iterations
    return synthetic(split, 3 * call)


# --- options ---------------------------------------------------------------------------------


def strategy(name, devices):
    """The blocks of each device. Of the time B2 takes one half, B1 a third, B4 next to nothing."""
    if name == "serial-phased":
        return poptorch.SerialPhasedExecution("B1", "B2", "B3", "B4")
    blocks = {
        1: [["B1", "B2", "B3", "B4"]],
        2: [["B1"], ["B2", "B3", "B4"]],
        3: [["B1"], ["B2"], ["B3", "B4"]],
        4: [["B1"], ["B2"], ["B3"], ["B4"]],
    }[devices]
    stages = [poptorch.Stage(*each).ipu(device) for device, each in enumerate(blocks)]
    kind = poptorch.PipelinedExecution if name == "pipelined" else poptorch.ShardedExecution
    return kind(*stages)


def training_options(settings):
    options = poptorch.Options()
    options.deviceIterations(settings.device_iterations)
    options.Training.gradientAccumulation(settings.gradient_accumulation)
    options.setExecutionStrategy(strategy(settings.strategy, settings.devices))
    options.outputMode(poptorch.OutputMode.All)  # the accuracy of all images, not of the last ones
    options.randomSeed(settings.seed)
    options.threads(settings.threads)
    options.showCompilationProgressBar(False)
    if settings.offload_optimiser:
        options.TensorLocations.setOptimizerLocation(
            poptorch.TensorLocationSettings().useOnChipStorage(False)
        )
    if settings.profile:
        options.enableProfiling(settings.profile_dir)
    return options


# --- training and testing ----------------------------------------------------------------------


def accuracy(output, labels):
    return 100 * (output.argmax(1) == labels).float().mean().item()


def loader_of(options, dataset, batch_size, shuffle):
    """A thread reads ahead. A batch has the samples of a whole call."""
    loader = poptorch.DataLoader(
        options, dataset, batch_size, shuffle=shuffle, mode=poptorch.DataLoaderMode.Async
    )
    if len(loader) == 0:
        raise UsageError(
            f"a call takes {loader.combinedBatchSize} images, and there are only {len(dataset)}: "
            "choose a smaller batch size, or fewer iterations"
        )
    return loader


def train(network, settings):
    options = training_options(settings)
    optimizer = poptorch.optim.AdamW(network.parameters(), lr=settings.learning_rate)
    model = poptorch.trainingModel(WithLoss(network), options, optimizer)
    data = loader_of(options, images(settings, "train"), settings.batch_size, shuffle=True)
    seconds, mean, updates = 0.0, float("nan"), 0
    print("Training...", flush=True)
    with contextlib.closing(_Ends(data)):
        for epoch in range(settings.epochs):
            print(f"Epoch {epoch + 1}/{settings.epochs}", flush=True)
            progress = Progress(len(data))
            for inputs, labels in data:
                output, losses = model(inputs, labels)
                updates += settings.device_iterations
                mean = losses.mean().item()
                require_finite(mean, updates)
                progress.step(f"Loss:{mean:.4f} | Accuracy:{accuracy(output, labels):.2f}%")
            seconds += progress.seconds
    if settings.explain:
        print(model.explain())
    return mean, seconds / max(1, settings.epochs)


def test(network, settings):
    """An inference model of the same module has the trained weights: nothing is copied by hand."""
    options = training_options(settings)
    options.Training.gradientAccumulation(1)
    options.deviceIterations(settings.test_iterations)
    model = poptorch.inferenceModel(network, options)
    data = loader_of(options, images(settings, "test"), settings.test_batch_size, shuffle=False)
    with contextlib.closing(_Ends(data)):
        return sum(accuracy(model(inputs), labels) for inputs, labels in data) / len(data)


class _Ends:
    """Ends the thread of a loader, also after an error."""

    def __init__(self, loader):
        self.close = loader.terminate


def main(settings):
    phased = settings.strategy == "serial-phased"
    if settings.devices is None:
        settings.devices = 1 if phased else 4
    elif phased and settings.devices != 1:
        raise UsageError(f"--strategy serial-phased runs on 1 device, got {settings.devices}")
    torch.manual_seed(settings.seed)
    network = Network()
    loss, seconds = train(network, settings)
    print("Testing...", flush=True)
    print(f"Accuracy on test set: {test(network, settings):.2f}%")
    if settings.profile:
        print(f"Reports: {settings.profile_dir}/training/report.html, "
              f"{settings.profile_dir}/inference/report.html")
    devices = f"{settings.devices} device{'' if settings.devices == 1 else 's'}"
    result = f": {seconds:.2f} s per epoch, final loss {loss:.9g}" if settings.epochs else ""
    print(f"{devices}, {settings.strategy}{result}")


EXAMPLES = """\
  mnist_pipeline.py --synthetic                    without the data of MNIST
  mnist_pipeline.py --epochs 5 --learning-rate 0.002
  mnist_pipeline.py --devices 1                    the same loss, to the last digit
  mnist_pipeline.py --strategy sharded --explain   the stages, their work and their memory
  mnist_pipeline.py --offload-optimiser --profile

A call takes batch-size x gradient-accumulation x device-iterations images. A weight update is made from
gradient-accumulation micro-batches. Devices, threads, strategies and what is kept off the devices
change no bit of the result."""


def arguments():
    args = parser(__doc__.splitlines()[0], EXAMPLES)
    add, count = args.add_argument, whole_number(1)
    add("--epochs", type=whole_number(0), default=3, help="passes over the training images")
    add("--batch-size", type=count, default=40, help="images per micro-batch")
    add("--device-iterations", type=count, default=10, help="weight updates per call")
    add("--gradient-accumulation", type=count, default=10, help="micro-batches per weight update")
    add("--test-batch-size", type=count, default=8, help="images per micro-batch of the test")
    add("--test-iterations", type=count, default=125, help="micro-batches per call of the test")
    add("--learning-rate", type=real_number(0), default=0.001, help="of AdamW")
    add("--seed", type=whole_number(0), default=0, help="of initial weights and shuffling")
    add("--strategy", choices=["pipelined", "sharded", "serial-phased"], default="pipelined",
        help="how the devices take turns")
    add("--devices", type=whole_number(1, 4),
        help="devices that share the four blocks; 4, or 1 for phases")
    add("--threads", type=whole_number(1, 1024), default=1, help="threads of each device")
    add("--offload-optimiser", action="store_true", help="keep the optimizer's state on the host")
    add("--data", default="data/mnist", help="folder with the four IDX files")
    add("--synthetic", action="store_true", help="train on made-up images")
    add("--explain", action="store_true", help="print the plan of the training model")
    add("--profile", action="store_true", help="trace the first calls and write reports about them")
    add("--profile-dir", default="profile", help="where traces and reports go")
    return args


if __name__ == "__main__":
    run_program(arguments(), main)
