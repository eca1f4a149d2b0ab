"""Training and inference models from torch modules: values, strategies, calls, errors."""

import copy
import functools
import gc
import html
import threading
import types
import weakref

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice._convert  # noqa: E402
from networks import Normed, TwoLayers, batch, bits, train_eagerly  # noqa: E402


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(3)


def close(a, b, tolerance=1e-6):
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def test_all_models_can_be_ended_at_once():
    model = sluice.inferenceModel(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2))
    sluice.poptorchAtExit()
    assert not model.isCompiled()
    assert sluice.inferenceModel(torch.nn.Linear(2, 2))(torch.ones(1, 2)).shape == (1, 2)


class TestReport:
    def test_shows_the_first_calls(self, tmp_path):
        net = TwoLayers()
        options = sluice.Options().enableProfiling(str(tmp_path))
        model = sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
        x, y = batch()
        model.compile(x, y)
        with pytest.raises(sluice.InvalidArgument, match="not called yet"):
            model.report(tmp_path / "early.html")
        model(x, y)
        model.report(tmp_path / "mine.html")
        page = (tmp_path / "mine.html").read_text()
        assert page.startswith("<!doctype html>") and '"program":"training"' in page
        assert {file.name for file in (tmp_path / "training").iterdir()} == {
            "run.slt", "report.html", "trace.json", "summary.txt"}


class TestTraining:
    @pytest.mark.parametrize("make", [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, lr=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    ])
    def test_does_what_eager_torch_does_in_double_precision(self, make):
        net = TwoLayers(dtype=torch.float64)
        expected = copy.deepcopy(net)
        model = sluice.trainingModel(net, sluice.Options(), make(net.parameters()))
        x, y = batch()
        x = x.double()
        for _ in range(3):
            output, loss = model(x, y)
        train_eagerly(expected, make(expected.parameters()), x, y, steps=3)
        for a, b in zip(net.parameters(), expected.parameters()):
            assert close(a, b, 1e-9)
        assert output.shape == (8, 3) and loss.shape == ()

    def test_updates_buffers_as_torch_does(self):
        net = Normed()
        expected = copy.deepcopy(net)
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
        x, y = torch.randn(16, 4), torch.randn(16, 4)
        for _ in range(2):
            model(x, y)
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.1), x, y, steps=2)
        for (name, a), b in zip(net.state_dict().items(), expected.state_dict().values()):
            assert close(a, b, 1e-5), name

    def test_accumulates_gradients(self):
        net = TwoLayers()
        expected = copy.deepcopy(net)
        options = sluice.Options()
        options.Training.gradientAccumulation(4)
        model = sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
        x, y = batch(8)
        model(x, y)
        train_eagerly(expected, torch.optim.SGD(expected.parameters(), lr=0.1), x, y, accumulation=4)
        for a, b in zip(net.parameters(), expected.parameters()):
            assert close(a, b)

    def test_uses_groups_and_schedulers(self):
        net = TwoLayers(dtype=torch.float64)
        expected = copy.deepcopy(net)

        def make(module):
            optimizer = torch.optim.SGD(
                [{"params": module.first.parameters()},
                 {"params": module.last.parameters(), "lr": 0.5}], lr=0.1)
            return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

        optimizer, scheduler = make(net)
        model = sluice.trainingModel(net, None, optimizer)
        reference, reference_scheduler = make(expected)
        x, y = batch()
        x = x.double()
        for _ in range(3):
            model(x, y)
            scheduler.step()
            model.setOptimizer(optimizer)
            train_eagerly(expected, reference, x, y)
            reference_scheduler.step()
        for a, b in zip(net.parameters(), expected.parameters()):
            assert close(a, b, 1e-9)

    def test_leaves_frozen_parameters_alone(self):
        net = TwoLayers()
        net.first.weight.requires_grad_(False)
        before = net.first.weight.clone()
        bias = net.first.bias.detach().clone()
        model = sluice.trainingModel(net)
        model(*batch())
        assert torch.equal(net.first.weight, before)
        assert not torch.equal(net.first.bias, bias)


