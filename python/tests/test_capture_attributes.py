"""Attributes that forward changes: every capture, and the module itself afterwards, begin with those of before."""

import collections
import functools

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


@functools.lru_cache(maxsize=None)
def causal(length):
    return torch.full((length, length), float("-inf")).triu(1)


POSITIONS = {}


def positions(length):
    if length not in POSITIONS:
        POSITIONS[length] = torch.arange(length).float()
    return POSITIONS[length]


class Remembering(nn.Module):
    """What functions outside of the module remember is known."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x + positions(4)[:4] + positions(4)[None].t()[:, 0])
        y = y + torch.softmax(causal(4) + x[:1], 1)[0]
        return y, y.square().mean()


def test_what_functions_remember_of_one_capture_serves_the_next_ones_and_torch():
    net = Remembering()
    x = torch.rand(2, 4)
    with sluice.trainingModel(net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1)) as training:
        training(x)  # fills both
        with sluice.inferenceModel(net) as inference:
            found = inference(x)[0]
            training(torch.rand(3, 4))
            wider = inference(torch.cat([x, x]))[0]
            state = {name: value.clone() for name, value in net.state_dict().items()}
    now = net(x)[0]  # from the same caches
    causal.cache_clear()
    POSITIONS.clear()
    torch.testing.assert_close(now, net(x)[0], rtol=0, atol=0)
    net.load_state_dict(state)
    torch.testing.assert_close(wider[:2], net(x)[0])
    assert not torch.equal(found, wider[:2])


def test_containers_may_be_deep_and_large():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = {}
            innermost = self.deep
            for _ in range(5000):
                innermost["next"] = innermost = {}
            self.innermost = [innermost]
            self.small, self.large = [0] * 10_000, [0] * 10_001

        def forward(self, x):
            self.innermost[0]["seen"] = 1
            for each in (self.small, self.large):
                each[0] += 1
                each.append(1)
            return x + self.small[0]

    net = Net()
    with sluice.inferenceModel(net) as model:
        assert model(torch.ones(2)).tolist() == [2, 2]
    assert net.innermost == [{}]
    assert net.small == [0] * 10_000
    assert net.large == [1, *[0] * 10_000, 1]  # as forward left it


def test_what_only_a_run_knows_is_not_remembered():
    remembered = {}

    class Net(nn.Module):
        def forward(self, x):
            if "first" not in remembered:
                remembered["first"] = x * 2
            return x + remembered["first"]

    with sluice.inferenceModel(Net()) as model:
        model(torch.ones(2, 2))
        with pytest.raises(sluice.InvalidArgument, match=r"lru_cache.*test_capture_attributes\.py:\d+\)"):
            model(torch.ones(3, 2))
    with pytest.raises(sluice.InvalidArgument, match="lru_cache"):
        remembered["first"] + 1


def test_an_attribute_that_is_replaced_between_calls_is_captured_again():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = torch.ones(3)

        def forward(self, x):
            captured.append(self.mask)
            return x * self.mask

    captured = []
    net = nn.Sequential(Masked())
    nan = torch.tensor([1.0, float("nan"), 2.0])
    with sluice.inferenceModel(net) as model:
        assert model(torch.ones(2, 3)).tolist() == [[1, 1, 1]] * 2
        for other, captures in [(torch.ones(3), 1), (torch.zeros(3), 2), (nan, 3), (nan.clone(), 3), (nan[:1], 4)]:
            net[0].mask = other
            expected = other.expand(2, 3)
            torch.testing.assert_close(model(torch.ones(2, 3)), expected, rtol=0, atol=0, equal_nan=True)
            assert len(captured) == captures
        net[0].mask = None
        for _ in range(2):
            with pytest.raises(TypeError):
                model(torch.ones(2, 3))
        net[0].mask = mask = torch.zeros(3)
        assert model(torch.ones(2, 3)).tolist() == [[0, 0, 0]] * 2
        mask += 1
        with pytest.raises(sluice.InvalidArgument, match="changed after the model was compiled.*register_buffer"):
            model(torch.ones(2, 3))


def optimizers(module):
    yield torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    yield sluice.optim.Adam(module.parameters(), lr=0.1)


@pytest.mark.parametrize("kind", range(2))
def test_the_module_may_be_called_between_calls_of_a_model_that_trains_it(kind):
    """Its cache and the key of it are then those of another length."""

    class Rope(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))
            self.n, self.cos = 0, None

        def forward(self, x):
            if x.shape[1] != self.n:
                self.n = x.shape[1]
                self.cos = torch.cos(torch.arange(self.n) * x.new_ones(1))
            y = x * self.cos * self.scale
            return y, y.square().sum()

    def trained(called):
        net, x = Rope(), torch.ones(2, 4)
        results = []
        with sluice.trainingModel(net, optimizer=list(optimizers(net))[kind]) as model:
            for length in (4, 8, 4, 3):
                if called:
                    net(torch.ones(2, length))
                results += [model(x)[0].tolist(), net.scale.item()]
        return results

    assert trained(True) == trained(False)
