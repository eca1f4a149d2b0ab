"""constantWeights and foldBatchNorm on torch modules, against eager torch in float64."""

import copy

import pytest
import torch

import sluice
from sluice import _core


def _options(fold=True):
    options = sluice.Options()
    options.constantWeights(True)
    options.foldBatchNorm(fold)
    return options


def _trained(net, seed=1):
    """Norms as they are after some training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in net.modules():
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                for tensor, low in ((part.weight, 0.5), (part.bias, -0.5), (part.running_mean, -0.5),
                                    (part.running_var, 0.5)):
                    tensor.copy_(torch.rand(tensor.shape, generator=generator) + low)
    return net.eval()


def _eager(net, x):
    with torch.no_grad():
        return copy.deepcopy(net).double()(x.double())


def _error(y, exact):
    return ((y.double() - exact).abs().max() / exact.abs().max()).item()


def _net(axes):
    name = f"{axes}d"
    conv, transposed = getattr(torch.nn, f"Conv{name}"), getattr(torch.nn, f"ConvTranspose{name}")
    norm = getattr(torch.nn, f"BatchNorm{name}")
    torch.manual_seed(axes)
    return _trained(
        torch.nn.Sequential(
            conv(3, 8, 3, padding=1), norm(8), torch.nn.ReLU(),
            conv(8, 8, 3, groups=8, bias=False, stride=2), norm(8), torch.nn.ReLU(),
            conv(8, 6, 1, groups=2), norm(6),
            transposed(6, 4, 3, stride=2, groups=2), norm(4), torch.nn.Flatten(),
            torch.nn.LazyLinear(5), torch.nn.BatchNorm1d(5)))  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_folded_norms_give_the_numbers_of_eager_torch(axes):
    net = _net(axes)
    x = torch.randn(2, 3, *[7] * axes)
    with torch.no_grad():
        net(x)  # the lazy layer gets its shape
    exact = _eager(net, x)
    plain = sluice.inferenceModel(copy.deepcopy(net))(x)
    folded = sluice.inferenceModel(copy.deepcopy(net), _options())(x)
    assert not torch.equal(folded, plain), "nothing was folded"
    assert _error(folded, exact) < 2e-6
    assert _error(plain, exact) < 2e-6


@pytest.mark.parametrize("dtype, bound", [(torch.float16, 2**-7), (torch.bfloat16, 2**-4)])
def test_sixteen_bits(dtype, bound):
    torch.manual_seed(0)
    net = _trained(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))).to(dtype)
    x = torch.randn(2, 3, 9, 9).to(dtype)
    plain = sluice.inferenceModel(copy.deepcopy(net), _options(fold=False))(x)
    folded = sluice.inferenceModel(net, _options())(x)
    assert folded.dtype == dtype
    assert not torch.equal(folded, plain), "nothing was folded"
    assert _error(folded, _eager(net, x)) < bound


def test_writes_of_torch_and_training_count():
    torch.manual_seed(0)
    net = _trained(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)))
    x = torch.randn(4, 3, 6, 6)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    inference = sluice.inferenceModel(net, _options())
    assert _error(inference(x), _eager(net, x)) < 2e-6
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    with torch.no_grad():
        net[0].weight.mul_(2)
        net[1].running_mean.add_(1)
    assert _error(inference(x), _eager(net, x)) < 2e-6

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            y = self.net(x)
            return y, y.square().mean()

    training = sluice.trainingModel(WithLoss().train(), optimizer=sluice.optim.SGD(net.parameters(), lr=0.5))
    before = inference(x)
    training(x)
    net.eval()
    after = inference(x)
    assert not torch.equal(after, before)
    assert _error(after, _eager(net, x)) < 2e-6


def test_without_constant_weights_it_is_refused():
    net = torch.nn.BatchNorm1d(3)
    options = sluice.Options()
    options.foldBatchNorm(True)
    with pytest.raises(_core.InvalidArgument, match="constantWeights"):
        sluice.inferenceModel(net, options)(torch.ones(2, 3))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_networks_of_torchvision(name):
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    net = _trained(getattr(torchvision.models, name)())
    x = torch.randn(1, 3, 64, 64)
    exact = _eager(net, x)
    plain = sluice.inferenceModel(copy.deepcopy(net), _options(fold=False))(x)
    folded = sluice.inferenceModel(net, _options())(x)
    assert not torch.equal(folded, plain), "nothing was folded"
    assert _error(folded, exact) < 1e-5


def test_sessions_of_popart_take_the_option_by_its_name():
    numpy = pytest.importorskip("numpy")
    from sluice import popart

    generator = numpy.random.default_rng(3)
    builder = popart.Builder()

    def weight(low, *shape):
        return builder.addInitializedInputTensor((generator.random(shape) + low).astype(numpy.float32))

    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [1, 3, 5, 5]))
    y = builder.aiOnnx.conv([x, weight(-0.5, 4, 3, 3, 3)])
    norm = [weight(low, 4) for low in (0.5, -0.5, -0.5, 0.5)]
    (y,) = builder.aiOnnx.batchnormalization([y, *norm], 1)
    builder.addOutputTensor(y)
    data = {x: generator.random((1, 3, 5, 5)).astype(numpy.float32)}
    results = []
    for fold in (False, True):
        options = popart.SessionOptions()
        options.set("foldBatchNorm", fold)
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]),
                                          popart.DeviceManager().createCpuDevice(), userOptions=options)
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(data, anchors))
        results.append(anchors[y].copy())
    assert not numpy.array_equal(*results), "nothing was folded"
    assert numpy.abs(results[0] - results[1]).max() < 1e-5
