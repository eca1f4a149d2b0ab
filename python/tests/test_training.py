"""What a training model asks of its module, its loss and its optimizer, and what it leaves in them."""

import copy
import io
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import sluice  # noqa: E402
from sluice import _core  # noqa: E402
from sluice._state import Tree  # noqa: E402
from networks import TwoLayers, batch, train_eagerly  # noqa: E402


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(3)


class Scored(nn.Module):
    """Two layers of which the second is frozen, and a loss that the test chooses."""

    def __init__(self, loss):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.frozen = nn.Linear(4, 3).requires_grad_(False)
        self.loss = loss

    def forward(self, x, y):
        return self.loss(self, x, y)


def refusal(net, optimizer=None):
    with pytest.raises(ValueError) as caught:
        sluice.trainingModel(net, None, optimizer)(torch.ones(2, 4), torch.zeros(2, 3))
    return str(caught.value)


class TestLosses:
    @pytest.mark.parametrize("loss", [
        lambda net, x, y: (net.layer(x), functional.mse_loss(y, y + 1)),
        lambda net, x, y: functional.mse_loss(net.layer(x), y).detach(),
        lambda net, x, y: functional.mse_loss(net.layer(x).data, y),
        lambda net, x, y: torch.no_grad()(functional.mse_loss)(net.layer(x), y),
        lambda net, x, y: torch.no_grad()(net.layer)(x).mean(),
        lambda net, x, y: net.layer(x).argmax(1).float().mean(),
        lambda net, x, y: (net.layer(x), torch.tensor(1.0)),
        lambda net, x, y: (net.layer(x), x.mean()),
        lambda net, x, y: functional.mse_loss(net.frozen(x), y),
        lambda net, x, y: (sluice.identity_loss((x * x).mean(), "none"), net.layer(x).mean()),
    ])
    def test_that_depend_on_no_weight_are_refused(self, loss):
        assert "depends on no weight that is trained" in refusal(Scored(loss))

    def test_may_reach_the_weights_in_part(self):
        def loss(net, x, y):
            row = torch.zeros(3)
            row[0] = net.layer(x)[0, 0]
            return x.mean() + net.frozen(x).sum() + row.sum()

        net = Scored(loss)
        before = net.layer.weight.detach().clone()
        sluice.trainingModel(net)(torch.ones(2, 4), torch.zeros(2, 3))
        assert not torch.equal(net.layer.weight, before)

    def test_of_one_element_are_numbers(self):
        net, x, y = Scored(lambda net, x, y: net.layer(x).mean().reshape(1, 1)), torch.ones(2, 4), torch.zeros(2, 3)
        expected = copy.deepcopy(net)
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
        assert model(x, y).shape == (1, 1)
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.1), x, y)
        assert torch.allclose(net.layer.weight, expected.layer.weight)

    @pytest.mark.parametrize("hidden", [nn.Parameter(torch.ones(3)), [nn.Linear(3, 3)]])
    def test_do_not_use_weights_that_the_module_does_not_know(self, hidden):
        def loss(net, x, y):
            y = net.layer(x)
            return (y * hidden if isinstance(hidden, nn.Parameter) else hidden[0](y)).mean()

        net = Scored(loss)
        more = [hidden] if isinstance(hidden, nn.Parameter) else hidden[0].parameters()
        text = refusal(net, torch.optim.SGD([*net.parameters(), *more], lr=0.1))
        assert "that the optimizer has and the module has not" in text and "test_training.py" in text
        sluice.trainingModel(net)(torch.ones(2, 4), torch.zeros(2, 3))  # as a constant

    def test_pass_data_that_was_replaced(self):
        def loss(net, x, y):
            y = net.layer(x)
            y.data = y.data.clamp(-0.1, 0.1)
            return (y * y).sum()

        net, x, y = Scored(loss), torch.ones(2, 4), torch.zeros(2, 3)
        expected = copy.deepcopy(net)
        sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))(x, y)
        loss(expected, x, y).backward()
        torch.optim.SGD(expected.parameters(), lr=0.1).step()
        assert torch.allclose(net.layer.weight, expected.layer.weight)

    def test_need_weights_of_the_optimizer(self):
        net = Scored(lambda net, x, y: net.frozen(x).mean())
        net.frozen.requires_grad_(True)
        optimizer = torch.optim.SGD(net.layer.parameters(), lr=0.1)
        assert "in no parameter group of the optimizer" in refusal(net, optimizer)

    def test_need_a_weight_at_all(self):
        net = Scored(lambda net, x, y: net.layer(x).mean())
        assert "has no trainable weights" in refusal(net.requires_grad_(False))
        del net.layer, net.frozen
        assert "has no parameters" in refusal(net)

    def test_tell_forward_what_requires_a_gradient(self):
        seen = []

        def loss(net, x, y):
            a, b = net.layer(x), net.frozen(x)
            with torch.no_grad():
                c = net.layer(x)
            parts = torch.zeros(2, 3)
            parts[0] = a[0]
            found = (x, a, a.t(), a.detach(), a.argmax(1), b, c, parts, functional.mse_loss(b, y))
            seen.append([each.requires_grad for each in found])
            return functional.mse_loss(a, y)

        net, x, y = Scored(loss), torch.ones(2, 4), torch.zeros(2, 3)
        sluice.trainingModel(net)(x, y)
        net(x, y)
        assert seen[0] == seen[1]


