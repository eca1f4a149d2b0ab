"""Optimizers: attributes reach the core as torch has them; marks follow PopTorch's rules."""

import copy
import math
import pickle

import pytest

torch = pytest.importorskip("torch")

import sluice
from sluice import _optim_base, _optim_core, optim


def parameters(count=3):
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(4)) for _ in range(count)]


def named(params):
    return {id(p): f"w{i}" for i, p in enumerate(params)}


def core_of(optimizer):
    params = [p for group in optimizer.param_groups for p in group["params"]]
    return _optim_core.to_core(optimizer, named(params))


NATIVE = {
    "SGD": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01)),
    "Adam": (torch.optim.Adam, dict(lr=0.2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "AdamW": (torch.optim.AdamW, dict(lr=0.3, betas=(0.7, 0.9), eps=1e-5, weight_decay=0.2)),
    "RMSprop": (torch.optim.RMSprop, dict(lr=0.4, alpha=0.9, eps=1e-4, momentum=0.5)),
}


@pytest.mark.parametrize("kind", NATIVE)
def test_attributes_of_torchs_optimizers_are_those_of_the_core(kind):
    cls, arguments = NATIVE[kind]
    core = core_of(cls(parameters(), **arguments))
    assert core.name == kind
    values = core.attributes()
    for name, value in arguments.items():
        if name == "betas":
            assert (values["beta1"], values["beta2"]) == value
        else:
            assert values[name] == value


@pytest.mark.parametrize("kind", NATIVE)
def test_our_classes_have_torchs_attributes_and_step(kind):
    cls, arguments = NATIVE[kind]
    if kind == "SGD":
        arguments = dict(arguments, dampening=0.0)
    theirs, ours = parameters(), parameters()
    reference, optimizer = cls(theirs, **arguments), getattr(optim, kind)(ours, **arguments)
    assert isinstance(optimizer, cls)
    for _ in range(3):
        for a, b in zip(theirs, ours):
            a.grad = torch.sin(a.detach() * 3)
            b.grad = torch.sin(b.detach() * 3)
        reference.step()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(theirs, ours))


def test_native_attributes_at_their_defaults_are_constant():
    core = core_of(torch.optim.SGD(parameters(), lr=0.01))
    assert core.is_constant("momentum") and core.is_constant("weight_decay")
    assert not core.is_constant("lr")
    core = core_of(torch.optim.SGD(parameters(), lr=0.01, momentum=0.9, weight_decay=0.1))
    assert not core.is_constant("momentum") and not core.is_constant("weight_decay")
    core = core_of(torch.optim.AdamW(parameters(), betas=(0.5, 0.6), weight_decay=1e-2))
    assert core.is_constant("beta1") and core.is_constant("weight_decay")
    core = core_of(torch.optim.Adam(parameters(), weight_decay=1e-2))
    assert not core.is_constant("weight_decay")


def test_attributes_given_to_our_constructors_are_variable():
    optimizer = optim.SGD(parameters(), lr=0.01, momentum=0.0)
    core = core_of(optimizer)
    assert not core.is_constant("momentum") and core.is_constant("weight_decay")
    assert core.is_constant("loss_scaling")
    optimizer = optim.SGD(parameters(), lr=0.01, loss_scaling=2.0)
    assert not core_of(optimizer).is_constant("loss_scaling")
    assert not optimizer.variable_attrs.isConstant("loss_scaling")
    core = core_of(optim.Adam(parameters(), betas=(0.9, 0.99)))
    assert not core.is_constant("beta1") and not core.is_constant("beta2")
    assert core.is_constant("eps") and not core.is_constant("lr")


def test_marks_override_the_constructor():
    optimizer = optim.Adam(parameters(), lr=0.1, eps=1e-5)
    optimizer.variable_attrs.markAsConstant("eps")
    optimizer.variable_attrs.markAsVariable("betas")
    core = core_of(optimizer)
    assert core.is_constant("eps") and not core.is_constant("beta2")
    assert optimizer.variable_attrs.isConstant("eps")
    assert not optimizer.variable_attrs.isConstant("lr")


def test_marks_of_unknown_and_fixed_names_are_refused():
    attributes = optim.SGD(parameters(), lr=0.1).variable_attrs
    for function in (attributes.markAsConstant, attributes.markAsVariable, attributes.isConstant):
        with pytest.raises(AssertionError, match="unknown attribute 'beta'.*momentum"):
            function("beta")
    with pytest.raises(ValueError, match="lr is always variable"):
        attributes.markAsConstant("lr")
    with pytest.raises(ValueError, match="part of the rule"):
        attributes.markAsVariable("nesterov")
    assert attributes.isConstant("nesterov")


