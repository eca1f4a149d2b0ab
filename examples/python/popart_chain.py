#!/usr/bin/python3
"""Builds a chain of matrix products op by op with PopART's Builder and runs it over two devices.

By default each product is an execution phase: its weights are loaded while the other device computes.
--pipelined makes the products stages of a pipeline instead, --sharded lets the devices take turns. This
needs NumPy and no torch.
"""

import contextlib
import time

import numpy

import sluice.popart as popart
from command_line import UsageError, add_profile, parser, require_finite, run_program, whole_number


def make_weights(settings, random):
    """Their mean is 1 / size, so that numbers stay as large as they are from layer to layer."""
    shape = settings.num_layers, settings.dsize, settings.dsize
    return (random.random(shape) * 2 / settings.dsize).astype(settings.dtype)


def build(settings, weights):
    """The graph, the id of its input and that of the loss: 0.1 times the mean of |x W0 W1 ...|."""
    size = settings.dsize
    kind = {"float16": "FLOAT16", "float32": "FLOAT"}[settings.dtype]
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(kind, [settings.batch_size, size, size]), "x")
    y = x
    for layer, weight in enumerate(weights):
        w = builder.addInitializedInputTensor(weight, f"W{layer}")
        with place(builder, settings, layer):
            y = builder.aiOnnx.matmul([y, w])
            if layer + 1 == settings.num_layers:
                loss = builder.aiGraphcore.l1loss([y], 0.1)
    builder.addOutputTensor(loss)
    return builder, x, loss


@contextlib.contextmanager
def place(builder, settings, layer):
    """The ops made inside belong to this layer's device, and to its phase or stage."""
    half = layer * 2 // settings.num_layers
    with contextlib.ExitStack() as scopes:
        if settings.execution == "phased":
            scopes.enter_context(builder.virtualGraph(layer % 2))
            scopes.enter_context(builder.executionPhase(layer))
        else:
            scopes.enter_context(builder.virtualGraph(half))
        if settings.execution == "pipelined":
            scopes.enter_context(builder.pipelineStage(half))
        yield


def session_options(settings):
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    if settings.execution == "phased":
        options.virtualGraphMode = popart.VirtualGraphMode.ExecutionPhases
        options.executionPhaseSettings.phases = settings.num_layers
        options.weightTensorLocationSettings.location.storage = popart.TensorStorage.OffChip
        options.constantWeights = False  # constants of the program would stay on the devices
    elif settings.execution == "pipelined":
        options.enablePipelining = True
        if settings.training:  # the pipeline is empty before weights change
            options.enableGradientAccumulation = True
            options.accumulationFactor = settings.accumulation
    return options


def make_session(settings, builder, loss):
    flow = popart.DataFlow(settings.batches_per_step, {loss: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().acquireAvailableDevice(2)
    proto, options = builder.getModelProto(), session_options(settings)
    if settings.training:
        rule = popart.ConstSGD(0.001)
        return popart.TrainingSession(proto, flow, loss, rule, device, userOptions=options)
    return popart.InferenceSession(proto, flow, device, userOptions=options)


def loss_by_numpy(settings, weights, data):
    """The loss of the first batch, in float64."""
    y = data[: settings.batch_size].astype(numpy.float64)
    for weight in weights:
        y = y @ weight.astype(numpy.float64)
    return 0.1 * numpy.abs(y).mean()


def main(settings):
    if settings.execution != "phased" and settings.num_layers < 2:
        raise UsageError(f"--{settings.execution}: two devices need two layers or more")
    random = numpy.random.default_rng(settings.seed)
    weights = make_weights(settings, random)
    builder, x, loss = build(settings, weights)
    per_byte = 2 * settings.batch_size * settings.dsize / weights.itemsize
    print(f"Built {settings.num_layers} layers of {per_byte:.0f} FLOP per byte of weights.")
    session = make_session(settings, builder, loss)
    start = time.monotonic()
    session.prepareDevice()
    session.weightsFromHost()
    print(f"Compiled in {time.monotonic() - start:.2f} s; running {settings.execution}.")
    anchors = session.initAnchorArrays()
    rows = settings.batches_per_step * session.accumulationFactor * settings.batch_size
    for step in range(settings.iters):
        data = random.random((rows, settings.dsize, settings.dsize)).astype(settings.dtype)
        start = time.monotonic()
        session.run(popart.PyStepIO({x: data}, anchors))
        rate = rows / (time.monotonic() - start)
        losses = anchors[loss].astype(numpy.float64)
        require_finite(losses.mean(), step + 1)
        if step == 0:
            expected = loss_by_numpy(settings, weights, data)
            print(f"first batch: loss {losses.flat[0]:.5g}, by NumPy {expected:.5g}")
        print(f"step {step + 1}/{settings.iters} loss {losses.mean():.5g}, {rate:.0f} items/s",
              flush=True)


EXAMPLES = """\
  popart_chain.py --pipelined --training
  popart_chain.py --sharded
  popart_chain.py --num-layers 100 --dsize 100 --dtype float16

For a phase to take as long to compute as to load, an IPU needs 3750 to 7500 FLOP per byte."""


def arguments():
    args = parser(__doc__, EXAMPLES)
    add, count = args.add_argument, whole_number(1)
    add("--batch-size", type=count, default=8, help="matrices per batch")
    add("--dsize", type=whole_number(1, 4096), default=64, help="rows and columns of all matrices")
    add("--num-layers", type=whole_number(1, 1024), default=6, help="matrix products")
    add("--batches-per-step", type=count, default=10, help="batches, or updates, per call")
    add("--accumulation", type=count, default=4, help="batches per update of a pipeline")
    add("--iters", type=count, default=3, help="calls")
    add("--dtype", choices=["float16", "float32"], default="float32", help="type of the numbers")
    add("--training", action="store_true", help="train the weights as well")
    how = args.add_mutually_exclusive_group()
    how.add_argument("--pipelined", dest="execution", action="store_const", const="pipelined",
                     default="phased", help="two stages that work at the same time")
    how.add_argument("--sharded", dest="execution", action="store_const", const="sharded",
                     default="phased", help="two devices that take turns")
    add("--seed", type=whole_number(0), default=0, help="of weights and inputs")
    add_profile(args)
    return args


if __name__ == "__main__":
    run_program(arguments(), main)
