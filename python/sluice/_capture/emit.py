"""Short names for appending ops to the current trace. All operands are tensors of `_core`."""

import math

from .. import _core
from . import dtypes


def op(name, *inputs, **attrs):
    """The first result of an op."""
    return _core.op(name, list(inputs), attrs)[0]


def ops(name, inputs, **attrs):
    """All results of an op."""
    return _core.op(name, list(inputs), attrs)


_BITS = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32}


def scalar(value, dtype):
    """A number as a tensor. Integers that do not fit wrap, as in torch."""
    bits = _BITS.get(dtype)
    if bits is not None:
        value = int(value) % 2**bits
        if dtype != "uint8" and value >= 2 ** (bits - 1):
            value -= 2**bits
    return _core.scalar(value, dtype)


def cast(x, dtype):
    return x if x.dtype == dtype else op("cast", x, dtype=dtypes.attribute(dtype))


def tensor(x, dtype):
    """A number or a tensor as a tensor of the type."""
    if isinstance(x, (bool, int, float)):
        return scalar(x, dtype)
    return cast(x, dtype)


def resolve(function, *operands):
    """Applies autocast and the rules for mixtures of half and float to the float tensors among
    the operands. The function has the name of a policy."""
    places = [
        i
        for i, each in enumerate(operands)
        if isinstance(each, _core.Tensor) and dtypes.is_float(each.dtype)
    ]
    if not places:
        return operands
    resolved = list(operands)
    for i, each in zip(places, _core.resolve_types(function, [operands[i] for i in places])):
        resolved[i] = each
    return resolved


def elements(shape):
    return math.prod(shape)


def reshape(x, shape):
    shape = list(shape)
    return x if list(x.shape) == shape else op("reshape", x, shape=shape)


def transpose(x, axes):
    axes = list(axes)
    return x if axes == list(range(len(axes))) else op("transpose", x, permutation=axes)


def swap_last(x):
    axes = list(range(len(x.shape)))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return transpose(x, axes)


def broadcast(x, shape):
    shape = list(shape)
    return x if list(x.shape) == shape else op("broadcast_to", x, shape=shape)


def concat(parts, axis):
    return parts[0] if len(parts) == 1 else op("concat", *parts, axis=axis)


def cut(x, axis, start, end, step=1):
    """Elements start to end of one axis; 0 <= start <= end <= extent."""
    rank = len(x.shape)
    if start == 0 and end == x.shape[axis] and step == 1:
        return x
    starts, ends, steps = [0] * rank, list(x.shape), [1] * rank
    starts[axis], ends[axis], steps[axis] = start, end, step
    attrs = {"starts": starts, "ends": ends}
    if step != 1:
        attrs["steps"] = steps
    return op("slice", x, **attrs)


def full(shape, value, dtype):
    return broadcast(scalar(value, dtype), shape)


def where(condition, x, y):
    return op("where", condition, x, y)


def add(x, y):
    return op("add", x, y)


def sub(x, y):
    return op("sub", x, y)


def mul(x, y):
    return op("mul", x, y)


def div(x, y):
    return op("div", x, y)


def scale(x, number):
    return x if number == 1 else mul(x, scalar(number, x.dtype))


def shift(x, number):
    return x if number == 0 else add(x, scalar(number, x.dtype))


def reduce(name, x, axes=(), keep=False):
    """A reduction over the axes, or over all axes if none are given."""
    if len(x.shape) == 0:
        return x
    axes = sorted(a % len(x.shape) for a in axes) or list(range(len(x.shape)))
    return op(name, x, axes=axes, keepDims=bool(keep))


def iota(size, dtype="int64"):
    return op("iota", shape=[size], dtype=dtypes.attribute(dtype))


def axis_of(axis, rank):
    """The axis counted from the front; torch lets tensors without axes have axis 0 and -1."""
    return axis % max(rank, 1)