def test_groups_are_found_by_the_identity_of_their_parameters():
    a, b, c = parameters(3)
    groups = [
        {"params": [a]},
        {"params": [c], "lr": 0.5, "weight_decay": 0.25},
        {"params": [b], "momentum": 0.1},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    core = _optim_core.to_core(optimizer, named([a, b, c]))
    assert core.num_groups == 3
    assert core.get("lr", 0) == 0.1 and core.get("lr", 1) == 0.5 and core.get("lr", 2) == 0.1
    assert core.get("weight_decay", 1) == 0.25 and core.get("momentum", 2) == 0.1
    assert core.get("momentum", 1) == 0.9


def test_parameters_in_no_group_are_not_trained():
    a, b, c = parameters(3)
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": [c]}], lr=0.1)
    assert _optim_core.untrained(optimizer, named([a, b, c])) == ["w1"]


def test_extra_attributes_reach_the_core():
    optimizer = optim.SGD(
        parameters(),
        lr=0.1,
        momentum=0.9,
        loss_scaling=8.0,
        velocity_scaling=4.0,
        use_combined_accum=True,
        accum_type=torch.float16,
        max_grad_norm=math.inf,
    )
    core = core_of(optimizer)
    assert core.get("loss_scaling") == 8.0 and core.get("velocity_scaling") == 4.0
    optimizer.loss_scaling = 16.0
    assert core_of(optimizer).get("loss_scaling") == 16.0
    core = core_of(optim.LAMB(parameters(), max_weight_norm=3.0, bias_correction=False))
    assert core.name == "LAMB" and core.get("max_weight_norm") == 3.0
    assert core_of(optim.AdamW(parameters(), max_grad_norm=2.0)).get("max_grad_norm") == 2.0
    with pytest.raises(ValueError, match="f32 or f16"):
        core_of(optim.Adam(parameters(), accum_type=torch.int32))
    with pytest.raises(ValueError, match="combined|separate|useCombinedAccum"):
        core_of(optim.SGD(parameters(), lr=1, momentum=0.9, nesterov=True, use_combined_accum=True))


def test_whole_optimizer_attributes_in_a_group_are_refused():
    with pytest.raises(ValueError, match="loss_scaling must be the same for all parameter groups"):
        optim.SGD([{"params": parameters(), "loss_scaling": 2.0}], lr=0.1)


def test_velocity_scaling_may_differ_between_groups():
    a, b = parameters(2)
    groups = [{"params": [a]}, {"params": [b], "velocity_scaling": 8.0}]
    combined = dict(velocity_scaling=2.0, use_combined_accum=True)
    optimizer = optim.SGD(groups, lr=0.1, momentum=0.5, **combined)
    core = core_of(optimizer)
    assert core.get("velocity_scaling", 0) == 2.0 and core.get("velocity_scaling", 1) == 8.0
    optimizer.add_param_group({"params": parameters(1)})
    assert optimizer.param_groups[2]["velocity_scaling"] == 2.0


@pytest.mark.parametrize("name", ["amsgrad", "maximize"])
def test_rules_that_the_core_does_not_have_are_refused(name):
    with pytest.raises(NotImplementedError, match=f"{name} is on in parameter group 0"):
        core_of(torch.optim.Adam(parameters(), **{name: True}))


def test_settings_about_speed_are_of_no_account():
    assert core_of(torch.optim.Adam(parameters(), foreach=True, capturable=False)).name == "Adam"


def test_groups_must_agree_on_the_rule():
    a, b = parameters(2)
    groups = [{"params": [a]}, {"params": [b], "nesterov": True}]
    with pytest.raises(ValueError, match="agree on nesterov"):
        core_of(torch.optim.SGD(groups, lr=0.1, momentum=0.9))


def test_other_optimizers_are_refused_with_a_list():
    with pytest.raises(TypeError, match="SGD, AdamW, Adam, RMSprop, LAMB.*got Adagrad"):
        core_of(torch.optim.Adagrad(parameters()))
    with pytest.raises(TypeError, match="got list"):
        _optim_core.to_core([], {})

    class Mine(torch.optim.SGD):
        def step(self, closure=None):
            return None

    with pytest.raises(TypeError, match="Mine has a step of its own"):
        core_of(Mine(parameters(), lr=0.1))

    class Renamed(torch.optim.SGD):
        pass

    assert core_of(Renamed(parameters(), lr=0.1)).name == "SGD"


def test_schedulers_change_what_the_core_gets():
    optimizer = optim.AdamW(parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    optimizer.step()
    scheduler.step()
    assert core_of(optimizer).get("lr") == pytest.approx(0.05, abs=0)


def test_an_update_hands_the_new_values_to_the_model():
    class Model:
        def set_optimizer(self, core):
            self.lr = core.get("lr")

    params, model = parameters(), Model()
    optimizer = torch.optim.SGD(params, lr=0.25)
    _optim_core.update_core(model, optimizer, named(params))
    assert model.lr == 0.25


@pytest.mark.parametrize("make", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_extra_attributes_and_marks(make):
    optimizer = optim.SGD(parameters(), lr=0.1, momentum=0.5, loss_scaling=4.0)
    optimizer.variable_attrs.markAsConstant("momentum")
    other = make(optimizer)
    assert other.loss_scaling == 4.0 and other.variable_attrs.isConstant("momentum")
    assert other.param_groups[0]["momentum"] == 0.5
    assert core_of(other).attributes() == core_of(optimizer).attributes()


def test_lambs_step_is_the_documented_rule():
    w = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    optimizer = optim.LAMB([w], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
    w.grad = torch.tensor([1.0, -2.0], dtype=torch.float64)
    optimizer.step()
    # In the first step the corrected moments are g and g², so x = sign(g) + decay w up to eps.
    x = [1 / (1 + 1e-8) + 0.03, -2 / (2 + 1e-8) + 0.04]
    ratio = 5 / math.hypot(*x)
    expected = [3 - 0.1 * ratio * x[0], 4 - 0.1 * ratio * x[1]]
    assert w.tolist() == pytest.approx(expected, rel=1e-12)


STATE = {"ipu_state": {"w0.exp_avg": 1}, "ipu_param": {"lr": 2}}


def test_state_of_the_devices_is_part_of_the_state_dict():
    optimizer = optim.Adam(parameters(), lr=0.5)
    assert not optimizer.has_state() and "ipu_state" not in optimizer.state_dict()
    written = []
    optimizer.attach_state(lambda: STATE, written.append)
    state = optimizer.state_dict()
    assert state["ipu_state"] == STATE["ipu_state"] and optimizer.has_state()
    assert state["param_groups"][0]["lr"] == 0.5 and written == []
    optimizer.load_state_dict(state)
    assert written == [STATE]


def test_a_state_loaded_early_goes_to_the_model_that_comes():
    optimizer, written = optim.Adam(parameters()), []
    optimizer.load_state_dict(STATE)
    optimizer.attach_state(lambda: STATE, written.append)
    assert written == [STATE]
    optimizer.attach_state(None, None)
    assert optimizer.get_state_dict() == STATE


def test_foreign_and_empty_states_are_refused():
    optimizer = optim.Adam(parameters())
    foreign = torch.optim.Adam(parameters()).state_dict()
    with pytest.raises(RuntimeError, match="only IPU optimizer states.*got state, param_groups"):
        optimizer.load_state_dict(foreign)
    with pytest.raises(RuntimeError, match="an empty dictionary"):
        optimizer.load_state_dict({})


def test_arguments_that_this_torch_lacks_may_only_be_off():
    optim.AdamW(parameters(), fused=False, differentiable=False)
    with pytest.raises(TypeError, match="has no imaginary"):
        _optim_base.for_torch(torch.optim.SGD, {"imaginary": True}, ())


# In a model.


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = torch.nn.Linear(4, 5), torch.nn.Linear(5, 1)

    def forward(self, x, target):
        y = self.second(torch.tanh(self.first(x)))
        return y, torch.nn.functional.mse_loss(y, target)


def batches(count=4):
    torch.manual_seed(2)
    return [(torch.randn(6, 4), torch.randn(6, 1)) for _ in range(count)]


def trained(make, change=None):
    """The weights after a few steps on the devices, and after the same steps of torch."""
    ours, theirs = Net(), Net()
    optimizer, reference = make(ours), make(theirs)
    model = sluice.trainingModel(ours, None, optimizer)
    for step, (x, target) in enumerate(batches()):
        if change is not None and step == 2:
            change(optimizer)
            change(reference)
            model.setOptimizer(optimizer)
        model(x, target)
        reference.zero_grad()
        theirs(x, target)[1].backward()
        reference.step()
    both = zip(ours.parameters(), theirs.parameters())
    pairs = [(a.detach().clone(), b.detach()) for a, b in both]
    model.destroy()
    return pairs


def groups(net):
    return [
        {"params": list(net.first.parameters())},
        {"params": list(net.second.parameters()), "lr": 0.02, "weight_decay": 0.3},
    ]


MAKERS = {
    "torch SGD": lambda n: torch.optim.SGD(groups(n), lr=0.1, momentum=0.9, dampening=0.3),
    "torch nesterov": lambda n: torch.optim.SGD(groups(n), lr=0.1, momentum=0.9, nesterov=True),
    "torch plain SGD": lambda n: torch.optim.SGD(groups(n), lr=0.1, dampening=0.5),
    "torch Adam": lambda n: torch.optim.Adam(groups(n), lr=0.01, betas=(0.8, 0.9)),
    "torch AdamW": lambda n: torch.optim.AdamW(groups(n), lr=0.01),
    "torch RMSprop": lambda n: torch.optim.RMSprop(groups(n), lr=0.01, centered=True, momentum=0.5),
    "SGD": lambda n: optim.SGD(groups(n), lr=0.1, momentum=0.9, loss_scaling=128.0),
    "combined SGD": lambda n: optim.SGD(groups(n), lr=0.1, momentum=0.9, use_combined_accum=True),
    "Adam": lambda n: optim.Adam(groups(n), lr=0.01, weight_decay=0.1),
    "AdamW": lambda n: optim.AdamW(groups(n), lr=0.01, loss_scaling=4.0),
    "RMSprop": lambda n: optim.RMSprop(groups(n), lr=0.01, alpha=0.8),
    "LAMB": lambda n: optim.LAMB(groups(n), lr=0.01),
    "LAMB without correction": lambda n: optim.LAMB(groups(n), lr=0.01, bias_correction=False),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_model_trains_like_the_optimizers_own_step(name):
    for ours, theirs in trained(MAKERS[name]):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["torch SGD", "AdamW", "LAMB"])
def test_a_change_takes_effect_with_set_optimizer(name):
    def change(optimizer):
        for group in optimizer.param_groups:
            group["lr"] *= 0.1

    for ours, theirs in trained(MAKERS[name], change):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_model_refuses_another_constant():
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    model = sluice.trainingModel(net, None, optimizer)
    model(*batches(1)[0])
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(ValueError, match="weight_decay"):
        model.setOptimizer(optimizer)
    with pytest.raises(ValueError, match="SGD|Adam"):
        model.setOptimizer(optim.Adam(net.parameters()))
    model.destroy()


def one_cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)


def cyclic(optimizer):
    return torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=2)


CYCLED = {
    "Adam": (torch.optim.Adam, {}, one_cycle),
    "AdamW": (torch.optim.AdamW, {}, one_cycle),
    "SGD": (torch.optim.SGD, {"momentum": 0.9}, one_cycle),
    "cyclic SGD": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}, cyclic),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.1}, one_cycle),
    "our Adam": (optim.Adam, {"betas": (0.9, 0.999)}, one_cycle),
}


