"""The training of a network beside that of eager torch.

- The gradients of the first step in float32: their error, relative to torch in float64, may be twice
  that of torch in float32. SGD's momentum is the gradient after one step. Where terms cancel, as in
  the gradient of a bias that the next norm takes away, an error is chance, and one draw of it may be
  several times another: what exceeds the bound is drawn again, and the root mean squares count.
- Weights, buffers and results after three updates in float64. In float32 they say nothing: after an
  update, a ReLU that is on in one of two right computations may be off in the other.

A network is a module that returns its results and, last, the loss."""

import copy
import math

import torch
from capture_support import difference, train

import sluice
from sluice import args as structures

RATE, UPDATES = 0.05, 3
EXACT = 1e-9
DRAWS = 6


def gradients_of_sluice(net, inputs):
    """The tensors of the result of the first step, and the gradients by name."""
    optimizer = sluice.optim.SGD(net.parameters(), lr=RATE, momentum=0.5)
    model = sluice.trainingModel(net, optimizer=optimizer)
    try:
        result = leaves(model(*inputs))
        state = optimizer.state_dict()["ipu_state"]
    finally:
        model.destroy()
    return result, {n: state[f"{n}.momentum_buffer"] for n, _ in net.named_parameters()}


def gradients_of_torch(net, inputs):
    result = leaves(net(*inputs))
    result[-1].backward()
    return [x.detach() for x in result], {n: p.grad for n, p in net.named_parameters()}


def leaves(result):
    return structures.flatten(result)[0]


def wide(inputs):
    return [x.double() if x.is_floating_point() else x for x in inputs]


def gradient_errors(net, inputs):
    """What (a result or a gradient) -> the errors of Sluice and of torch relative to float64."""
    single, double = copy.deepcopy(net), copy.deepcopy(net).double()
    ours = gradients_of_sluice(net, inputs)
    eager = gradients_of_torch(single, inputs)
    exact = gradients_of_torch(double, wide(inputs))
    errors = {}
    for i, (own, torchs, right) in enumerate(zip(ours[0], eager[0], exact[0])):
        errors[f"result {i}"] = difference(own, right), difference(torchs, right)
    for name, right in exact[1].items():
        own, torchs = ours[1][name], eager[1][name]
        assert own.dtype == torchs.dtype and own.shape == torchs.shape, name
        errors[f"gradient of {name}"] = difference(own, right), difference(torchs, right)
    return errors


def trained_by_torch(net, inputs):
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for _ in range(UPDATES):
        optimizer.zero_grad()
        result = leaves(net(*inputs))
        result[-1].backward()
        optimizer.step()
    return [x.detach() for x in result]


def update_errors(net, inputs):
    """What (a result, a weight or a buffer) -> the difference between Sluice and torch."""
    net, inputs = net.double(), wide(inputs)
    eager = copy.deepcopy(net)
    expected = trained_by_torch(eager, inputs)
    results = leaves(train(net, *inputs, lr=RATE, steps=UPDATES))
    errors = {f"result {i}": difference(a, b) for i, (a, b) in enumerate(zip(results, expected))}
    right = eager.state_dict()
    for name, own in net.state_dict().items():
        assert own.dtype == right[name].dtype and own.shape == right[name].shape, name
        errors[name] = difference(own, right[name], _scale(right, name))
    return errors


def _scale(state, name):
    """The norm below which a tensor counts as zero. The mean of what has none, such as the input of
    the second of two normalized layers without a ReLU between, is a rounding error of the deviation."""
    if name.endswith("running_mean"):
        variance = state[name[: -len("mean")] + "var"]
        return max(float(variance.sqrt().norm()), 1e-6)
    return 1e-6


def _exceeds(own, torchs):
    return not own <= 2 * torchs + 1e-6


def _root_mean_square(values):
    return math.sqrt(sum(x * x for x in values) / len(values))


def gradient_problems(make):
    """What -> the errors of Sluice and of torch, where ours are too large."""
    draws = [gradient_errors(*_made(make, 0))]
    suspects = [what for what, errors in draws[0].items() if _exceeds(*errors)]
    if suspects:
        draws += [gradient_errors(*_made(make, seed)) for seed in range(1, DRAWS)]
    found = {}
    for what in suspects:
        errors = [_root_mean_square(each) for each in zip(*(draw[what] for draw in draws))]
        if _exceeds(*errors):
            found[what] = errors
    return found


def problems(make):
    """Where the network that `make` returns, with its inputs, is trained in another way than by
    torch."""
    found = []
    for what, (own, torchs) in gradient_problems(make).items():
        found.append(f"{what}: {own:.2e}, that of torch is {torchs:.2e}")
    for what, error in update_errors(*_made(make, 0)).items():
        if not error <= EXACT:
            found.append(f"{what} after {UPDATES} updates: {error:.2e}")
    return "\n".join(found)


def _made(make, seed):
    """The network and the list of its inputs."""
    torch.manual_seed(seed)
    net, *inputs = make()
    return net, inputs