class TestHooks:
    @pytest.mark.parametrize("add, words", [
        (lambda net: net.last.register_full_backward_hook(print), "module 'last' has a backward hook"),
        (lambda net: net.register_full_backward_hook(print), "TwoLayers has a backward hook"),
        (lambda net: net.first.bias.register_hook(print), "parameter 'first.bias' has a gradient hook"),
    ])
    def test_on_gradients_are_refused_until_they_are_removed(self, add, words):
        net = TwoLayers()
        hook = add(net)
        model = sluice.trainingModel(net)
        with pytest.raises(NotImplementedError, match=words):
            model(*batch())
        hook.remove()
        model(*batch())

    @pytest.mark.parametrize("ask", [lambda t: t.register_hook(print), lambda t: t.retain_grad()])
    def test_on_tensors_of_forward_are_refused_with_their_line(self, ask):
        net = Scored(lambda net, x, y: (ask(net.layer(x)), net.layer(x).mean())[1])
        with pytest.raises(NotImplementedError, match=r"would never be called.*test_training\.py"):
            sluice.trainingModel(net)(torch.ones(2, 4), torch.zeros(2, 3))

    def test_of_forward_run(self):
        net = TwoLayers()
        net.first.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
        net.first.register_forward_hook(lambda module, inputs, output: output * 2)
        x, _ = batch()
        assert torch.allclose(sluice.inferenceModel(net)(x), net(x), atol=1e-6)


class TestChangesAfterTheFirstCall:
    @pytest.mark.parametrize("first", [True, False])
    def test_of_what_is_frozen_are_refused(self, first):
        net = TwoLayers()
        net.first.requires_grad_(first)
        model = sluice.trainingModel(net)
        model(*batch())
        net.first.requires_grad_(not first)
        then = "trained" if first else "frozen"
        with pytest.raises(ValueError, match=f"'first.weight' has changed, which was {then}"):
            model(*batch())
        net.first.requires_grad_(first)
        model(*batch())

    def test_of_what_is_frozen_take_effect_in_a_new_model(self):
        net = TwoLayers(dtype=torch.float64)
        expected = copy.deepcopy(net)
        x, y = batch()
        for each in (net, expected):
            each.first.requires_grad_(False)
        optimizers = [torch.optim.Adam(each.parameters(), lr=0.1) for each in (net, expected)]
        for frozen in (True, False):
            net.first.requires_grad_(not frozen)
            expected.first.requires_grad_(not frozen)
            with sluice.trainingModel(net, None, optimizers[0]) as model:
                model(x.double(), y)
            train_eagerly(expected, optimizers[1], x.double(), y)
            if frozen:  # torch counts the steps of each weight, a model those of all
                for optimizer in optimizers:
                    optimizer.state.clear()
        for a, b in zip(net.parameters(), expected.parameters()):
            assert torch.allclose(a, b, atol=1e-9)

    def test_of_the_learning_rate_warn_once_if_the_model_does_not_get_them(self):
        net = TwoLayers()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        model = sluice.trainingModel(net, None, optimizer)
        model(*batch())
        optimizer.param_groups[0]["lr"] = 0.2
        with pytest.warns(UserWarning, match="setOptimizer"):
            model(*batch())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(*batch())
            model.setOptimizer(optimizer)
            model(*batch())


