"""A step that fails after it has written a part of its update, without a copy of what it overwrote."""

import copy
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
from torch import nn  # noqa: E402

X = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(8) % 5
WRONG = torch.cat([LABELS[:5], torch.tensor([77]), LABELS[6:]])  # in the second of two updates


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(3, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.norm(self.fc(x)), labels)


def training(net, optimizer):
    return sluice.trainingModel(net, sluice.Options().deviceIterations(2).undoMemory(0), optimizer)


def values(net):
    return [each.detach().clone() for each in (*net.parameters(), *net.buffers())]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


def fail(model):
    with pytest.raises(ValueError, match="label 77"):
        model(X, WRONG)


@pytest.fixture(params=[torch.optim.SGD, sluice.optim.SGD], ids=["torch", "sluice"])
def make_optimizer(request):
    return lambda net: request.param(net.parameters(), lr=0.1, momentum=0.9)


@pytest.fixture
def torn(make_optimizer):
    net = Net()
    optimizer = make_optimizer(net)
    model = training(net, optimizer)
    model(X, LABELS)
    fail(model)
    yield net, optimizer, model
    model.destroy()


pytestmark = pytest.mark.filterwarnings("ignore:the module keeps the values")

READS = {
    "arithmetic": lambda net: net.fc.weight + 0,
    "repr": lambda net: repr(net.fc.weight),
    "state_dict": lambda net: net.state_dict(),
    "deepcopy": copy.deepcopy,
    "a buffer": lambda net: net.norm.running_mean.sum(),
    "copying from it": lambda net: torch.zeros(5, 3).copy_(net.fc.weight),
    "filling it from another": lambda net: net.norm.running_var.copy_(net.norm.running_mean),
}


class TestWhatTheDevicesLost:
    @pytest.mark.parametrize("read", READS)
    def test_reading_it_is_an_error(self, torn, read):
        with pytest.raises(sluice.RecoverableError, match="torn.*Options.undoMemory"):
            READS[read](torn[0])

    def test_running_is_an_error(self, torn):
        with pytest.raises(sluice.RecoverableError, match="torn"):
            torn[2](X, LABELS)

    def test_shapes_and_types_can_be_asked(self, torn):
        weight = torn[0].fc.weight
        assert weight.shape == weight.size() == (5, 3) and weight.numel() == 15 and weight.dim() == 2
        assert weight.dtype is torch.float32 and weight.requires_grad and str(weight.device) == "cpu"


class TestGoingOn:
    def test_loaded_states_continue_with_the_bits_of_an_undisturbed_run(self, make_optimizer):
        net = Net()
        optimizer = make_optimizer(net)
        model = training(net, optimizer)
        model(X, LABELS)
        weights, momenta = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict())
        model(X, LABELS)
        expected = values(net)
        fail(model)
        net.load_state_dict(weights)
        assert torch.equal(net.fc.weight, weights["fc.weight"])
        try:
            optimizer.load_state_dict(momenta)
        except sluice.RecoverableError as error:  # optimizers of torch need to know what the devices have
            assert isinstance(optimizer, torch.optim.SGD) and "destroy" in str(error)
            model.destroy()
            model = training(net, optimizer)
        model(X, LABELS)
        assert same(values(net), expected)

    def test_destroy_leaves_the_values_of_the_last_look(self, make_optimizer):
        net = Net()
        optimizer = make_optimizer(net)
        model = training(net, optimizer)
        model(X, LABELS)
        looked_at = values(net)
        model(X, LABELS)
        fail(model)
        with pytest.warns(UserWarning, match="keeps the values"):
            model.destroy()
        assert same(values(net), looked_at) and type(net.fc.weight) is nn.Parameter
        again = training(net, optimizer)
        again(X, LABELS)
        assert not same(values(net), looked_at)

    def test_values_that_were_read_before_the_step_are_whole(self, make_optimizer, recwarn):
        net = Net()
        model = training(net, make_optimizer(net))
        model(X, LABELS)
        before = values(net)
        fail(model)
        assert same(values(net), before)
        model.destroy()
        assert same(values(net), before) and not recwarn.list

    def test_the_interpreter_ends_with_a_warning_and_no_error(self):
        script = (
            "from test_torn_state import *\n"
            "net = Net()\n"
            "model = training(net, torch.optim.SGD(net.parameters(), lr=0.1))\n"
            "model(X, LABELS)\n"
            "fail(model)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0 and "Traceback" not in done.stderr
        assert "the module keeps the values" in done.stderr and "starts anew" not in done.stderr