class TestStrategies:
    def strategies(self):
        yield "one device", lambda o: o
        for kind in (sluice.PipelinedExecution, sluice.ShardedExecution):
            yield kind.__name__, lambda o, k=kind: o.setExecutionStrategy(k("one", "two"))
        for kind in (sluice.SerialPhasedExecution, sluice.ParallelPhasedExecution):
            yield kind.__name__, lambda o, k=kind: o.setExecutionStrategy(k("one", "two"))
        yield "two threads", lambda o: o.threads(2)
        yield "far", lambda o: o.device("far")
        yield "sim", lambda o: o.device("sim")

    def test_give_the_same_bits(self):
        x, y = batch(16)
        found = {}
        for name, apply in self.strategies():
            torch.manual_seed(3)
            net = TwoLayers()
            options = sluice.Options()
            options.Training.gradientAccumulation(4)
            apply(options)
            model = sluice.trainingModel(net, options, sluice.optim.AdamW(net.parameters(), lr=0.01))
            losses = [model(x, y)[1].item() for _ in range(3)]
            found[name] = (losses, bits(net))
            model.destroy()
        assert len(set(map(str, found.values()))) == 1, found


def test_explanations_draw_themselves_in_notebooks():
    model = sluice.inferenceModel(TwoLayers(), sluice.Options().deviceIterations(2))
    model(torch.ones(8, 6))
    found = model.explain()
    picture, text = found._repr_html_().split("<pre>")
    assert picture == model.schedule().svg() and html.unescape(text) == found + "</pre>"
    assert repr(found) == str(found) and "device 0" in found