class TestSetOptimizer:
    def test_refuses_what_cannot_train_the_module(self):
        model = sluice.trainingModel(TwoLayers())
        model(*batch())
        with pytest.raises(ValueError, match="none of the module's parameters"):
            model.setOptimizer(torch.optim.SGD(TwoLayers().parameters(), lr=0.1))
        with pytest.raises(ValueError, match="got None"):
            model.setOptimizer(None)
        with pytest.raises(ValueError, match="got int"):
            model.setOptimizer(3)
        with pytest.raises(ValueError, match="inference"):
            sluice.inferenceModel(TwoLayers()).setOptimizer(3)

    def test_gives_the_state_to_the_new_object(self):
        net = TwoLayers()
        model = sluice.trainingModel(net, None, sluice.optim.Adam(net.parameters(), lr=0.1))
        model(*batch())
        newer = sluice.optim.Adam(net.parameters(), lr=0.1)
        model.setOptimizer(newer)
        model(*batch())
        assert newer.state_dict()["ipu_param"]["updates"] == 2


RULES = [
    lambda p: torch.optim.Adam(p, lr=0.1),
    lambda p: torch.optim.AdamW(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
]


def saved_whole(pair):
    file = io.BytesIO()
    torch.save(pair, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("make", RULES)
class TestStateOfTorchsOptimizers:
    def start(self, make):
        net = TwoLayers(dtype=torch.float64)
        x, y = batch()
        return net, make(net.parameters()), x.double(), y

    def step(self, net, optimizer, x, y, eager):
        if eager:
            train_eagerly(net, optimizer, x, y)
        else:
            with sluice.trainingModel(net, None, optimizer) as model:
                model(x, y)

    def test_goes_from_torch_to_a_model_and_back(self, make):
        net, optimizer, x, y = self.start(make)
        expected = copy.deepcopy(net)
        reference = make(expected.parameters())
        for eager in (True, False, False, True, False):
            self.step(net, optimizer, x, y, eager)
            self.step(expected, reference, x, y, True)
        for a, b in zip(net.parameters(), expected.parameters()):
            assert torch.allclose(a, b, atol=1e-9)

    def test_is_in_checkpoints(self, make):
        net, optimizer, x, y = self.start(make)
        model = sluice.trainingModel(net, None, optimizer)
        model(x, y)
        file = io.BytesIO()
        torch.save((net.state_dict(), optimizer.state_dict()), file)
        file.seek(0)
        weights, state = torch.load(file, weights_only=False)
        model(x, y)
        expected = [each.detach().clone() for each in net.parameters()]
        model(x, y)
        net.load_state_dict(weights)
        optimizer.load_state_dict(state)
        model(x, y)
        for a, b in zip(net.parameters(), expected):
            assert torch.equal(a, b)

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair)), saved_whole])
    def test_is_in_copies_of_the_optimizer(self, make, duplicate):
        net, optimizer, x, y = self.start(make)
        with sluice.trainingModel(net, None, optimizer) as model:
            model(x, y)
            model(x, y)
            other, copied = duplicate((net, optimizer))
            model(x, y)
            train_eagerly(other, copied, x, y)
        for a, b in zip(net.parameters(), other.parameters()):
            assert torch.allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("rules", [torch.optim, sluice.optim], ids=["torch", "sluice"])
def test_an_optimizer_has_one_model_at_a_time(rules):
    nets = [TwoLayers(), TwoLayers()]
    optimizer = rules.Adam([p for net in nets for p in net.parameters()], lr=0.1)
    first, second = [sluice.trainingModel(net, None, optimizer) for net in nets]
    first(*batch())
    with pytest.raises(sluice.InvalidArgument, match="another model that lives"):
        second(*batch())
    own = rules.Adam(nets[1].parameters(), lr=0.1)
    second = sluice.trainingModel(nets[1], None, own)
    second(*batch())
    with pytest.raises(sluice.InvalidArgument, match="another model that lives"):
        second.setOptimizer(optimizer)
    second(*batch())
    first.destroy()
    second.setOptimizer(optimizer)
    second.destroy()
    with sluice.trainingModel(nets[0], None, optimizer) as model:
        model(*batch())


