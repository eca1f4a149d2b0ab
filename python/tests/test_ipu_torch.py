"""Torch modules as bodies and stages of sluice.ipu, against eager torch."""

import copy
import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sluice import _core, ipu, nn
from sluice.ipu import loops, pipelining_ops


class First(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 6)

    def forward(self, x, y):
        return torch.tanh(self.fc(x)), y


class Last(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 3)

    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.fc(x), y)


def data():
    random = np.random.default_rng(2)
    return random.uniform(-1, 1, (24, 5, 4)).astype(np.float32), random.integers(0, 3, (24, 5))


def eager(first, last, x, y, count):
    """Gradient descent on the sums over `count` mini-batches."""
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.05, momentum=0.5)
    losses = []
    for i in range(0, len(x), count):
        optimizer.zero_grad()
        for k in range(i, i + count):
            loss = last(*first(torch.from_numpy(x[k]), torch.from_numpy(y[k])))
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def models():
    torch.manual_seed(3)
    return First(), Last()


def pipelined(first, last, x, y):
    infeed, outfeed = ipu.IPUInfeedQueue((x, y)), ipu.IPUOutfeedQueue()

    def optimizer_function(loss):
        return pipelining_ops.OptimizerFunctionOutput(ipu.optimizers.MomentumOptimizer(0.05, 0.5), loss)

    train = ipu.compile(
        lambda: pipelining_ops.pipeline(
            [first, last],
            8,
            repeat_count=len(x) // 8,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer_function,
        ),
        graph=nn.Graph(),
    )
    train()
    return outfeed.dequeue()[0]


def test_a_pipeline_of_modules_trains_as_eager_torch_does():
    first, last = models()
    plain_first, plain_last = copy.deepcopy(first), copy.deepcopy(last)
    x, y = data()
    losses = pipelined(first, last, x, y)
    np.testing.assert_allclose(losses, eager(plain_first, plain_last, x, y, 8), rtol=1e-5)
    for ours, theirs in ((first, plain_first), (last, plain_last)):
        for name, value in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_modules_and_functions_mix_and_host_edits_count():
    module = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 2.0]]))
    infeed = ipu.IPUInfeedQueue([np.float32([[1, 1]])] * 4)

    def body(x):
        body.module = ipu._structure.body_of(module, "test")
        (y,) = body.module([x])
        loss = nn.sum(y * nn.get_variable("scale", [1], initializer=1.0))
        return ipu.optimizers.GradientDescentOptimizer(0.5).minimize(loss)

    train = ipu.compile(lambda: loops.repeat(1, body, [], infeed), graph=nn.Graph())
    train()
    assert train.graph.variable("scale").numpy().tolist() == [-0.5]  # 1 - 0.5 * (1 + 2)
    assert module.weight.tolist() == [[0.5, 1.5]]
    with torch.no_grad():
        module.weight.fill_(2)
    train()
    assert module.weight.tolist() == [[2.25, 2.25]]  # 2 + 0.5 * 0.5
    assert train.graph.variable("scale").numpy().tolist() == [-2.5]


def test_a_module_has_one_graph():
    module = torch.nn.Linear(1, 1)
    one = np.float32([[1]])
    first = ipu.compile(lambda x: loops.repeat(1, module, [x]), graph=nn.Graph())
    first(one)
    with pytest.raises(_core.InvalidArgument, match="another model or graph"):
        ipu.compile(lambda x: loops.repeat(1, module, [x]), graph=nn.Graph())(one)
    again = ipu.compile(lambda x: loops.repeat(2, module, [x]), graph=first.graph)
    w, b = module.weight.item(), module.bias.item()
    np.testing.assert_allclose(again(one)[0], [[w * (w + b) + b]], rtol=1e-5)


def test_a_module_is_free_once_its_graph_is_gone():
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([4.0]))

        def forward(self, x):
            return (self.w * x).sum()

    module = Loss()
    infeed = ipu.IPUInfeedQueue([np.float32([1])] * 8)
    stages = [lambda x: x * 1, module]
    sgd = ipu.optimizers.GradientDescentOptimizer(0.5)
    train = ipu.compile(
        lambda: pipelining_ops.pipeline(
            stages,
            4,
            infeed_queue=infeed,
            optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(sgd, loss),
        ),
        graph=nn.Graph(),
    )
    train()
    assert type(module.w) is not torch.nn.Parameter
    del train
    gc.collect()
    assert type(module.w) is torch.nn.Parameter and module.w.tolist() == [2]


def test_a_module_may_not_write_its_arguments():
    class Writes(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    with pytest.raises(_core.Unsupported, match="writes its arguments"):
        ipu.compile(lambda x: loops.repeat(1, Writes(), [x]), graph=nn.Graph())(np.float32([1]))


def test_stages_pass_dicts_of_torch_modules_by_name():
    class Split(torch.nn.Module):
        def forward(self, x, y):
            return {"difference": x - y, "sum": x + y}

    class Join(torch.nn.Module):
        def forward(self, sum, difference):
            return {"product": sum * difference}

    x, y = np.arange(8, dtype=np.float32), np.full(8, 2, np.float32)
    outfeed = ipu.IPUOutfeedQueue()
    infeed = ipu.IPUInfeedQueue({"y": y, "x": x})
    with nn.Graph().as_default():
        ipu.compile(lambda: pipelining_ops.pipeline(
            [Split(), Join()], 8, infeed_queue=infeed, outfeed_queue=outfeed))()
    assert np.array_equal(outfeed.dequeue()["product"], x * x - y * y)
