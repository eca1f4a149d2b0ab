"""Attributes that forward changes: every capture, and the module itself afterwards, begin with those of before."""

import collections

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import sluice  # noqa: E402


class Keyed(nn.Module):
    """The cache has a key beside it, as tables of rotary embeddings do."""

    def __init__(self):
        super().__init__()
        self.key = -1
        self.mask = torch.ones(1)

    def forward(self, x):
        if self.key != x.shape[1]:
            self.key = x.shape[1]
            self.mask = torch.arange(self.key) * x.new_ones(1)
        return x * self.mask


class FromNone(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None or self.table.shape[0] < x.shape[1]:
            self.table = torch.arange(x.shape[1]) * x.new_ones(1)
        return x + self.table[: x.shape[1]]


class InContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {"nested": {}}
        self.order = collections.OrderedDict()
        self.lengths, self.seen = [[]], set()

    def forward(self, x):
        length = x.shape[1]
        tables = self.tables["nested"]
        if length not in self.seen:
            self.seen.add(length)
            self.lengths[0].append(length)
            tables[length] = torch.arange(length) + x.sum()
            self.order[length] = len(self.order)
        return x + tables[length] + self.order[length] + len(self.lengths[0])


class InAPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Keyed()

    def forward(self, x):
        return self.inner(x) + self.inner.key


@pytest.mark.parametrize("kind", [Keyed, FromNone, InContainers, InAPart])
def test_a_cache_begins_as_it_was_at_every_signature(kind):
    net = kind()
    attributes = {name: repr(value) for name, value in vars(net).items()}
    with sluice.inferenceModel(net) as model:
        for shape in ((1, 3), (1, 5), (1, 4), (2, 3), (1, 5)):
            x = torch.rand(shape)
            torch.testing.assert_close(model(x), kind()(x))
    assert {name: repr(value) for name, value in vars(net).items()} == attributes
    x = torch.rand(1, 6)
    assert torch.equal(net(x), kind()(x))


def test_a_counter_counts_no_capture():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.log = 0, []

        def forward(self, x):
            self.calls += 1
            self.log.append(x)
            self.extra = x
            return x * self.calls

    net = Counting()
    with sluice.inferenceModel(net) as model:
        for rows in (1, 2, 3):
            assert model(torch.ones(rows, 2)).tolist() == [[1, 1]] * rows
    assert (net.calls, net.log) == (0, []) and not hasattr(net, "extra")


class MakesAPart(nn.Module):
    def forward(self, x):
        if not hasattr(self, "late"):
            self.late = nn.Linear(x.shape[1], 1)
        return self.late(x)


class MakesABuffer(nn.Module):
    def forward(self, x):
        if not hasattr(self, "late"):
            self.register_buffer("late", torch.full((x.shape[1],), 2.0))
        return x * self.late


class FillsABuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("late", None)

    def forward(self, x):
        if self.late is None:
            self.late = torch.full((x.shape[1],), 2.0) + x.sum()
        return x * self.late


class ReplacesAPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.late = nn.ReLU()

    def forward(self, x):
        self.late = nn.Tanh()
        return self.late(x)


@pytest.mark.parametrize("kind", [MakesAPart, MakesABuffer, FillsABuffer, ReplacesAPart])
def test_parts_and_buffers_that_forward_makes_are_refused_at_once(kind):
    net, x = nn.Sequential(kind()), torch.rand(2, 3)
    names = [name for name, _ in net.named_modules()]
    with pytest.raises(sluice.Unsupported, match=r"'0\.late'.*call the module once with an example"):
        sluice.inferenceModel(net)(x)
    assert [name for name, _ in net.named_modules()] == names and not list(net.buffers())
    expected = net(x)
    if kind is not ReplacesAPart:
        with sluice.inferenceModel(net) as model:
            torch.testing.assert_close(model(x), expected)
            torch.testing.assert_close(model(x[:1]), expected[:1])
