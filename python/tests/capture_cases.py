"""Small functions, at least one per rule. Each is run by eager torch in float32 and float64 and by
a captured model; see test_capture_rules.py.

A case is `Case(name, function, inputs...)`. Inputs are made by the helpers below from a fixed seed.
Float inputs are weights of the model, so that their gradients can be compared; the others are its
inputs. `grad=False` is for functions whose result has no useful gradient."""

import zlib

import torch
import torch.nn as nn


class Make:
    def __init__(self, make):
        self.make = make


def normal(*shape):
    return Make(lambda g: torch.randn(*shape, generator=g))


def between(low, high, *shape):
    return Make(lambda g: torch.rand(*shape, generator=g) * (high - low) + low)


def integers(high, *shape, low=0, dtype=torch.int64):
    return Make(lambda g: torch.randint(low, high, shape, generator=g).to(dtype))


def mask(*shape):
    return Make(lambda g: torch.rand(*shape, generator=g) < 0.5)


def values(*numbers, dtype=None):
    return Make(lambda g: torch.tensor(numbers, dtype=dtype))


class Case:
    def __init__(self, name, function, *inputs, grad=True):
        self.name = name
        self.function = function
        self.grad = grad
        g = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        self.inputs = [each.make(g) for each in inputs]
        if isinstance(function, nn.Module):
            with torch.no_grad():
                for p in function.parameters():
                    p.copy_(torch.randn(p.shape, generator=g) * 0.3)


def unary(names, made, **options):
    return [Case(n, getattr(torch, n), made, **options) for n in names.split()]


X = normal(3, 4)
POSITIVE = between(0.2, 2.0, 3, 4)
INSIDE = between(-0.9, 0.9, 3, 4)
INTS = integers(9, 3, 4, low=-9)