@pytest.mark.parametrize("name", CYCLED)
def test_schedulers_may_cycle_the_momentum(name):
    make, arguments, scheduler = CYCLED[name]
    ours, theirs = Net(), Net()
    pairs = [(net, make(net.parameters(), lr=0.01, **arguments)) for net in (ours, theirs)]
    (_, optimizer), (_, reference) = pairs
    schedules = [scheduler(each) for _, each in pairs]
    with sluice.trainingModel(ours, None, optimizer) as model:
        for x, target in batches(6):
            model(x, target)
            reference.zero_grad()
            theirs(x, target)[1].backward()
            reference.step()
            for each in schedules:
                each.step()
            model.setOptimizer(optimizer)
        for a, b in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-4, atol=1e-5)


def test_a_momentum_that_is_cycled_too_late_is_refused_with_what_to_do():
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    with sluice.trainingModel(net, None, optimizer) as model:
        model(*batches(1)[0])
        schedule = one_cycle(optimizer)
        with pytest.raises(sluice.InvalidArgument, match="beta1 .*destroy.*cycle_momentum=False"):
            model.setOptimizer(optimizer)
    with sluice.trainingModel(net, None, optimizer) as model:
        model(*batches(1)[0])
        schedule.step()
        model.setOptimizer(optimizer)
