"""Random programs of views and in-place writes against eager torch.

A program is a list of steps on a growing list of tensors. It is made while torch runs it, so that
every step is one that torch accepts; then a captured model replays it. Numbers are small integers,
so that results must be equal."""

import random
import unittest

import torch
from capture_support import run

PROGRAMS, STEPS = 100, 14


def _axis(r, x):
    return r.randrange(x.dim()) if x.dim() else 0


def _slice(r, x):
    axis = _axis(r, x)
    n = x.shape[axis]
    start = r.randrange(n)
    stop = r.randrange(start + 1, n + 1)
    step = r.choice((1, 1, 2))
    index = (slice(None),) * axis + (slice(start, stop, step),)
    return lambda x: x[index]


def _select(r, x):
    axis = _axis(r, x)
    index = r.randrange(x.shape[axis])
    return lambda x: x.select(axis, index)


def _transpose(r, x):
    a, b = _axis(r, x), _axis(r, x)
    return lambda x: x.transpose(a, b)


def _permute(r, x):
    axes = list(range(x.dim()))
    r.shuffle(axes)
    return lambda x: x.permute(axes)


def _shape(r, x):
    """Another shape for as many elements."""
    n, shape = x.numel(), []
    for d in (2, 3, 2):
        if n % d == 0 and r.random() < 0.7:
            shape.append(d)
            n //= d
    shape.insert(r.randrange(len(shape) + 1), n)
    return shape


def _reshape(r, x):
    shape = _shape(r, x)
    return lambda x: x.reshape(shape)


def _view(r, x):
    shape = _shape(r, x)
    return lambda x: x.view(shape)


def _part(r, x):
    axis = _axis(r, x)
    return lambda x: x.chunk(2, axis)[0]


def _unsqueeze(r, x):
    axis = r.randrange(x.dim() + 1)
    return lambda x: x.unsqueeze(axis)


def _number(r):
    return float(r.randrange(-3, 4))


def _index_fill(r, x):
    axis = _axis(r, x)
    index = torch.tensor(sorted(r.sample(range(x.shape[axis]), 1)))
    value = _number(r)
    return lambda x: x.index_fill_(axis, index, value)


def _masked_fill(r, x):
    mask = torch.tensor([r.random() < 0.5 for _ in range(x.numel())]).reshape(x.shape)
    value = _number(r)
    return lambda x: x.masked_fill_(mask, value)


def _plain(function):
    return lambda r, x: function


def _with_number(function):
    def make(r, x):
        value = _number(r)
        return lambda x: function(x, value)

    return make


VIEWS = [_slice, _select, _transpose, _permute, _reshape, _view, _part, _unsqueeze,
         _plain(lambda x: x.squeeze()), _plain(lambda x: x.flatten()), _plain(lambda x: x.t()),
         _plain(lambda x: x.diagonal()), _plain(lambda x: x.detach())]
WRITES = [_with_number(lambda x, v: x.add_(v)), _with_number(lambda x, v: x.fill_(v)),
          _plain(lambda x: x.mul_(2)), _plain(lambda x: x.neg_()), _plain(lambda x: x.zero_()),
          _index_fill, _masked_fill, _plain(lambda x: x.clamp_(-5, 5)),
          _plain(lambda x: x.add_(x.clone().flip(0)))]
RESULTS = [_plain(lambda x: x.clone()), _plain(lambda x: x + 1), _plain(lambda x: x * x),
           _plain(lambda x: x.contiguous()), _plain(lambda x: x.sum(0)),
           _plain(lambda x: torch.zeros_like(x)), _plain(lambda x: torch.relu(x))]
METADATA = [
    _plain(lambda x: x.squeeze_()),
    _plain(lambda x: x.t_()),
    _plain(lambda x: x.unsqueeze_(0)),
]


def step(r, tensors):
    """One step that torch accepts, or None: (what to do with which tensor, whether it makes a new
    one)."""
    at = r.randrange(len(tensors))
    x = tensors[at]
    kind = r.choices((VIEWS, WRITES, RESULTS, METADATA, None), (6, 5, 2, 0.6, 1.4))[0]
    if kind is None:
        other = r.randrange(len(tensors))
        # torch leaves open what a copy between overlapping parts of one memory gives.
        return at, lambda x, tensors: x.copy_(tensors[other].clone()), False
    if x.dim() == 0 and kind is VIEWS or x.numel() == 0:
        return None
    try:
        function = r.choice(kind)(r, x)
    except (ValueError, IndexError):
        return None
    return at, lambda x, tensors: function(x), kind in (VIEWS, RESULTS)


def program(seed, start):
    """The steps, and the tensors at the end."""
    r, tensors, steps = random.Random(seed), [start.clone()], []
    while len(steps) < STEPS:
        made = step(r, tensors)
        if made is None:
            continue
        at, function, is_new = made
        try:
            result = function(tensors[at], tensors)
        except (RuntimeError, IndexError):
            continue
        if is_new:
            tensors.append(result)
        steps.append(made)
    return steps, tensors


def replay(steps, start):
    tensors = [start.clone()]
    for at, function, is_new in steps:
        result = function(tensors[at], tensors)
        if is_new:
            tensors.append(result)
    return tensors


class Views(unittest.TestCase):
    def _check(self, seeds):
        start = torch.arange(24.0).reshape(2, 3, 4) - 12
        made = [program(seed, start) for seed in seeds]
        results = run(lambda x: [replay(steps, x) for steps, _ in made], start)
        for seed, (_, expected), tensors in zip(seeds, made, results):
            for i, (ours, wanted) in enumerate(zip(tensors, expected)):
                self.assertEqual(ours.shape, wanted.shape, f"seed {seed}, tensor {i}")
                self.assertTrue(torch.equal(ours, wanted), f"seed {seed}, tensor {i}")

    def test_programs_of_views_and_writes_give_what_torch_gives(self):
        self._check(range(PROGRAMS))

    def test_programs_on_known_values_give_what_torch_gives(self):
        start = torch.arange(24.0).reshape(2, 3, 4) - 12
        made = [program(seed, start) for seed in range(PROGRAMS)]
        results = run(
            lambda x: [replay(s, torch.arange(24.0).reshape(2, 3, 4) - 12) for s, _ in made] + [x],
            start,
        )
        for (_, expected), tensors in zip(made, results):
            for ours, wanted in zip(tensors, expected):
                self.assertTrue(torch.equal(ours, wanted))


if __name__ == "__main__":
    unittest.main()
