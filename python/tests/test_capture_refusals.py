"""What cannot be captured is refused with the function, the module and the user's line."""

import importlib
import unittest
from collections import OrderedDict

import torch
import torch.nn as nn
from capture_support import run

import sluice
from sluice import _capture


class Inner(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(nn.ReLU(), Inner())

    def forward(self, x):
        return self.branch(x)


class Constructs(nn.Module):
    def forward(self, x):
        return x + torch.Tensor([1.0])


class Constructing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Constructs()

    def forward(self, x):
        return self.layer(x)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Changing(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.change = change

    def forward(self, x):
        self.change(self.weight)
        return x * self.weight


OUTSIDE = torch.zeros(3)


def write_outside(x):
    OUTSIDE.add_(1)
    return x


def write_unknown_outside(x):
    OUTSIDE[0] = x[0]
    return x


def reshape_outside(x):
    OUTSIDE.unsqueeze_(0)
    return x


X = torch.tensor([1.0, -2.0, 3.0])
MASK = torch.tensor([True, False, True])


class Refusals(unittest.TestCase):
    def refused(self, pattern, function, *args, kind=sluice.Unsupported):
        with self.assertRaisesRegex(kind, pattern):
            run(function, *args)

    def test_the_message_names_the_function_the_module_and_the_line(self):
        with self.assertRaises(sluice.Unsupported) as caught:
            run(Outer(), X)
        text = str(caught.exception)
        self.assertIn("aten.is_nonzero.default", text)
        self.assertIn("module 'branch.1'", text)
        self.assertRegex(text, r"test_capture_refusals\.py:17\)")
        self.assertRegex(caught.exception.location, r"test_capture_refusals\.py:17$")

    def test_values_that_only_a_run_knows_cannot_decide(self):
        self.refused("decides what Python does", lambda x: x.sum().item(), X)
        self.refused("decides what Python does", lambda x: x * int(x[0]), X)
        self.refused("decides what Python does", lambda x: [i for i in range(x.long()[0])], X)
        self.refused("decides what Python does", lambda x: torch.equal(x, x), X)
        self.refused("decides what Python does", lambda x: torch.allclose(x, x), X)
        self.refused("tolist", lambda x: x.tolist(), X)
        self.refused("numpy", lambda x: x.numpy(), X)

    def test_the_constructor_of_tensors_is_refused_with_what_to_write(self):
        """By torch 1.13; later versions make tensors of the capture."""
        functions = {
            "outermost": lambda x: x + torch.Tensor([1.0, 2.0, 3.0]),
            "the outermost": lambda x: torch.Tensor(2, 3).fill_(2) + x,
            "outermost module": lambda x: x + torch.Tensor(x),
            "module 'layer', ": Constructing(),
        }
        for module, function in functions.items():
            try:
                self.assertTrue(torch.equal(run(function, X), function(X)))
            except sluice.Unsupported as error:
                self.assertRegex(str(error), r"torch\.Tensor: .*torch\.tensor.*test_capture_refusals\.py:\d+\)")
                self.assertIn(module, str(error))

    def test_shapes_of_tensors_cannot_be_changed_by_their_memory(self):
        for function in (
            lambda x: x.new(2, 3).resize_(3, 2),
            lambda x: (x + 1).resize_(1, 3),
            lambda x: torch.ones(3).set_(torch.zeros(3)),
            lambda x: torch.arange(6.0).resize_as_(torch.ones(3, 2)),
            lambda x: torch.add(torch.ones(3), 1, out=torch.empty(0)),
        ):
            self.refused("resized", function, X)

    def test_shapes_cannot_depend_on_data(self):
        for function in (
            lambda x: x.nonzero(),
            lambda x: x.masked_select(x > 0),
            lambda x: torch.unique(x),
            lambda x: torch.unique_consecutive(x),
            lambda x: torch.unique(x[None], dim=0),
            lambda x: x.repeat_interleave(x.long().abs()),
        ):
            self.refused("depends on the values", function, X)
        self.refused("depends on data", lambda x, m: x[m], X, MASK)
        self.refused("needs a single value", self._put, X, MASK)

    @staticmethod
    def _put(x, m):
        y = x.clone()
        y[m] = x[:2]
        return y

    def test_arguments_that_give_the_shape_are_asked_for(self):
        self.refused("needs num_classes", lambda i: nn.functional.one_hot(i), X.long().abs())
        self.refused("needs minlength", lambda i: torch.bincount(i), X.long().abs())

    def test_functions_without_a_rule_are_named(self):
        self.refused("aten.i0.default: there is no rule", torch.i0, X)
        self.refused("no rule", lambda x: x.clone().i0_(), X)

    def test_gradients_of_parts_are_refused(self):
        square = lambda x: (x * x).sum()
        functional = torch.autograd.functional
        for function in (functional.jacobian, functional.hessian, functional.vjp):
            self.refused("gradients inside of forward.*test_capture_refusals", lambda x: function(square, x), X)
        transforms = getattr(torch, "func", None) or importlib.import_module("functorch")
        self.refused("gradients inside of forward", lambda x: transforms.grad(square)(x), X)
        self.assertEqual(transforms.grad(square)(X).tolist(), (2 * X).tolist())

    def test_values_are_not_put_into_new_tensors(self):
        self.refused("torch.tensor: .*torch.stack", lambda x: torch.tensor([[x[0], 1.0]]), X)
        found = run(lambda x: x + torch.tensor([1.0, 2.0, 3.0]) + torch.tensor([torch.ones(())] * 3), X)
        self.assertEqual(found.tolist(), [3, 1, 7])

    def test_memory_is_not_passed_on(self):
        dlpack = torch.utils.dlpack
        self.refused("no memory", lambda x: dlpack.from_dlpack(dlpack.to_dlpack(x)), X)
        self.refused("no memory", lambda x: torch.from_dlpack(x), X)

    def test_custom_gradients_are_refused(self):
        self.refused("Squared: torch.autograd.Function", lambda x: Squared.apply(x), X)
        self.refused(r"test_capture_refusals\.py", lambda x: Squared.apply(x), X)

    def test_tensors_from_outside_are_not_written(self):
        for function in (write_outside, write_unknown_outside, reshape_outside):
            self.refused("neither a buffer nor made in forward", function, X)
        self.assertEqual(OUTSIDE.tolist(), [0, 0, 0])

    def test_tensors_of_other_kinds_are_refused(self):
        sparse = torch.eye(3).to_sparse()
        self.refused("sparse", lambda x: torch.mv(sparse, x), X)
        quantized = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
        self.refused("quantized", lambda x: x + quantized.dequantize(), X)
        meta = torch.ones(3, device="meta")
        self.refused("device 'meta'", lambda x: x + meta, X)
        self.refused(
            "complex64 is used, which Sluice does not have",
            lambda x: x + torch.ones(3, dtype=torch.complex64),
            X,
        )

    def test_complex_numbers_are_refused(self):
        self.refused("complex number 1j", lambda x: (x * 1j).real, X)

    def test_other_devices_are_refused(self):
        self.refused("leave the model on 'cpu'", lambda x: x.to("meta"), X)

    def test_memory_tricks_are_refused(self):
        self.refused("data of a tensor is replaced", self._replace, X)
        self.refused("cannot be exchanged or resized", lambda x: x.clone().resize_(2), X)
        self.refused("seen as those of another", lambda x: x.view(torch.int32), X)

    @staticmethod
    def _replace(x):
        y = x.clone()
        y.data = x[:2] + 1
        return y

    def test_buffers_keep_their_shapes(self):
        class Reshaped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("state", torch.ones(1, 3))

            def forward(self, x):
                return x + self.state.squeeze_()

        self.refused("shape of a parameter or buffer", Reshaped(), X)

    def test_weights_are_not_written(self):
        def halve(weight):
            with torch.no_grad():
                weight.mul_(0.5)

        def replace(weight):
            weight.data = weight.data * 0.5

        for change in (halve, replace, lambda weight: weight.data.clamp_(-1, 1)):
            net = Changing(change)
            before = net.weight.detach().clone()
            self.refused("weight 'weight' is written in forward.*between the calls", net, X)
            net.weight.requires_grad_(False)
            self.refused("make it a buffer", net, X)
            self.assertTrue(torch.equal(net.weight, before))
        self.refused("max_norm writes the table", nn.Embedding(4, 2, max_norm=1.0), torch.tensor([1]))

    def test_weights_are_not_replaced(self):
        def other(net):
            net.weight = nn.Parameter(net.weight * 2)

        def plain(net):
            del net.weight
            net.weight = torch.ones(3)

        for change in (other, plain, lambda net: net.register_parameter("more", nn.Parameter(X))):
            net = Changing(None)
            net.change = lambda _: change(net)
            weight = net.weight
            self.refused("forward adds, removes or replaces the parameter '(weight|more)'", net, X)
            self.assertIs(net.weight, weight)
            self.assertEqual([*dict(net.named_parameters())], ["weight"])

    def test_buffers_get_data_of_their_own_shape(self):
        class Kept(nn.Module):
            def __init__(self, part):
                super().__init__()
                self.register_buffer("seen", torch.zeros(3))
                self.part = part

            def forward(self, x):
                self.seen.data = x[self.part] * 2
                return self.seen + 1

        net = Kept(slice(None))
        self.assertTrue(torch.equal(run(net, X), 2 * X + 1))
        self.assertTrue(torch.equal(net.seen, 2 * X))
        self.refused(r"Tensor.data: .*\[3\] is replaced by one of .*\[2\].*test_capture_refusals", Kept(slice(2)), X)

    def test_writes_that_have_no_meaning_are_refused(self):
        self.refused("expanded tensor", lambda x: x.expand(2, 3).add_(1), X)
        self.refused("some elements twice", lambda x: x.clone().unfold(0, 2, 1).add_(1), X)
        self.refused(
            "cannot be stored",
            lambda i, x: i.clone().add_(x),
            X.long(),
            X,
            kind=sluice.InvalidArgument,
        )
        self.refused(
            "does not fit",
            lambda x: x.clone().add_(torch.ones(2, 3)),
            X,
            kind=sluice.InvalidArgument,
        )

    def test_packed_sequences_are_refused(self):
        def packed(x):
            sequence = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 1]))
            return nn.LSTM(3, 4)(sequence)[0].data

        self.refused("packed sequences", packed, torch.ones(2, 2, 3))

    def test_scripted_modules_are_refused(self):
        net = nn.Sequential(torch.jit.script(nn.Linear(2, 2)))
        self.refused("module '0' is a scripted", net, torch.ones(1, 2))

    def test_options_that_change_gradients_are_refused(self):
        table = torch.ones(4, 2)
        by_frequency = lambda i: nn.functional.embedding(i, table, scale_grad_by_freq=True)
        self.refused("scale_grad_by_freq", by_frequency, torch.tensor([1]))

    def test_forms_of_layers_that_have_no_counterpart_are_refused(self):
        f = nn.functional
        image, volume = torch.ones(1, 2, 5, 5), torch.ones(1, 2, 3, 3, 3)
        bags = nn.EmbeddingBag(4, 2, scale_grad_by_freq=True)
        for pattern, function, *args in (
            ("divisor_override", lambda x: f.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3), image),
            ("windows of different sizes", lambda x: f.adaptive_max_pool2d(x, 3), image),
            ("only images", lambda x: f.grid_sample(x, torch.zeros(1, 2, 2, 2, 3)), volume),
            ("scale_grad_by_freq", bags, torch.tensor([[1, 2]])),
            ("not contiguous", lambda x: x.t().as_strided((2,), (1,)), torch.ones(2, 3)),
            ("has no counterpart", lambda x: x.to(torch.complex64), X),
        ):
            self.refused(pattern, function, *args)

    def test_ctc_losses_need_a_batch_and_known_lengths(self):
        scores, labels, lengths = torch.zeros(6, 2, 4), torch.tensor([1, 2, 3]), torch.tensor([2, 1])

        def concatenated(scores, labels, lengths):
            return nn.functional.ctc_loss(scores, labels, torch.tensor([6, 6]), lengths)

        self.refused("target_lengths that are known", concatenated, scores, labels, lengths)
        single = lambda x: nn.functional.ctc_loss(x, torch.tensor([1]), (6,), (1,))
        self.refused("without a batch axis", single, scores[:, 0])

    def test_batch_norm_needs_several_values_per_channel(self):
        # torch looks at the shape itself, so the function below it is called.
        buffers = torch.zeros(3), torch.ones(3)
        norm = lambda x: torch.batch_norm(x, None, None, *buffers, True, 0.1, 1e-5, False)
        self.refused("more than one value", norm, torch.ones(1, 3), kind=sluice.InvalidArgument)

    def test_shapes_that_do_not_fit_are_errors_of_the_caller(self):
        self.refused(
            r"aten.linear.default: .*\(in module 'first'",
            nn.Sequential(OrderedDict(first=nn.Linear(4, 2))),
            X,
            kind=sluice.InvalidArgument,
        )

    def test_symbolic_tensors_end_with_their_capture(self):
        kept = []
        run(lambda x: kept.append(x) or x, X)
        with self.assertRaisesRegex(sluice.InvalidArgument, "outside of the trace"):
            kept[0] + 1

    def test_capture_functions_need_a_capture(self):
        with self.assertRaisesRegex(sluice.InvalidArgument, "being captured"):
            _capture.unwrap(X)


if __name__ == "__main__":
    unittest.main()