class TestCalls:
    def test_take_and_return_nested_structures(self):
        class Nested(torch.nn.Module):
            def forward(self, pair, *, scale=None, flag=True):
                a, b = pair
                c = a["x"] + b if flag else a["x"]
                return {"sum": c if scale is None else c * scale, "more": (a["x"], None)}

        model = sluice.inferenceModel(Nested())
        x = torch.randn(4)
        result = model(({"x": x}, x), scale=torch.full((4,), 2.0))
        assert torch.equal(result["sum"], 4 * x) and result["more"][1] is None
        assert torch.equal(result["more"][0], x)

    def test_take_keywords_and_dictionaries_in_any_order(self):
        class Difference(torch.nn.Module):
            def forward(self, pair, **named):
                return pair["a"] - pair["b"], named["c"] - named["d"]

        model = sluice.inferenceModel(Difference())
        one, two = torch.ones(2), torch.full((2,), 2.0)
        for _ in range(2):
            first = model({"a": one, "b": two}, c=one, d=two)
            second = model({"b": two, "a": one}, d=two, c=one)
            assert all(torch.equal(each, -one) for each in (*first, *second))

    def test_write_back_inputs_that_forward_changes(self):
        class Changes(torch.nn.Module):
            def forward(self, x):
                x.add_(1)
                return x * 2

        x = torch.zeros(3)
        assert torch.equal(sluice.inferenceModel(Changes())(x), torch.full((3,), 2.0))
        assert torch.equal(x, torch.ones(3))

    def test_may_return_nothing(self):
        class Counter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(3))

            def forward(self, x):
                self.seen += x

        net = Counter()
        model = sluice.inferenceModel(net)
        assert model(torch.ones(3)) is None
        model(torch.ones(3))
        assert torch.equal(net.seen, torch.full((3,), 2.0))

    def test_refuse_to_change_an_input_that_is_also_another(self):
        class Changes(torch.nn.Module):
            def forward(self, x, y):
                x.add_(1)
                return y * 2

        model = sluice.inferenceModel(Changes())
        x = torch.zeros(2, 3)
        for other in (x, x[1:]):
            with pytest.raises(ValueError, match="'x' in place, and 'y' is in the same memory"):
                model(x, other)
        assert torch.equal(model(x, x.clone()), torch.zeros(2, 3)) and torch.equal(x, torch.ones(2, 3))

    def test_take_what_has_no_signature_and_numbers_that_are_none(self):
        net = torch.nn.Linear(6, 3)
        net.forward = functools.partial(torch.nn.functional.linear, weight=net.weight, bias=net.bias)
        x, _ = batch()
        assert close(sluice.inferenceModel(net)(x), net(x))
        scaled = sluice.inferenceModel(Scaled())
        assert all(scaled(x, float("nan")).isnan().all() for _ in range(2))
        with pytest.raises(NotImplementedError, match="the module is a scripted or traced"):
            sluice.inferenceModel(torch.jit.trace(torch.nn.Linear(6, 3), x))(x)

    def test_refuse_to_write_back_a_part_of_an_input(self):
        class Changes(torch.nn.Module):
            def forward(self, x):
                x.add_(1)
                return x * 2

        options = sluice.Options().deviceIterations(2).outputMode(sluice.OutputMode.Final)
        with pytest.raises(ValueError, match="OutputMode.All"):
            sluice.inferenceModel(Changes(), options)(torch.zeros(4))

    def test_refuse_it_before_the_step(self):
        class Changes(torch.nn.Linear):
            def forward(self, x, y):
                y.add_(1)
                return super().forward(x).square().mean()

        net = Changes(6, 3)
        before, options = bits(net), sluice.Options().deviceIterations(2)  # training returns the last batch
        model = sluice.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
        x, y = torch.ones(4, 6), torch.ones(4)
        for step in (model.compile, model):
            with pytest.raises(ValueError, match=r"'y' in place, but the model returns only \(2,\) of \(4,\)"):
                step(x, y)
        assert bits(net) == before and torch.equal(y, torch.ones(4))

    def test_are_the_same_with_and_without_defaults(self):
        class Defaults(torch.nn.Module):
            def forward(self, x, mask=None, scale=torch.tensor([2.0]), flag=False, *, name="n"):
                return x * scale if mask is None and not flag else x

        model = sluice.inferenceModel(Defaults())
        x = torch.ones(3)
        for found in (model(x), model(x, None), model(x, flag=False), model(x=x, name="n"), model(x)):
            assert torch.equal(found, 2 * x)
        with pytest.raises(ValueError, match="another structure"):
            model(x, flag=True)

    def test_of_the_modules_methods_give_the_model(self):
        net = TwoLayers()
        model = sluice.inferenceModel(net)
        assert model.eval() is model and not net.training
        assert model.train() is model and net.training
        assert list(model.parameters()) == list(net.parameters())

    def test_refuse_another_structure(self):
        model = sluice.inferenceModel(TwoLayers())
        model(torch.ones(8, 6))
        with pytest.raises(ValueError, match="another structure"):
            model(torch.ones(8, 6), torch.zeros(8, dtype=torch.int64))

    def test_take_any_layout_of_memory(self):
        net = TwoLayers()
        model = sluice.inferenceModel(net)
        x = torch.randn(6, 8)
        expected = net(x.t())
        assert close(model(x.t()), expected)
        assert close(model(x.t().clone().requires_grad_()), expected)
        one = torch.randn(1, 6)
        assert close(model(one.expand(8, 6)), net(one.expand(8, 6)))

    def test_keep_results_over_later_calls(self):
        model = sluice.inferenceModel(TwoLayers())
        first = model(torch.ones(8, 6))
        kept = first.clone()
        model(torch.zeros(8, 6))
        assert torch.equal(first, kept)

    def test_run_half_precision_where_torch_has_no_kernel(self):
        net = TwoLayers().half()
        x, y = batch()
        model = sluice.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
        losses = [model(x.half(), y)[1].item() for _ in range(5)]
        assert losses[-1] < losses[0] and net.first.weight.dtype == torch.float16

    def test_run_in_two_threads(self):
        nets = [TwoLayers() for _ in range(2)]
        models = [sluice.inferenceModel(net) for net in nets]
        inputs = [torch.randn(8, 6) for _ in range(2)]
        found = [[], []]

        def call(i):
            for _ in range(20):
                found[i].append(models[i](inputs[i]))

        threads = [threading.Thread(target=call, args=(i,)) for i in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        for i in range(2):
            assert all(torch.equal(each, found[i][0]) for each in found[i])
            assert close(found[i][0], nets[i](inputs[i]))


class Scaled(torch.nn.Module):
    def forward(self, x, factor):
        return x * factor


class TestErrors:
    def test_of_forward_keep_their_type_and_leave_the_model_usable(self):
        class Picky(torch.nn.Module):
            fail = True

            def forward(self, x):
                if self.fail:
                    raise KeyError("not today")
                return x + 1

        net = Picky()
        model = sluice.inferenceModel(net)
        with pytest.raises(KeyError, match="not today"):
            model(torch.ones(2))
        net.fail = False
        assert torch.equal(model(torch.ones(2)), torch.full((2,), 2.0))

    @pytest.mark.parametrize("bad, words", [
        (torch.ones(8, 6, device="meta"), "no data"),
        (torch.ones(8, 6).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.ones(8, 6), 0.1, 0, torch.qint8), "quantised"),
        (torch.ones(8, 6, dtype=torch.complex64), "complex64"),
    ])
    def test_name_what_is_wrong_with_an_input(self, bad, words):
        with pytest.raises(ValueError, match=words):
            sluice.inferenceModel(TwoLayers())(bad)

    def test_name_wrong_arguments(self):
        model = sluice.inferenceModel(TwoLayers())
        with pytest.raises(ValueError, match="unexpected keyword argument 'y'"):
            model(torch.ones(8, 6), y=3)
        with pytest.raises(ValueError, match="missing a required argument"):
            model()

    def test_refuse_a_module_that_changed(self):
        net = TwoLayers()
        model = sluice.inferenceModel(net)
        model(torch.ones(8, 6))
        net.first.weight = torch.nn.Parameter(torch.zeros(6, 6))
        with pytest.raises(ValueError, match="other parameters"):
            model(torch.ones(8, 6))

    def test_refuse_what_is_no_module(self):
        with pytest.raises(ValueError, match="torch.nn.Module"):
            sluice.inferenceModel(lambda x: x)

    def test_refuse_a_destroyed_model(self):
        model = sluice.inferenceModel(TwoLayers())
        model(torch.ones(8, 6))
        model.destroy()
        model.destroy()
        with pytest.raises(ValueError, match="destroyed"):
            model(torch.ones(8, 6))

    def test_refuse_pickling(self):
        import pickle
        with pytest.raises(NotImplementedError, match="state_dict"):
            pickle.dumps(sluice.inferenceModel(TwoLayers()))


    def test_name_arrays_where_tensors_belong(self):
        with pytest.raises(ValueError, match="'x' is a NumPy array"):
            sluice.inferenceModel(TwoLayers())(torch.ones(8, 6).numpy())

    def test_refuse_objects_that_would_come_back_without_values(self):
        class Holder(torch.nn.Module):
            def forward(self, x):
                return types.SimpleNamespace(x=x + 1)

        with pytest.raises(ValueError, match="SimpleNamespace that holds tensors"):
            sluice.inferenceModel(Holder())(torch.ones(2))

    def test_ask_for_an_example_of_what_lazy_modules_get(self):
        net = torch.nn.Sequential(torch.nn.LazyLinear(3))
        with pytest.raises(ValueError, match="'0.weight' has no shape yet.*once with an example"):
            sluice.inferenceModel(net)(torch.ones(2, 4))
        net(torch.ones(2, 4))
        assert sluice.inferenceModel(net)(torch.ones(2, 4)).shape == (2, 3)

    def test_name_a_model_inside_of_another_one(self):
        class Outer(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = [inner]

            def forward(self, x):
                return self.inner[0](x)

        inner = sluice.inferenceModel(torch.nn.Linear(3, 2))
        for _ in range(2):  # before and after the inner one is compiled
            with pytest.raises(sluice.Unsupported, match=r"'input'.*inside of another one; .*model\.model"):
                sluice.inferenceModel(Outer(inner))(torch.ones(1, 3))
            inner(torch.ones(1, 3))

    def test_name_packed_sequences(self):
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4), torch.tensor([3, 2]))
        with pytest.raises(NotImplementedError, match="'input' is a packed sequence"):
            sluice.inferenceModel(torch.nn.LSTM(4, 3))(packed)

    def test_say_that_a_model_was_destroyed(self):
        with sluice.inferenceModel(TwoLayers()) as model:
            with pytest.raises(ValueError, match="explain: call or compile"):
                model.explain()
            model(torch.ones(8, 6))
        for ask in (model.explain, model.copyWeightsToDevice, model.getLatency):
            with pytest.raises(ValueError, match="was destroyed"):
                ask()

    def test_name_an_optimizer_of_another_module(self):
        other = torch.optim.SGD(TwoLayers().parameters(), lr=0.1)
        with pytest.raises(ValueError, match="none of the module's parameters"):
            sluice.trainingModel(TwoLayers(), None, other)(*batch())

    def test_show_both_structures(self):
        model = sluice.inferenceModel(TwoLayers())
        model(torch.ones(8, 6))
        with pytest.raises(ValueError, match=r"\(\(\*, None\), \{\}\), now \(\(\*, \*\), \{\}\)"):
            model(torch.ones(8, 6), torch.zeros(8, dtype=torch.int64))


