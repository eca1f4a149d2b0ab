#!/usr/bin/python3
"""Trains a classifier as a pipeline of functions, the way of the TensorFlow port, without TensorFlow.

A dataset feeds the pipeline through an infeed queue, and losses come back through an outfeed queue,
one for each mini-batch. The two stages in the middle work on the same mini-batch at the same time.
This needs NumPy and no torch.
"""

import numpy

from sluice import ipu, nn
from command_line import add_profile, parser, real_number, require_finite, run_program, whole_number

SCHEDULES = {each.name.lower(): each for each in ipu.pipelining_ops.PipelineSchedule}


def points(settings):
    """Mini-batches of points on two spirals, without end."""
    random = numpy.random.default_rng(settings.seed)
    while True:
        labels = random.integers(0, 2, settings.batch_size)
        radius = random.random(settings.batch_size)
        angle = 5 * radius + numpy.pi * labels
        x = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], axis=1)
        yield x.astype(numpy.float32), labels.astype(numpy.int64)


def dense(x, name, outputs):
    """Variables belong to the graph and have names; every trace of a function gets the same ones."""
    with ipu.variable_scope(name):
        weight = ipu.get_variable("weight", [outputs, x.shape[-1]])
        bias = ipu.get_variable("bias", [outputs], initializer=0.0)
    return nn.linear(x, weight, bias)


def features(x, labels):
    return nn.tanh(dense(x, "first", 32)), labels


def left(x, labels):
    """Both halves get the same arguments. The labels go through one of them."""
    return nn.tanh(dense(x, "left", 32)), labels


def right(x, labels):
    return nn.relu(dense(x, "right", 32))


def head(a, labels, b):
    """Gets the results of left and right, joined in order."""
    logits = dense(nn.concat([a, b], 1), "head", 2)
    right_ones = nn.cast(nn.equal(nn.argmax(logits, 1), labels), "float32")
    return nn.cross_entropy(logits, labels), nn.mean(right_ones)


def training(settings, infeed, outfeed):
    """A call makes `updates` weight updates; each takes `accumulation` mini-batches."""

    def optimizer_function(loss, accuracy):
        """Gets what the last stage returns; says what is minimised, and how."""
        adam = ipu.optimizers.AdamOptimizer(settings.learning_rate)
        return ipu.pipelining_ops.OptimizerFunctionOutput(adam, loss)

    def net():
        return ipu.pipelining_ops.pipeline(
            computational_stages=[features, [left, right], head],
            device_mapping=[0, [1, 2], 0],
            gradient_accumulation_count=settings.accumulation,
            repeat_count=settings.updates,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer_function,
            pipeline_schedule=SCHEDULES[settings.schedule],
            reduction_method="mean",
        )

    return ipu.compile(net)


def main(settings):
    nn.set_random_seed(settings.seed)
    infeed = ipu.IPUInfeedQueue(lambda: points(settings))
    outfeed = ipu.IPUOutfeedQueue()
    train = training(settings, infeed, outfeed)
    for call in range(settings.calls):
        train()
        losses, accuracies = outfeed.dequeue()
        loss = float(losses[-settings.accumulation :].mean())
        require_finite(loss, train.updates)
        accuracy = 100 * float(accuracies[-10 * settings.accumulation :].mean())
        print(f"{train.updates:5} updates: loss {loss:.4f}, accuracy {accuracy:.1f}%", flush=True)
    if settings.explain:
        print(train.explain())
    variables = ", ".join(f"{v.name} {list(v.shape)}" for v in ipu.global_variables())
    print(f"Variables: {variables}")


EXAMPLES = """\
  tf_pipeline.py --schedule interleaved --explain   fewer activations are kept, see the plan
  tf_pipeline.py --schedule sequential              one stage at a time: the same losses
  tf_pipeline.py --accumulation 16 --updates 20"""


def arguments():
    args = parser(__doc__, EXAMPLES)
    add, count = args.add_argument, whole_number(1)
    add("--calls", type=count, default=5, help="calls of the compiled function")
    add("--updates", type=count, default=40, help="weight updates per call")
    add("--accumulation", type=count, default=8, help="mini-batches per weight update")
    add("--batch-size", type=count, default=32, help="points per mini-batch")
    add("--learning-rate", type=real_number(0), default=0.01, help="of Adam")
    add("--schedule", choices=list(SCHEDULES), default="grouped", help="order of the pipeline")
    add("--seed", type=whole_number(0), default=0, help="of variables and points")
    add("--explain", action="store_true", help="print the plan")
    add_profile(args)
    return args


if __name__ == "__main__":
    run_program(arguments(), main)
