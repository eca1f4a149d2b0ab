"""Helpers of the tests of capture."""

import contextlib
import unittest.mock

import torch

import sluice
from sluice import _capture


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args):
        return self._function(*args)


def as_module(function):
    return function if isinstance(function, torch.nn.Module) else Function(function)


@contextlib.contextmanager
def recorded():
    """A list that gets the Traced of every capture."""
    found, original = [], _capture.trace

    def trace(*args, **kwargs):
        found.append(original(*args, **kwargs))
        return found[-1]

    with unittest.mock.patch.object(_capture, "trace", trace):
        yield found


def run(function, *args, **kwargs):
    """One call of an inference model of a module or function."""
    model = sluice.inferenceModel(as_module(function))
    try:
        return model(*args, **kwargs)
    finally:
        model.destroy()


def train(module, *args, lr=1.0, steps=1):
    """Some steps of SGD; returns the last results. The module then holds the new weights."""
    optimizer = torch.optim.SGD(module.parameters(), lr=lr)
    model = sluice.trainingModel(module, optimizer=optimizer)
    try:
        for _ in range(steps):
            result = model(*args)
        return result
    finally:
        model.destroy()


def difference(a, b, least=1e-6):
    """The distance of two tensors relative to the norm of the second, in double. Smaller norms than
    the least are seen as that."""
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    apart = torch.where(same, torch.zeros_like(b), a - b)
    finite = torch.where(b.isfinite(), b, torch.zeros_like(b))
    return float(apart.norm()) / max(float(finite.norm()), least)