class TestModes:
    def test_a_model_may_be_wrapped_again(self):
        net = TwoLayers()
        training = sluice.trainingModel(net)
        training(*batch())
        inference = sluice.inferenceModel(training)
        assert inference.model is net
        assert close(inference(batch()[0]), net(batch()[0]))

    def test_modules_of_torchs_compiler_are_seen_through(self):
        class OptimizedModule(torch.nn.Module):  # as torch.compile makes it
            def __init__(self, inner):
                super().__init__()
                self._orig_mod = inner

            def forward(self, *args):
                raise AssertionError("two compilers")

        net, x = torch.nn.Linear(6, 3), batch()[0]
        model = sluice.inferenceModel(OptimizedModule(net))
        assert close(model(x), net(x)) and list(model.state_dict())[0] == "_orig_mod.weight"
        model.destroy()
        inside = torch.nn.Sequential(OptimizedModule(net), torch.nn.ReLU())
        assert close(sluice.inferenceModel(inside)(x), net(x).relu())

    def test_inference_models_run_as_after_eval(self):
        net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.5))
        x = torch.randn(8, 6)
        found = sluice.inferenceModel(net)(x)
        assert all(part.training for part in net.modules())
        assert net[1].num_batches_tracked == 0
        assert close(found, net.eval()(x), 1e-5)