@pytest.mark.parametrize("rules", [torch.optim, sluice.optim], ids=["torch", "sluice"])
@pytest.mark.parametrize("failing", [(Tree, "fetch_last"), (_core.Model, "optimizer_state_dict")], ids=["weights", "state"])
def test_an_end_that_fails_leaves_the_optimizer_free(rules, failing, monkeypatch):
    net = TwoLayers()
    optimizer = rules.Adam(net.parameters(), lr=0.1)
    model = sluice.trainingModel(net, None, optimizer)
    model(*batch())

    def fail(self):
        raise OSError("remote memory is gone")

    with monkeypatch.context() as patched:
        patched.setattr(*failing, fail)
        with pytest.raises(OSError, match="is gone"):
            model.destroy()
    with sluice.trainingModel(net, None, optimizer) as other:
        other(*batch())


@pytest.mark.parametrize("rules", [torch.optim, sluice.optim], ids=["torch", "sluice"])
def test_an_optimizer_that_is_refused_leaves_the_other_one_to_the_model(rules):
    x, y = batch()

    def train(steps, refused):
        torch.manual_seed(3)
        net = TwoLayers()
        optimizer = rules.Adam(net.parameters(), lr=0.1)
        with sluice.trainingModel(net, None, optimizer) as model:
            for step in range(steps):
                model(x, y)
                if step == 1 and refused:
                    other = torch.optim.Adam(net.parameters(), lr=0.5)
                    for count, each in enumerate(net.parameters()):
                        moments = {key: torch.ones_like(each) for key in ("exp_avg", "exp_avg_sq")}
                        other.state[each] = {"step": torch.tensor(float(count)), **moments}
                    with pytest.raises(NotImplementedError, match="different numbers of steps"):
                        model.setOptimizer(other)
                    assert "state_dict" not in vars(other)
            given = optimizer.state_dict()
        return [*net.parameters(), given, optimizer.state_dict()]

    *found, given, left = train(4, refused=True)
    *expected, wanted, _ = train(4, refused=False)
    assert all(map(torch.equal, found, expected))
    assert str(given) == str(wanted) == str(left)


def test_steps_that_differ_between_weights_are_refused():
    net = TwoLayers()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    x, y = batch()
    for trained in (True, False):
        net.first.requires_grad_(trained)
        train_eagerly(net, optimizer, x, y)
        net.zero_grad(set_to_none=True)
    net.requires_grad_(True)
    with pytest.raises(NotImplementedError, match="different numbers of steps"):
        sluice.trainingModel(net, None, optimizer)(x, y)
    assert optimizer.state_dict()["state"]  # it is still torch's


UNFROZEN = {
    "Adam": (lambda p: torch.optim.Adam(p, lr=0.1), True),
    "dampening": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), True),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), False),
    "RMSprop": (lambda p: torch.optim.RMSprop(p, lr=0.1), False),
}


@pytest.mark.parametrize("name", UNFROZEN)
@pytest.mark.parametrize("train_after", [True, False])
def test_weights_that_are_unfrozen_or_frozen_later(name, train_after):
    """Unfrozen ones have no steps, which is warned of where steps count; frozen ones have fewer than the others."""
    make, counts = UNFROZEN[name]
    net = TwoLayers(dtype=torch.float64)
    x, y = batch()
    expected = copy.deepcopy(net)
    optimizer, reference = make(net.parameters()), make(expected.parameters())
    for trained in (not train_after, train_after):
        for each in (net, expected):
            each.first.requires_grad_(trained)
            each.zero_grad(set_to_none=True)
        with warnings.catch_warnings(record=True) as caught, sluice.trainingModel(net, None, optimizer) as model:
            warnings.simplefilter("always")
            for _ in range(3):
                model(x.double(), y)
                train_eagerly(expected, reference, x.double(), y)
        warned = [str(each.message) for each in caught if "new optimizer" in str(each.message)]
        assert len(warned) == (counts and train_after and trained)
        assert all("but not 'first.weight' and 1 more" in each for each in warned)
    for a, b in zip(net.parameters(), expected.parameters()):
        assert torch.allclose(a, b, atol=1e-9) or (counts and train_after)
    net.requires_grad_(False)
    net.first.requires_grad_(True)  # the last ones have made more steps, but are frozen
    with sluice.trainingModel(net, None, optimizer) as model:
        model(x.double(), y)
