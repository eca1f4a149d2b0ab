"""Blocks without ops: around nothing, or around a layer that does nothing."""

import copy

import pytest

torch = pytest.importorskip("torch")

import torch.nn as nn  # noqa: E402

import sluice  # noqa: E402


class Net(nn.Module):
    """Two layers and a loss; `places` says what is in which block."""

    def __init__(self, places):
        super().__init__()
        self.first, self.last, self.idle = nn.Linear(4, 4), nn.Linear(4, 4), nn.Identity()
        self.places = places

    def forward(self, x, target):
        return self.places(self, x, target)


def loss_of(net, x, target):
    return nn.functional.mse_loss(net.last(x), target)


def around_nothing(net, x, target):
    with sluice.Block("empty"):
        pass
    return loss_of(net, net.first(x), target)


def around_an_identity(net, x, target):
    with sluice.Block("empty"):
        x = net.idle(x)
    return loss_of(net, net.first(x), target)


def at_the_begin(net, x, target):
    with sluice.Block("empty"):
        pass
    with sluice.Block("A"):
        x = net.first(x)
    with sluice.Block("B"):
        return loss_of(net, x, target)


def between(net, x, target):
    with sluice.Block("A"):
        x = net.first(x)
    with sluice.Block("empty"):
        x = net.idle(x)
    with sluice.Block("B"):
        return loss_of(net, x, target)


def at_the_end(net, x, target):
    with sluice.Block("A"):
        x = net.first(x)
    with sluice.Block("B"):
        x = loss_of(net, x, target)
    with sluice.Block("empty"):
        return net.idle(x)


PIPELINE, PHASES = sluice.PipelinedExecution, sluice.SerialPhasedExecution
STRATEGIES = [
    (around_nothing, None),
    (around_nothing, PIPELINE(sluice.AutoStage.AutoIncrement)),
    (around_nothing, PIPELINE("empty")),
    (around_an_identity, PIPELINE("empty")),
    (at_the_begin, PIPELINE("empty", "A", "B")),
    (between, PIPELINE("A", "empty", "B")),
    (at_the_end, PIPELINE("A", "B", "empty")),
    (at_the_end, sluice.ShardedExecution("A", "B", "empty")),
    (at_the_end, PHASES("A", "B", "empty")),
]


def trained(net, strategy):
    """The loss of a step and the weights after it."""
    options = sluice.Options()
    options.Training.gradientAccumulation(4)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    model = sluice.trainingModel(net, options=options, optimizer=torch.optim.SGD(net.parameters(), lr=0.5))
    try:
        loss = model(torch.linspace(-1, 1, 32).reshape(8, 4), torch.ones(8, 4))
        return [loss, *(p.detach().clone() for p in net.parameters())]
    finally:
        model.destroy()


@pytest.mark.parametrize("places, strategy", STRATEGIES, ids=lambda each: getattr(each, "__name__", repr(each)))
def test_a_block_without_ops_changes_nothing(places, strategy):
    torch.manual_seed(0)
    plain = Net(lambda net, x, target: loss_of(net, net.first(x), target))
    net = copy.deepcopy(plain)
    net.places = places
    for found, expected in zip(trained(net, strategy), trained(plain, None)):
        assert torch.equal(found, expected)


def test_where_blocks_must_cover_all_ops_the_error_names_the_block_without_any():
    net = Net(around_nothing)
    options = sluice.Options()
    options.enforceIpuRules(True)
    model = sluice.trainingModel(net, options=options, optimizer=torch.optim.SGD(net.parameters(), lr=0.5))
    with pytest.raises(sluice.InvalidArgument, match="block 'empty' has no op"):
        model(torch.ones(8, 4), torch.ones(8, 4))