class TestAutocastOfTorch:
    def test_around_the_first_call_is_that_of_the_model(self):
        net = TwoLayers()
        model = sluice.inferenceModel(net)
        x, _ = batch()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, expected = model(x), net(x)
            assert found.dtype == expected.dtype == torch.bfloat16
            assert close(found.float(), expected.float(), 2e-2)
            assert torch.equal(model(x), found)
        with pytest.raises(ValueError, match="on with torch.bfloat16 at the first call.* off now"):
            model(x)
        assert net(x).dtype == torch.float32

    def test_in_forward_ends_there(self):
        class Mixed(torch.nn.Linear):
            def forward(self, x):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y = super().forward(x)
                return y, super().forward(x)

        net, x = Mixed(6, 3), batch()[0]
        found = sluice.inferenceModel(net)(x)
        assert [each.dtype for each in found] == [torch.bfloat16, torch.float32]
        assert close(found[1], net(x)[1])


class TestLifetimes:
    def test_models_end_with_their_last_reference(self):
        net = TwoLayers()
        model = sluice.trainingModel(net)
        model(*batch())
        alive = weakref.ref(model)
        del model
        gc.collect()
        assert alive() is None
        assert type(net.first.weight) is torch.nn.Parameter

    def test_many_models_leave_nothing_behind(self):
        import resource
        net = TwoLayers()
        x, y = batch()

        def cycle(count):
            for _ in range(count):
                model = sluice.trainingModel(net)
                model(x, y)
                model.destroy()
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        before = cycle(20)
        assert cycle(60) - before < 4096  # KiB

    def test_hooks_run_around_compilations(self):
        events = []
        remove = [sluice.registerPreCompileHook(lambda: events.append("before")),
                  sluice.registerPostCompileHook(lambda: events.append("after"))]
        model = sluice.inferenceModel(TwoLayers())
        model(torch.ones(8, 6))
        model(torch.ones(8, 6))
        assert events == ["before", "after"]
        model(torch.ones(4, 6))
        model(torch.ones(8, 6))
        [each() for each in remove]
        assert events == 2 * ["before", "after"]
        model(torch.ones(2, 6))
        assert events == 2 * ["before", "after"]


