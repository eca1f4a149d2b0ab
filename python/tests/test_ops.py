"""Helper functions: in a model they give what they give in plain torch."""

import concurrent.futures
import copy
import io
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")

import sluice
from sluice import Block, BeginBlock, BlockFunction, MatMulSerializationMode, MultiConv


class Function(torch.nn.Module):
    """A module that applies a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def in_model(function, *args, options=None):
    """What an inference model computes for the function."""
    return in_module(Function(function), *args, options=options)


def in_module(module, *args, options=None):
    """What an inference model of the module computes."""
    model = sluice.inferenceModel(module, options)
    try:
        return model(*args)
    finally:
        model.destroy()


def same(function, *args):
    """The result of the function in a model, which must be that of plain torch."""
    expected, found = function(*args), in_model(function, *args)
    for a, b in zip(*(x if isinstance(x, (list, tuple)) else [x] for x in (expected, found))):
        assert a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-6, atol=1e-6)
    return found


X = torch.arange(12.0).reshape(3, 4)
Y = torch.sin(torch.arange(20.0)).reshape(4, 5)


def test_a_model_knows_that_it_is_traced():
    seen = []
    in_model(lambda x: (seen.append(sluice.isRunningOnIpu()), x + 1)[1], X)
    assert seen == [True] and not sluice.isRunningOnIpu()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_identity_loss_reduces(reduction):
    same(lambda x: sluice.identity_loss(x * x, reduction), X)
    reduced = {"mean": X.mean(), "sum": X.sum(), "none": X}[reduction]
    assert torch.equal(sluice.identity_loss(X, reduction), reduced)


def test_identity_loss_refuses_other_reductions():
    with pytest.raises(ValueError, match="expected 'mean', 'sum' or 'none', got 'max'"):
        sluice.identity_loss(X, "max")


def test_identity_loss_is_what_a_training_model_minimises():
    class Bias(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x, target):
            out = x + 1 + self.bias
            return sluice.identity_loss(5 * (out - target) ** 2, "mean"), out

    net = Bias()
    model = sluice.trainingModel(net)
    for _ in range(100):
        model(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 4.0, 5.0]))
    assert float(net.bias) == pytest.approx(1.0, abs=1e-4)
    model.destroy()


def test_marks_return_their_tensors():
    same(lambda x: sluice.nop(x) + 1, X)
    same(lambda x: sluice.recomputationCheckpoint(x * 2), X)
    same(lambda x: list(sluice.recomputationCheckpoint(x * 2, x + 1)), X)
    same(lambda x, y: sluice.set_available_memory(x @ y, 0.25), X, Y)
    same(lambda x: sluice.ipu_print_tensor(x * 2, "x", digits=2, float_format="fixed"), X)
    with pytest.raises(ValueError, match="one or more tensors"):
        sluice.recomputationCheckpoint()
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        sluice.set_available_memory(X, 2)
    with pytest.raises(ValueError, match="float_format must be one of"):
        sluice.ipu_print_tensor(X, float_format="hex")


@pytest.mark.parametrize("mode", list(MatMulSerializationMode))
def test_a_serialized_product_is_a_product(mode):
    factor = {"InputChannels": 3, "ReducingDim": 2, "OutputChannels": 5, "Disabled": 0}[mode.name]
    same(lambda x, y: sluice.serializedMatMul(x, y, mode, factor), X, Y)
    if mode is not MatMulSerializationMode.Disabled:
        with pytest.raises(ValueError, match="factor must divide"):
            in_model(lambda x, y: sluice.serializedMatMul(x, y, mode, 7), X, Y)


def test_a_loop_applies_its_body():
    def twice(x, y):
        return sluice.for_loop(4, lambda a, b: (a + b, b * 2), [x, y])

    a, b = same(twice, X, torch.ones(3, 4))
    assert torch.equal(a, X + 15) and torch.equal(b, torch.full((3, 4), 16.0))


def test_a_loop_passes_tensors_by_value():
    def run(x):
        def body(a):
            a += 1
            return a

        return [*sluice.for_loop(3, body, [x]), x]

    result, original = same(run, X.clone())
    assert torch.equal(result, X + 3) and torch.equal(original, X)


def test_wrong_loops_are_refused():
    with pytest.raises(ValueError, match="must be a list of tensors"):
        sluice.for_loop(1, lambda x: x, X)
    with pytest.raises(TypeError, match="every input must be a tensor, got 3"):
        sluice.for_loop(1, lambda x: x, [3])
    with pytest.raises(ValueError, match="like those that it takes"):
        sluice.for_loop(1, lambda x: x.sum(), [X])
    with pytest.raises(ValueError, match="the body takes and gives"):
        in_model(lambda x: sluice.for_loop(1, lambda y: y.sum(), [x]), X)


@pytest.mark.parametrize("value", [True, False])
def test_a_condition_chooses_a_body(value):
    def choose(condition, x):
        return sluice.cond(condition, lambda a: [a + 1, a * 2], [x], lambda a: [a - 1, a * 3], [x])

    first, _ = same(choose, torch.tensor([value]), X)
    assert torch.equal(first, X + 1 if value else X - 1)


def test_a_condition_needs_an_inference_model_and_alike_results():
    def unlike(condition, x):
        return sluice.cond(condition, lambda a: a, [x], lambda a: a.sum(), [x])

    with pytest.raises(ValueError, match="the branches give"):
        in_model(unlike, torch.tensor([True]), X)


LARGE = torch.full((300, 2), 3.0)
READ_INSIDE = {
    "view": lambda x: x[:, :2],
    "view_of_a_view": lambda x: x[:, 1:].t()[1:].t(),
    "known": lambda x: torch.full((x.shape[0], 2), 3.0),
    "known_and_large": lambda x: LARGE,
    "parameter": lambda x: W[1:],
}
W = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("name", READ_INSIDE)
@pytest.mark.parametrize("count", [3, 20])
def test_what_a_body_reads_first_can_be_used_after_it(name, count):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = W

        def forward(self, x):
            part, start = READ_INSIDE[name](x), x[:, 2:4]
            (y,) = sluice.for_loop(count, lambda h: h + part, [start])
            (z,) = sluice.cond(x[0, 0] < 1, lambda h: h * part, [y], lambda h: h - part, [y])
            (twice,) = sluice.cond(x[0, 0] > 1, lambda h: h * x[:, 1:3], [z], lambda h: h - x[:, 1:3], [z])
            return y + part, z - part, twice + part

    module, x = Module(), torch.arange(1200.0).reshape(300, 4) / 100
    for a, b in zip(in_module(module, x), module(x)):
        torch.testing.assert_close(a, b)


def test_what_a_body_writes_stays_written():
    def function(x):
        known, seen = torch.zeros(2, 2), x * 2
        first = seen[0]

        def body(h):
            known.add_(1)
            seen.mul_(3)
            return h + first + known

        (y,) = sluice.for_loop(2, body, [x])
        return y, known, seen, first

    x = torch.ones(2, 2)
    for a, b in zip(in_model(function, x), function(x)):
        assert torch.equal(a, b)



@pytest.mark.parametrize("step", [1, 2])
def test_slices_at_offsets_that_only_a_run_knows(step):
    def sliced(x, start):
        return sluice.dynamic_slice(x, 1, start, 2, step)

    for start in range(3):
        found = same(sliced, X, torch.tensor([start]))
        assert torch.equal(found, X[:, start : start + 2 : step])
    same(lambda x: sluice.dynamic_slice(x, 1, 1, 2, step), X)
    with pytest.raises(ValueError, match="must divide the size 2, got 3"):
        sluice.dynamic_slice(X, 1, 0, 2, 3)


def test_updates_at_offsets_that_only_a_run_knows():
    source = torch.full((3, 2), -1.0)

    def updated(x, src, start):
        return sluice.dynamic_update(x, src, 1, start, 2)

    for start in range(3):
        found = same(updated, X, source, torch.tensor([start]))
        expected = X.clone()
        expected[:, start : start + 2] = -1
        assert torch.equal(found, expected)
    same(lambda x, s: sluice.dynamic_update(x, s, 1, 1, 2), X, source)
    with pytest.raises(ValueError, match="src has 2 elements along dimension 1, and size is 3"):
        sluice.dynamic_update(X, source, 1, 0, 3)


def test_the_decoder_finds_the_best_path():
    # Two steps of two classes beside the blank; the best labelling is "1 2".
    log_probabilities = torch.log(torch.tensor([[[0.1, 0.8, 0.1]], [[0.1, 0.1, 0.8]]]))
    decode = lambda p, n: sluice.ctc_beam_search_decoder(p, n, beam_width=4)
    steps = torch.tensor([2], dtype=torch.int32)
    _, lengths, paths = same(decode, log_probabilities, steps)
    assert lengths.tolist() == [[2]] and paths.tolist() == [[[1, 2]]]
    with pytest.raises(TypeError, match="lengths must be a tensor"):
        decode(log_probabilities, [2])


# Functions of the host.


def test_a_function_of_the_host_runs_in_a_model():
    calls = []

    def double(x, y):
        calls.append(tuple(x.shape))
        return x * 2, y.sum()

    host = sluice.CPU(double, "double")
    a, b = in_model(lambda x, y: host(x, y), X, Y)
    assert torch.equal(a, X * 2) and torch.allclose(b, Y.sum())
    assert calls == [(3, 4), (3, 4)]  # once for the types of the results, once in the run
    assert torch.equal(sluice.CPU(torch.neg, "neg")(X), -X)
    same(lambda x: sluice.CPU(lambda a: a.to(torch.bfloat16), "narrow")(x).float(), X)


def test_a_function_of_the_host_may_use_a_model():
    """That model is captured in the middle of the capture of the other one, which goes on as before."""
    norm = torch.nn.LayerNorm(4)
    inner = sluice.inferenceModel(norm)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(3, 4))
            self.host = sluice.CPU(inner, "inner")

        def forward(self, x, y):
            z = self.host(x)
            self.last.data = z * 2
            return torch.nn.functional.gaussian_nll_loss(z, y, y * y + 1)

    torch.manual_seed(2)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    net = Outer()
    found, z = in_module(net, x, y), norm(x)
    assert torch.allclose(found, torch.nn.functional.gaussian_nll_loss(z, y, y * y + 1))
    assert torch.allclose(net.last, z * 2, atol=1e-6)
    x.data = y  # torch's own again
    assert torch.equal(x, y) and "data" not in vars(torch.Tensor)


@pytest.mark.parametrize("nested", [False, True])
def test_a_function_of_the_host_cannot_use_a_model_of_a_part_of_the_module(nested):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4))
    part = sluice.inferenceModel(net[0])
    function = part
    if nested:  # by the function of another model
        function = sluice.inferenceModel(Function(sluice.CPU(part, "part")))
    net.add_module("host", Function(sluice.CPU(function, "host")))
    with part, sluice.inferenceModel(net) as model:
        for _ in range(2):
            with pytest.raises(sluice.InvalidArgument, match="or the capture of a model, uses that model"):
                model(X)
        assert torch.allclose(part(X), net[0](X), atol=1e-6)


def test_a_function_of_the_host_may_wait_for_a_model_that_another_thread_captures():
    inner, calls = sluice.inferenceModel(torch.nn.LayerNorm(4)), threading.Event()
    first = threading.Thread(target=inner, args=(X,))

    def function(x):
        if not calls.is_set():
            remove = sluice.registerPreCompileHook(calls.set)
            first.start()
            calls.wait()  # it has the model, and waits for the capture that calls this
            remove()
        return inner(x)

    found = in_model(sluice.CPU(function, "function"), X)
    first.join()
    assert torch.equal(found, inner(X))


def test_a_function_of_the_host_cannot_use_the_model_that_is_captured():
    def function(x):
        return model(x)

    with sluice.inferenceModel(Function(sluice.CPU(function, "function"))) as model:
        with pytest.raises(sluice.InvalidArgument, match="calls uses that model"):
            model(X)


def test_threads_capture_models_with_functions_of_the_host():
    """A capture that waits for its function keeps those of other threads waiting."""
    call = torch.nn.Module.__call__

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.norm = sluice.CPU(lambda x: in_module(torch.nn.LayerNorm(4), x), "norm")

        def forward(self, x):
            captured.append(self)
            z = self.norm(self.first(x))
            assert captured[-1] is self
            return self.second(z)

    begin = threading.Barrier(2)
    for _ in range(20):
        captured, nets = [], [Net(), Net()]

        def first_call(net):
            begin.wait()
            return in_module(net, X)

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            found = list(threads.map(first_call, nets))
        for net, result in zip(nets, found):
            expected = net.second(torch.nn.functional.layer_norm(net.first(X), (4,)))
            assert torch.allclose(result, expected, atol=1e-5)
        assert torch.nn.Module.__call__ is call and "data" not in vars(torch.Tensor)


def test_errors_of_a_host_function_reach_the_caller():
    def broken(x):
        raise KeyError("in the function")

    with pytest.raises(KeyError, match="in the function"):
        in_model(lambda x: sluice.CPU(broken, "broken")(x), X)
    with pytest.raises(TypeError, match="must return tensors"):
        in_model(lambda x: sluice.CPU(lambda a: 3, "three")(x), X)
    with pytest.raises(TypeError, match="expected a function"):
        sluice.CPU(3, "three")


def test_custom_ops_outside_a_model_return_the_examples():
    (found,) = sluice.custom_op([X], "Cube", "com.example", 1, [Y], {"alpha": 1.0})
    assert torch.equal(found, Y)


@pytest.mark.parametrize(
    "value, words",
    [
        ({}, "number, a text or a list"),
        ([1, 2.0], "one kind"),
        ("é", "not ASCII"),
        (1e39, "beyond float32"),
    ],
)
def test_attributes_of_custom_ops_are_checked(value, words):
    with pytest.raises(ValueError, match=words):
        sluice.custom_op([X], "Cube", "com.example", 1, [X], {"alpha": value})


def test_an_op_that_is_not_loaded_is_named():
    with pytest.raises(ValueError, match="Cube"):
        in_model(lambda x: sluice.custom_op([x], "Cube", "com.example", 1, [x])[0], X)


# Blocks.


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def explained(net, strategy=None):
    """How an inference model over two devices was cut, and what it computes."""
    options = sluice.Options().device("cpu*2").deviceIterations(2)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    model = sluice.inferenceModel(net, options)
    try:
        return model(X[:2]), model.explain()
    finally:
        model.destroy()


def inline():
    net = Two()

    def forward(x):
        with Block("A", ipu_id=0):
            x = torch.relu(net.first(x))
        with Block("B", ipu_id=1):
            return net.second(x)

    net.forward = forward
    return net


def begun():
    net = Two()
    net.first = BeginBlock(net.first, "A", ipu_id=0)
    net.second = BeginBlock(net.second, "B", ipu_id=1)
    return net


def decorated():
    net = Two()
    first = BlockFunction("A", ipu_id=0)(lambda x: torch.relu(net.first(x)))
    second = BlockFunction("B", ipu_id=1)(lambda x: net.second(x))
    net.forward = lambda x: second(first(x))
    return net


def started():
    net = Two()

    def forward(x):
        Block.start("A", 0)
        x = torch.relu(net.first(x))
        Block.start("B", 1)
        return net.second(x)

    net.forward = forward
    return net


def functions():
    net = Two()
    first = BeginBlock(lambda x: net.first(x), "A", ipu_id=0)
    second = BeginBlock(lambda x: net.second(x), "B", ipu_id=1)
    net.forward = lambda x: second(torch.relu(first(x)))
    return net


@pytest.mark.parametrize("make", [inline, begun, decorated, started, functions])
def test_all_forms_of_blocks_cut_a_model(make):
    expected = Two()(X[:2])
    net = make()
    assert torch.allclose(net(X[:2]), expected)
    found, text = explained(net)
    assert torch.allclose(found, expected, atol=1e-6)
    assert "A" in text and "B" in text
    found, _ = explained(net, sluice.ShardedExecution("A", "B"))
    assert torch.allclose(found, expected, atol=1e-6)


def test_blocks_without_an_id_are_numbered():
    net = Two()

    def forward(x):
        Block.useAutoId()
        with Block(ipu_id=0):
            x = torch.relu(net.first(x))
        with Block(ipu_id=1):
            return net.second(x)

    net.forward = forward
    expected = Two()(X[:2])
    found, _ = explained(net, sluice.PipelinedExecution("0", "1"))
    assert torch.allclose(found, expected, atol=1e-6)


def test_annotated_modules_can_be_copied_pickled_and_saved():
    net = begun()
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), torch.load(file, weights_only=False)):
        assert other.second._sluice_block == ("B", 1)
        assert list(other.state_dict()) == list(Two().state_dict())
    sluice.removeBlocks(net)
    assert not any(hasattr(part, "_sluice_block") for part in net.modules())
    assert pickle.loads(pickle.dumps(Block("A"))).__class__ is Block


def test_wrong_blocks_are_refused():
    net = begun()
    with pytest.raises(RuntimeError, match="already begins the block 'A'"):
        BeginBlock(net.first, "C")
    with pytest.raises(TypeError, match="expected a module or a function"):
        BeginBlock(3)
    with pytest.raises(TypeError, match="a block's id is text"):
        Block(1.5)
    with pytest.raises(TypeError, match="whole number"):
        Block("A", "0")
    with pytest.raises(TypeError, match="decorator with arguments"):
        BlockFunction(lambda x: x)
    with pytest.raises(TypeError, match="removeBlocks: expected a module"):
        sluice.removeBlocks(3)
    with pytest.raises(ValueError, match="expected a name"):
        sluice.NameScope("")


def test_name_scopes_are_parts_of_the_names_of_ops():
    def named(x):
        with sluice.NameScope("encoder"):
            return torch.relu(x)

    model = sluice.inferenceModel(Function(named))
    model(X)
    assert any("encoder/" in name for name in model.getTensorNames())
    model.destroy()
    assert torch.equal(named(X), torch.relu(X))


# Hints.


def test_convolutions_of_a_group_are_those_outside():
    a, b = torch.nn.Conv2d(1, 2, 3), torch.nn.Conv2d(1, 3, 3)
    image = torch.randn(1, 1, 5, 5)

    def both(x):
        group = MultiConv().availableMemoryProportions([0.3, 0.6])
        group.planType(sluice.MultiConvPlanType.Serial)
        group.partialsTypes(torch.float32).enableConvDithering(True).perConvReservedTiles(4)
        with group.cycleBackOff(0.2):
            return [a(x), b(x)]

    same(both, image)
    with pytest.raises(ValueError, match="torch.float32 or float16, got torch.int8"):
        MultiConv().partialsTypes(torch.int8)
    with pytest.raises(ValueError, match="[Cc]onvolution|MultiConv"):
        in_model(lambda x: _empty_group(x), X)


def _empty_group(x):
    with MultiConv():
        return x + 1


def test_overlap_of_single_tensors_has_no_effect_and_says_so():
    sluice._option_base._warned.clear()
    mode = sluice.OverlapMode.NoOverlap
    with pytest.warns(UserWarning, match="set_overlap_for_input has no effect"):
        same(lambda x: sluice.set_overlap_for_input(x, mode) + 1, X)
    with pytest.warns(UserWarning, match="set_overlap_for_output has no effect"):
        same(lambda x: sluice.set_overlap_for_output(x + 1, mode), X)
    with pytest.raises(TypeError, match="expected an OverlapMode"):
        sluice.set_overlap_for_input(X, 3)


def test_attributes_of_popart_have_no_effect_and_say_so():
    sluice._option_base._warned.clear()

    def function(x):
        with sluice.Attribute(__outline={"layer": "first"}):
            return x * 2

    with pytest.warns(UserWarning, match="Attribute has no effect"):
        same(function, X)


# Autocast.


def products(x, y):
    return x @ y


@pytest.mark.parametrize(
    "function", [sluice.autocast()(products), lambda x, y: _with_autocast(x, y)]
)
def test_autocast_runs_products_in_float16(function):
    assert in_model(function, X, Y).dtype == torch.float16
    assert function(X, Y).dtype == torch.float32


def _with_autocast(x, y):
    with sluice.autocast(enabled=True):
        return products(x, y)


def test_autocast_of_a_module_and_its_switch():
    inner = Function(products)
    assert inner.autocast() is inner
    assert in_module(Function(inner), X, Y).dtype == torch.float16
    options = sluice.Options()
    options.Precision.autocastEnabled(False)
    assert in_module(Function(copy.deepcopy(inner)), X, Y, options=options).dtype == torch.float32
    outer = Function(Function(products).autocast(False)).autocast()
    assert in_module(outer, X, Y).dtype == torch.float32
    with pytest.raises(TypeError, match="True or False"):
        inner.autocast("yes")
    with pytest.raises(TypeError, match="True or False"):
        sluice.autocast("yes")


def test_autocast_of_a_whole_model():
    assert in_module(Function(products).autocast(), X, Y).dtype == torch.float16


def test_policies_name_functions_and_layers():
    policy = sluice.autocasting.Policy(
        fp16=[torch.nn.Conv2d, "relu"], fp32=[torch.bmm, torch.matmul], promote=[torch.dot]
    )
    assert policy.fp16 == ["Conv2d", "relu"] and policy.fp32 == ["bmm", "matmul"]
    options = sluice.Options()
    options.Precision.autocastPolicy(policy)
    expected = 'Policy(["Conv2d", "relu"], ["bmm", "matmul"], ["dot"], [], "f16")'
    assert options.text("precision.autocastPolicy") == expected
    assert in_model(sluice.autocast()(products), X, Y, options=options).dtype == torch.float32
    assert pickle.loads(pickle.dumps(options)) == options and copy.copy(policy) == policy
    fresh = options.clone()
    fresh.Precision.autocastPolicy(sluice.autocasting.default)
    assert fresh == sluice.Options()
    with pytest.raises(TypeError, match="Policy: expected"):
        sluice.autocasting.Policy(fp16=[3])
    with pytest.raises(ValueError, match="xyzzy"):
        options.clone().Precision.autocastPolicy(sluice.autocasting.Policy(fp16=["xyzzy"]))


# Helpers.


def test_questions_about_devices():
    assert sluice.ipuHardwareIsAvailable()
    sluice.Options().useOfflineIpuTarget(sluice.ipuHardwareVersion())
    with pytest.raises(ValueError, match="0"):
        sluice.ipuHardwareIsAvailable(0)


def test_log_levels():
    for level in ("ERR", "err", 4, "TRACE_ALL", 3):
        sluice.setLogLevel(level)
    sluice.setLogLevel("WARN")
    for level in ("LOUD", 5, True, None):
        with pytest.raises(ValueError, match=r"OFF \(6\), ERR \(4\)"):
            sluice.setLogLevel(level)
