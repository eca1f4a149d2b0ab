"""The names of the TensorFlow port, without TensorFlow: functions with loops and pipelines.

    from sluice import ipu, nn

    infeed = ipu.IPUInfeedQueue((images, labels))
    losses = ipu.IPUOutfeedQueue()

    def body(x, y):
        loss = nn.cross_entropy(nn.linear(x, ipu.get_variable("w", [10, 784])), y)
        return losses.enqueue(loss), ipu.optimizers.GradientDescentOptimizer(0.1).minimize(loss)

    train = ipu.compile(lambda: ipu.loops.repeat(100, body, [], infeed))
    train()
    print(losses.dequeue())

Bodies and stages are functions of tensors (sluice.nn) or torch modules. There are no sessions and
placeholders: a compiled function is called.
"""

from ..nn import initializers as _initializers
from ..nn import variables as _variables
from ..nn.initializers import *  # noqa: F401,F403
from ..nn.variables import *  # noqa: F401,F403
from . import (
    config,
    dataset_benchmark,
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    optimizers,
    pipelining_ops,
    scopes,
    utils,
)
from ._operation import Operation
from .dataset import Dataset
from .ipu_compiler import CompiledFunction, compile
from .ipu_infeed_queue import IPUInfeedQueue
from .ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from .loops import repeat
from .pipelining_ops import pipeline

__all__ = [
    "CompiledFunction",
    "Dataset",
    "IPUInfeedQueue",
    "IPUOutfeedMode",
    "IPUOutfeedQueue",
    "Operation",
    "compile",
    "config",
    "dataset_benchmark",
    "ipu_compiler",
    "ipu_infeed_queue",
    "ipu_outfeed_queue",
    "loops",
    "optimizers",
    "pipeline",
    "pipelining_ops",
    "repeat",
    "scopes",
    "utils",
    *_initializers.__all__,
    *_variables.__all__,
]