class FailsAtFirst(torch.nn.Module):
    """Its forward takes one or two tensors, and raises as long as it is told to."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.broken = True

    def forward(self, x, y=None):
        if self.broken:
            raise RuntimeError("not yet")
        return self.layer(x if y is None else x + y)


class TestFirstCallsThatFail:
    def test_do_not_fix_the_structure_of_the_arguments(self):
        net = FailsAtFirst()
        model = sluice.inferenceModel(net)
        x = torch.ones(2, 3)
        with pytest.raises(RuntimeError, match="not yet"):
            model(x)
        net.broken = False
        assert torch.allclose(model(x, x), net.layer(2 * x))
        with pytest.raises(sluice.InvalidArgument, match="another structure"):
            model(x)

    def test_may_be_repeated_after_the_module_has_changed(self):
        net = FailsAtFirst()
        model = sluice.inferenceModel(net)
        with pytest.raises(RuntimeError, match="not yet"):
            model(torch.ones(2, 3))
        net.broken, net.layer = False, torch.nn.Linear(3, 4)
        assert model(torch.ones(2, 3)).shape == (2, 4)

    def test_leave_the_module_free_for_another_model(self):
        net = FailsAtFirst()
        first = sluice.trainingModel(net)
        with pytest.raises(RuntimeError, match="not yet"):
            first(torch.ones(2, 3))
        net.broken = False
        net.forward = lambda x: net.layer(x).mean()
        assert sluice.trainingModel(net)(torch.ones(2, 3)).shape == ()

    def test_give_the_parameters_back(self):
        net = TwoLayers()
        other = torch.nn.Linear(1, 1)
        model = sluice.trainingModel(net, None, torch.optim.SGD(other.parameters(), lr=0.1))
        for _ in range(2):
            with pytest.raises(sluice.InvalidArgument, match="none of the module's parameters"):
                model(*batch())
        assert type(net.first.weight) is torch.nn.Parameter

    def test_of_a_second_shape_leave_the_first_one_as_it_was(self):
        class ByShape(torch.nn.Module):
            def forward(self, x):
                if x.shape[0] == 1:
                    raise RuntimeError("too few")
                return x + 1 if x.shape[0] == 2 else (x, [x * 2])

        model = sluice.inferenceModel(ByShape())
        for _ in range(2):
            assert torch.equal(model(torch.ones(2)), torch.full((2,), 2.0))
            first, (second,) = model(torch.ones(3))
            assert torch.equal(second, 2 * first)
            with pytest.raises(RuntimeError, match="too few"):
                model(torch.ones(1))
