"""What a capture as a whole promises: parameters by identity, in-place changes, known values,
scopes, and no computation by torch."""

import collections
import copy
import pathlib
import re
import unittest
import unittest.mock

import torch
import torch.nn as nn
import torch.nn.functional as F
from capture_support import difference, recorded, run, train
from torch.utils._python_dispatch import TorchDispatchMode

import sluice
from sluice import _capture, _core


class Kernels(TorchDispatchMode):
    """Notes the functions that torch itself computes with tensors that have memory."""

    def __init__(self):
        super().__init__()
        self.computed = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "meta":
            self.computed.append(str(func))
        return result


class Net(nn.Module):
    """A little of everything that vision models have."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(64, 16)
        self.last = nn.Linear(16, 10)

    def forward(self, x, labels=None):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = self.last(F.gelu(self.hidden(x.flatten(1))))
        return x if labels is None else (x, F.cross_entropy(x, labels))


def images(n=4):
    g = torch.Generator().manual_seed(0)
    return torch.randn(n, 1, 8, 8, generator=g), torch.randint(0, 10, (n,), generator=g)


class Computation(unittest.TestCase):
    def test_torch_computes_nothing_with_unknown_values(self):
        net, counter = Net(), Kernels()
        original = _capture.trace

        def counted(*args, **kwargs):
            with counter:
                return original(*args, **kwargs)

        with unittest.mock.patch.object(_capture, "trace", counted):
            model = sluice.trainingModel(net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
            model.compile(*images())
        self.assertEqual(counter.computed, [])

    def test_half_precision_needs_no_kernels_of_torch(self):
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(144, 5),
            nn.Softmax(1),
        )
        x, _ = images()
        expected = net(x)
        result = run(net.half(), x.half())
        self.assertEqual(result.dtype, torch.float16)
        self.assertLess(difference(result, expected), 2e-3)

    def test_bfloat16_constants_keep_their_bits(self):
        x = torch.randn(3).to(torch.bfloat16)
        table = torch.tensor([1.5, -2.0, 0.25], dtype=torch.bfloat16)
        self.assertTrue(torch.equal(run(lambda x: x * table, x), x * table))

    def test_layers_have_the_bits_of_the_functions_of_cpp(self):
        f = _core.functions

        class ByHand(Net):
            def forward(self, x, labels):
                def of(parameter):
                    return _capture.unwrap(parameter)

                x = f.conv(of(x), of(self.conv.weight), of(self.conv.bias), padding=[1, 1])
                x, _, _ = f.batch_norm(x, of(self.norm.weight), of(self.norm.bias))
                x = _core.op("relu", [x])[0]
                x = _core.op("max_pool", [x], {"kernel": [2, 2], "strides": [2, 2]})[0]
                x = _core.op("reshape", [x], {"shape": [4, 64]})[0]
                x = f.linear(x, of(self.hidden.weight), of(self.hidden.bias))
                x = _core.op("gelu", [x])[0]
                x = f.linear(x, of(self.last.weight), of(self.last.bias))
                loss = f.cross_entropy(x, of(labels))
                return _capture.wrap(x), _capture.wrap(loss)

        torch.manual_seed(0)
        captured, by_hand = Net(), ByHand()
        by_hand.load_state_dict(captured.state_dict())
        results = [train(net, *images(), lr=0.1, steps=3) for net in (captured, by_hand)]
        self.assertTrue(torch.equal(results[0][0], results[1][0]))
        for (name, a), b in zip(captured.named_parameters(), by_hand.parameters()):
            self.assertTrue(torch.equal(a, b), name)

    def test_addmm_with_a_transposed_weight_is_a_linear_layer(self):
        layer, x = nn.Linear(8, 3), torch.randn(5, 8)
        by_hand = lambda x: torch.addmm(layer.bias, x, layer.weight.t())
        self.assertTrue(torch.equal(run(layer, x), run(by_hand, x)))


class Parameters(unittest.TestCase):
    def test_tied_weights_are_one_parameter(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(7, 4)
                self.head = nn.Linear(4, 7, bias=False)
                self.head.weight = self.table.weight

            def forward(self, i, labels):
                x = self.head(self.table(i))
                return x, F.cross_entropy(x, labels)

        net = Tied()
        i, labels = torch.tensor([1, 2, 6]), torch.tensor([0, 3, 5])
        before = net.table.weight.detach().clone()
        _, loss = net(i, labels)
        loss.backward()
        wanted = before - net.table.weight.grad
        train(net, i, labels)
        self.assertIs(net.head.weight, net.table.weight)
        self.assertLess(difference(net.table.weight.detach(), wanted), 1e-6)

    def test_views_of_parameters_that_exist_already_follow_them(self):
        class Viewed(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.arange(12.0).reshape(3, 4))
                self.view = [self.weight[1:, ::2]]

            def forward(self):
                return self.view[0] * 1, (self.view[0] * 3).sum()

        net = Viewed()
        rows, _ = train(net)
        self.assertTrue(torch.equal(rows, torch.tensor([[4.0, 6.0], [8.0, 10.0]])))
        self.assertEqual((torch.arange(12.0) - net.weight.detach().reshape(-1)).tolist(),
                         [0, 0, 0, 0, 3, 0, 3, 0, 3, 0, 3, 0])

    def test_data_of_a_parameter_is_its_value_without_gradient(self):
        class Data(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.tensor([2.0]))

            def forward(self):
                return (self.weight * self.weight.data).sum()

        net = Data()
        train(net)
        self.assertEqual(net.weight.tolist(), [0.0])

    def test_weight_norm_is_captured_and_leaves_the_module_as_it_was(self):
        net = nn.utils.weight_norm(nn.Linear(4, 3))
        x = torch.randn(2, 4)
        expected, kept = net(x), net.weight
        self.assertLess(difference(run(net, x), expected), 1e-6)
        self.assertNotIsInstance(net.weight, _capture.SymbolicTensor)
        self.assertIs(net.weight, kept)


class Buffers(unittest.TestCase):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.register_buffer("average", torch.zeros(3))

        def forward(self, x):
            self.steps += 1
            self.average = self.average * 0.5 + x
            return self.average * self.steps

    def test_buffers_written_and_replaced_in_forward_keep_their_values(self):
        net, reference = self.Counting(), self.Counting()
        x, own = torch.tensor([1.0, 2.0, 3.0]), net.average
        model = sluice.inferenceModel(net)
        for _ in range(3):
            self.assertTrue(torch.equal(model(x), reference(x)))
        self.assertIs(net.average, own)
        self.assertTrue(torch.equal(net.average, reference.average))
        self.assertEqual(int(net.steps), 3)

    def test_a_part_of_a_buffer_can_be_written(self):
        class Cache(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("rows", torch.zeros(3, 2))

            def forward(self, x, i):
                self.rows[i] = x
                self.rows[2] += 1

        net = Cache()
        model = sluice.inferenceModel(net)
        self.assertIsNone(model(torch.tensor([5.0, 6.0]), torch.tensor(1)))
        self.assertEqual(net.rows.tolist(), [[0, 0], [5, 6], [1, 1]])

    def test_a_buffer_cannot_change_its_shape(self):
        class Growing(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("all", torch.zeros(1))

            def forward(self, x):
                self.all = torch.cat([self.all, x])
                return x

        with self.assertRaisesRegex(sluice.Unsupported, "keeps its type and shape"):
            run(Growing(), torch.ones(2))

    def test_inference_mode_in_forward_changes_nothing(self):
        class Inference(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3))
                self.register_buffer("rows", torch.zeros(3, 2))

            @torch.inference_mode()
            def forward(self, x):
                self.rows.t()[0].add_(1)
                x[0].mul_(2)
                y = x.transpose(0, 1) @ self.weight.t()[:, :1].t()
                y.view(-1)[:].view(3, 3)[:, 1:].neg_()
                return y + torch.arange(3).view(1, 3), self.rows[1:]

        net, reference = Inference(), Inference()
        for model in (sluice.inferenceModel(net), reference):
            x = torch.tensor([[1.0, -2.0, 3.0]])
            y, rows = model(x)
            self.assertEqual(y.tolist(), [[0, -1, -2], [0, 5, 10], [0, -5, -10]])
            self.assertEqual((x.tolist(), rows.tolist()), ([[2, -4, 6]], [[1, 0], [1, 0]]))
        self.assertTrue(torch.equal(net.rows, reference.rows))

    def test_attributes_that_forward_sets_are_undone(self):
        class Leaving(nn.Module):
            def forward(self, x):
                self.seen = x * 2
                return self.seen

        net = Leaving()
        run(net, torch.ones(2))
        self.assertFalse(hasattr(net, "seen"))

    def test_copies_share_memory_and_have_no_gradient(self):
        class Copying(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

            def forward(self, x):
                y = self.weight * x
                other = copy.copy(y)
                z = x.t() + 0
                copy.copy(z).mul_(2)
                known = torch.arange(2.0)
                copy.copy(known).add_(1)
                return z + known, (y * other).sum()

        net, reference = Copying(), Copying()
        x = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
        sums, _ = train(net, x)
        expected, loss = reference(x)
        self.assertTrue(torch.equal(sums, expected))
        (gradient,) = torch.autograd.grad(loss, reference.weight)
        self.assertTrue(torch.allclose(net.weight, reference.weight - gradient))


class Structure(unittest.TestCase):
    def test_nested_arguments_and_results_keep_their_form(self):
        Pair = collections.namedtuple("Pair", "a b")

        def forward(x, pairs, scale=1.0, extra=None):
            return {"sum": x + pairs["y"][0], "pair": Pair(x * scale, None)}, [extra, "text", 3]

        class Module(nn.Module):
            def forward(self, x, pairs, scale=1.0, extra=None):
                return forward(x, pairs, scale, extra)

        x, y = torch.ones(2), torch.ones(2) * 2
        result, rest = run(Module(), x, {"y": (y, None)}, scale=3.0)
        self.assertEqual(result["sum"].tolist(), [3, 3])
        self.assertIsInstance(result["pair"], Pair)
        self.assertEqual(result["pair"].a.tolist(), [3, 3])
        self.assertIsNone(result["pair"].b)
        self.assertEqual(rest, [None, "text", 3])

    def test_inputs_changed_in_place_come_back(self):
        x, y = torch.ones(3), torch.ones(2, 2)

        def forward(x, y):
            x.mul_(3)
            y.t()[0].add_(x[0])
            return x + 1

        self.assertEqual(run(forward, x, y).tolist(), [4, 4, 4])
        self.assertEqual(x.tolist(), [3, 3, 3])
        self.assertEqual(y.tolist(), [[4, 1], [4, 1]])

    def test_parameters_and_known_tensors_can_be_results(self):
        class Module(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2))

            def forward(self, x):
                return self.weight, torch.arange(3), x

        weight, known, x = run(Module(), torch.zeros(1))
        self.assertEqual((weight.tolist(), known.tolist(), x.tolist()), ([1, 1], [0, 1, 2], [0]))

    def test_modules_give_their_names_to_ops(self):
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

            def forward(self, x):
                return self.inner(x)

        model = sluice.inferenceModel(Outer())
        model.compile(torch.ones(1, 2))
        self.assertTrue(any("inner/0/" in name for name in model.getTensorNames()))

    def test_the_hooks_of_modules_run_inside_their_scope(self):
        layer, seen = nn.Linear(2, 2), []
        layer.register_forward_hook(lambda m, args, out: seen.append(type(out)) or out * 2)
        x = torch.ones(1, 2)
        self.assertTrue(torch.equal(run(layer, x), layer(x).detach()))
        self.assertIn(_capture.SymbolicTensor, seen)

    def test_nothing_stays_changed_after_an_error(self):
        call, apply = nn.Module.__call__, torch.autograd.Function.apply
        checks = torch.distributions.Normal(0.0, 1.0)._validate_args
        with self.assertRaises(ZeroDivisionError):
            run(lambda x: 1 / 0, torch.ones(1))
        self.assertIs(nn.Module.__call__, call)
        self.assertEqual(torch.autograd.Function.apply, apply)
        self.assertEqual(torch.distributions.Normal(0.0, 1.0)._validate_args, checks)
        self.assertIsNone(_capture.current())
        self.assertFalse(_core.tracing())
        self.assertEqual(run(lambda x: x + 1, torch.ones(1)).tolist(), [2])

    def test_printing_a_symbolic_tensor_tells_its_type(self):
        texts = []
        run(lambda x: texts.append((repr(x), f"{x.sum()}")) or x, torch.ones(2, 3))
        self.assertIn("shape=[2, 3], dtype=torch.float32, unknown", texts[0][0])
        self.assertIn("shape=[]", texts[0][1])


class Aliases(unittest.TestCase):
    def test_dropout_that_does_nothing_returns_its_argument(self):
        def forward(x):
            y = x.clone()
            F.dropout(y, 0.5, training=False).add_(1)
            F.dropout2d(y, 0.5, training=False).add_(1)
            return y

        x = torch.zeros(2, 3, 1)
        self.assertTrue(torch.equal(run(forward, x), forward(x)))

    def test_data_can_be_replaced_by_a_tensor_of_the_same_kind(self):
        def forward(x):
            y = x * 2
            y.data = x + 1
            return y

        self.assertEqual(run(forward, torch.ones(2)).tolist(), [2, 2])


class Recomputation(unittest.TestCase):
    def test_checkpointed_functions_keep_their_arguments_and_results(self):
        from torch.utils.checkpoint import checkpoint

        layer, x = nn.Linear(3, 3), torch.randn(2, 3)
        expected = layer(torch.tanh(layer(x)))
        net = Checkpointed(layer)
        self.assertLess(difference(run(net, x), expected), 1e-6)
        again = lambda x: checkpoint(net.body, x, use_reentrant=False)
        self.assertLess(difference(run(again, x), expected), 1e-6)


class Checkpointed(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def body(self, x):
        return self.layer(torch.tanh(self.layer(x)))

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return checkpoint(self.body, x)


class Constants(unittest.TestCase):
    def test_other_tensors_are_constants(self):
        table = torch.tensor([1.0, 2.0])
        model = sluice.inferenceModel(Scaled(table))
        self.assertEqual(model(torch.ones(2)).tolist(), [1, 2])
        table.fill_(9)
        with self.assertRaisesRegex(sluice.InvalidArgument, "register_buffer"):
            model(torch.ones(2))

    def test_rules_are_not_asked_for_known_values(self):
        with recorded() as traces:
            run(lambda x: x + torch.arange(4).reshape(2, 2).sum(1).float().exp(), torch.ones(2))
        self.assertEqual({n for n in traces[0].rules if "exp" in n or "sum" in n}, set())


class Types(unittest.TestCase):
    def test_half_and_float_meet_as_the_options_say(self):
        x, y = torch.ones(2, dtype=torch.float16), torch.ones(2)
        self.assertEqual(run(lambda x, y: x * y, x, y).dtype, torch.float16)
        options = sluice.Options()
        options.Precision.halfFloatCasting(sluice.HalfFloatCastingBehavior.HalfUpcastToFloat)
        model = sluice.inferenceModel(Product(), options)
        self.assertEqual(model(x, y).dtype, torch.float32)

    def test_autocast_casts_linear_layers_to_half(self):
        options = sluice.Options()
        options.Precision.autocastEnabled(True)
        layer = nn.Linear(4, 3)
        layer.autocast()
        model = sluice.inferenceModel(layer, options)
        x = torch.randn(2, 4)
        result = model(x)
        self.assertEqual(result.dtype, torch.float16)
        self.assertLess(difference(result, layer(x).detach()), 2e-3)


class Product(nn.Module):
    def forward(self, x, y):
        return x * y


class PrivateNames(unittest.TestCase):
    def test_only_one_file_uses_private_names_of_torch(self):
        folder = pathlib.Path(_capture.__file__).parent
        pattern = re.compile(r"torch(\.\w+)*\._(?!_)|\._schema|from torch\S*\._")
        found = {
            path.name
            for path in folder.glob("*.py")
            for line in path.read_text().splitlines()
            if pattern.search(line)
        }
        self.assertEqual(found, {"compat.py"})


class Scaled(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = [table]

    def forward(self, x):
        return x * self.table[0]


if __name__ == "__main__":
    unittest.main()
