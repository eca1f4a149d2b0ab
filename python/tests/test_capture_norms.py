"""Batch norms whose running statistics are means over all batches (momentum=None)."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import sluice  # noqa: E402
from networks import bits, train_eagerly  # noqa: E402


class Averaged(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.first = nn.Linear(4, 4, dtype=torch.float64)
        self.norm = nn.BatchNorm1d(4, momentum=None, dtype=torch.float64, **settings)
        self.last = nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, x, y=None):
        with sluice.Block("one", ipu_id=0):
            x = self.norm(self.first(x))
        with sluice.Block("two", ipu_id=1):
            x = self.last(x)
            return x if y is None else (x, nn.functional.mse_loss(x, y))


def data():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(8, n, generator=generator, dtype=torch.float64) for n in (4, 3)]


def trained(accumulation, strategy=None, **settings):
    """A network after three steps, and the same in eager torch."""
    torch.manual_seed(3)
    net = Averaged(**settings)
    expected = copy.deepcopy(net)
    options = sluice.Options()
    options.Training.gradientAccumulation(accumulation)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    with sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1)) as model:
        for _ in range(3):
            model(*data())
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    train_eagerly(expected, optimizer, *data(), steps=3, accumulation=accumulation)
    return net, expected


@pytest.mark.parametrize("settings", [{}, {"affine": False}, {"track_running_stats": False}])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_all_micro_batches_count_as_in_torch(accumulation, settings):
    net, expected = trained(accumulation, **settings)
    for (name, a), b in zip(net.state_dict().items(), expected.state_dict().values()):
        assert torch.allclose(a, b, atol=1e-9), name
    if "track_running_stats" not in settings:
        assert net.norm.num_batches_tracked == 3 * accumulation


def test_a_pipeline_has_the_bits_of_one_device():
    alone, _ = trained(4)
    piped, _ = trained(4, sluice.PipelinedExecution("one", "two"))
    assert bits(alone) == bits(piped)


def test_inference_uses_the_means():
    net, expected = trained(2)
    x, _ = data()
    found = sluice.inferenceModel(net)(x)
    assert torch.allclose(found, expected.eval()(x), atol=1e-9)
    assert net.norm.num_batches_tracked == 6


def test_wrong_inputs_are_named_as_for_other_norms():
    model = sluice.trainingModel(Averaged())
    x, y = data()
    with pytest.raises(ValueError, match=r"more than one value per channel.*'norm'"):
        model(x[:1], y[:1])
    with pytest.raises(ValueError, match="2D or 3D"):
        sluice.trainingModel(Averaged())(x[None, None], y)
