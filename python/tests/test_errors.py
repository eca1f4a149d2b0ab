"""What a user of torch does wrong: the error says what was expected, what was found, where, and what to do."""

import io

import numpy as np
import pytest
import torch
from torch import nn

import sluice


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.inside = lambda output: None

    def forward(self, x, labels, scale=1.0):
        output = self.last(self.first(x).relu()) * scale
        self.inside(output)
        return output, nn.functional.cross_entropy(output, labels)


X, LABELS = torch.zeros(4, 8), torch.tensor([0, 1, 2, 3])


def made(options=None):
    net = Net()
    return sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))


def text_of(error, call, *words):
    with pytest.raises(error) as raised:
        call()
    text = str(raised.value)
    for word in words:
        assert word in text, text
    return text


def line_of(function):
    return f"test_errors.py:{function.__code__.co_firstlineno}"


class TestInputs:
    def test_of_kinds_that_devices_do_not_have(self):
        quantised = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
        cases = [
            (X.to_sparse(), "sparse_coo", "to_dense()"),
            (quantised, "quantised", "dequantize()"),
            (X.to("meta"), "'meta'", "no data"),
            (X.to(torch.complex64), "complex64", "torch.float32"),
        ]
        for x, found, hint in cases:
            text_of(sluice.InvalidArgument, lambda: made()(x, LABELS), "input 'x'", found, hint)

    def test_arrays_are_found_in_structures_too(self):
        text_of(ValueError, lambda: made()(X.numpy(), LABELS), "argument 'x'", "torch.from_numpy")
        nested = {"image": [X.numpy()]}
        text_of(ValueError, lambda: made()(nested, LABELS), "x['image'][0]", "torch.from_numpy")

    def test_names_of_arguments(self):
        text_of(ValueError, lambda: made()(X, LABELS, factor=2.0), "Net.forward", "'factor'", "scale")

    def test_class_numbers_of_a_floating_point_type(self):
        text_of(ValueError, lambda: made()(X, LABELS.float()), "[4, 4]", "got [4]", "long()")

    def test_contiguous_or_not_with_or_without_gradients(self):
        expected = made()
        state = {name: each.clone() for name, each in expected.state_dict().items()}
        loss = expected(X, LABELS)[1]
        row = torch.zeros(1, 8)
        for x in (torch.zeros(8, 4).t(), row.expand(4, 8), torch.zeros(4, 8, requires_grad=True)):
            model = made()
            model.load_state_dict(state)
            assert torch.equal(model(x, LABELS)[1], loss)

    def test_scalars_of_numpy_are_values_like_any_other(self):
        model = made()
        model(X, LABELS, np.float32(2.0))
        text_of(ValueError, lambda: model(X, LABELS, np.float32(3.0)), "2.0", "3.0")
        model(X, LABELS, 2.0)
        model(X, LABELS, np.float64(2.0))
        text_of(ValueError, lambda: model(X, LABELS, np.int64(2)), "2.0)", "2)")


class TestMakingAModel:
    def test_arguments_in_the_wrong_order(self):
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        text_of(ValueError, lambda: sluice.trainingModel(net, optimizer), "'options'", "SGD", "Options()")
        text_of(ValueError, lambda: sluice.trainingModel(net, None, "sgd"), "'optimizer'", "str")

    def test_a_module_on_another_device(self):
        model = sluice.inferenceModel(Net().to("meta"))
        text_of(ValueError, lambda: model(X, LABELS), "'first.weight'", "'meta'")

    def test_a_forward_that_returns_nothing(self):
        class Silent(Net):
            def forward(self, x, labels):
                super().forward(x, labels)

        net = Silent()
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
        text_of(ValueError, lambda: model(X, LABELS), "Silent.forward", "return output, loss")


class TestAModuleThatChangedAfterwards:
    def changed(self, change, *words):
        model = made()
        model(X, LABELS)
        change(model.model)
        text_of(ValueError, lambda: model(X, LABELS), *words)

    def test_names_the_member(self):
        def replace(net):
            net.first.weight = nn.Parameter(torch.zeros(16, 8))

        self.changed(replace, "'first.weight' was replaced", "copy_")
        self.changed(lambda net: net.add_module("more", nn.Linear(1, 1)), "'more' was added", "destroy()")
        self.changed(lambda net: delattr(net, "first"), "'first' was removed", "destroy()")

    def test_says_the_types(self):
        self.changed(lambda net: net.double(), "'first.weight'", "float32 [16, 8]", "float64 [16, 8]")

    def test_another_name_for_a_part_changes_nothing(self):
        model = made()
        model(X, LABELS)
        model.model.alias = model.model.first
        assert model(X, LABELS)[1].item() > 0


class TestTensorsFromOutside:
    def test_that_change_after_compilation(self):
        outside = torch.ones(4)
        model = made()
        model.model.inside = lambda output: output + outside
        model(X, LABELS)
        model(X, LABELS)
        outside.mul_(2)
        text = text_of(ValueError, lambda: model(X, LABELS), "[4]", "register_buffer")
        assert "test_errors.py:" in text

    def test_of_inference_mode_are_constants(self):
        with torch.inference_mode():
            outside = torch.ones(4)
        model = made()
        model.model.inside = lambda output: output + outside
        assert model(X, LABELS)[1].item() > 0
        model(X, LABELS)


INSIDE = {
    "Tensor.numpy": lambda y: y.detach().numpy(),
    "Tensor.tolist": lambda y: y.tolist(),
    "numpy": lambda y: np.asarray(y),
    "_local_scalar_dense": lambda y: float(y.sum()),
    "is_nonzero": lambda y: y.sum() > 0 or None,
    "Tensor.data_ptr": lambda y: y.data_ptr(),
    "Tensor.backward": lambda y: y.sum().backward(),
    "autograd.grad": lambda y: torch.autograd.grad(y.sum(), y),
    "__reduce_ex__": lambda y: torch.save(y, io.BytesIO()),
}


@pytest.mark.parametrize("name", INSIDE)
def test_values_that_only_a_run_knows_are_refused_with_the_function_the_module_and_the_line(name):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = Net()

        def forward(self, *args):
            return self.branch(*args)

    net = Outer()
    net.branch.inside = INSIDE[name]
    model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
    text_of(NotImplementedError, lambda: model(X, LABELS), name, "'branch'", line_of(INSIDE[name]))
    net.branch.inside = lambda output: None
    assert model(X, LABELS)[1].item() > 0


class TestTextsOfTheLibrary:
    def test_do_not_repeat_the_class(self):
        text = text_of(sluice.InvalidArgument, lambda: sluice.Options().deviceIterations(0))
        assert text.startswith("deviceIterations must be")

    def test_keep_the_place(self):
        model = made()
        text_of(sluice.InvalidArgument, lambda: model(X, LABELS + 9), "label", "(in ", "micro-batch 0")

    def test_have_the_names_of_python(self):
        model = made()
        model(X, LABELS)
        text_of(ValueError, lambda: model.getAnchoredTensor("none"), "Options.anchorTensor")
        text_of(ValueError, lambda: model.cycleCount(), "logCycleCount(True)")
