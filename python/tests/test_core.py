"""The compiled module alone, without torch: tensors, errors, traces, models, interrupts."""

import gc
import signal
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

from sluice import _core, helpers


def host(*values, dtype=np.float32):
    return _core.HostTensor(np.array(values, dtype=dtype))


def linear_model(optimizer=None, options=None):
    root = _core.Module(kind="Net")
    layer = _core.Module(root, "fc", "Linear")
    weight = layer.add_parameter("weight", host([1, 2], [3, 4]))

    def forward(tensors):
        with _core.ModuleScope(layer):
            y = _core.functions.linear(tensors[0], weight.use())
        return [y] if optimizer is None else [y, _core.functions.mse_loss(y, tensors[1])]

    names = ["x"] if optimizer is None else ["x", "y"]
    return _core.Model(root, forward, names, options or _core.Options(), optimizer), weight


class TestTensors:
    def test_share_memory_with_numpy_both_ways(self):
        array = np.arange(6, dtype=np.int32).reshape(2, 3)
        tensor = _core.HostTensor(array)
        array[0, 0] = 7
        assert tensor.array()[0, 0] == 7
        tensor.array()[1, 2] = -1
        assert array[1, 2] == -1

    @pytest.mark.parametrize("name", ["float32", "float16", "float64", "int8", "uint8", "int16",
                                      "uint16", "int32", "uint32", "int64", "uint64", "bool"])
    def test_have_every_type(self, name):
        array = np.array([0, 1, 3]).astype(name)
        tensor = _core.HostTensor(array)
        assert tensor.dtype == name and tensor.shape == (3,)
        assert np.array_equal(tensor.array(), array)

    def test_take_bfloat16_as_bits(self):
        tensor = _core.HostTensor(np.array([0x3F80], dtype=np.int16), "bfloat16")
        assert tensor.dtype == "bfloat16"
        assert tensor.array().dtype == np.int16

    def test_copy_what_is_not_contiguous(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3).T
        assert np.array_equal(_core.HostTensor(array).array(), array)

    def test_go_through_dlpack(self):
        tensor = _core.HostTensor(np.arange(4, dtype=np.float64).reshape(2, 2))
        array = np.from_dlpack(tensor)
        assert np.array_equal(array, [[0, 1], [2, 3]])
        again = _core.HostTensor.from_dlpack(np.arange(6.0).reshape(2, 3)[:, ::2])
        assert np.array_equal(again.array(), [[0, 2], [3, 5]])

    def test_outlive_the_array_that_they_came_from(self):
        array = np.ones(1000, np.float32)
        alive = weakref.ref(array)
        tensor = _core.HostTensor(array)
        del array
        assert alive() is not None and tensor.array().sum() == 1000
        del tensor
        gc.collect()
        assert alive() is None

    @pytest.mark.parametrize("bad", [np.array(["a"]), np.array([1j]), np.array([1.0], ">f4")])
    def test_refuse_other_types(self, bad):
        with pytest.raises(ValueError, match="element type|big-endian"):
            _core.HostTensor(bad)


class TestErrors:
    def test_are_pythons_own_as_well(self):
        with pytest.raises(ValueError) as caught:
            _core.op("nonsense", [])
        assert isinstance(caught.value, _core.InvalidArgument)
        assert isinstance(caught.value, (_core.Error, RuntimeError))
        assert caught.value.type == "InvalidArgument" and "nonsense" in caught.value.message
        assert issubclass(_core.Unsupported, NotImplementedError)
        assert issubclass(_core.OutOfMemory, MemoryError)
        assert issubclass(_core.RecoverableError, _core.DeviceError)

    def test_of_forward_reach_the_caller_and_leave_no_trace_open(self):
        def forward(tensors):
            raise KeyError("mine")

        model = _core.Model(_core.Module(), forward, ["x"], _core.Options())
        for _ in range(2):
            with pytest.raises(KeyError, match="mine"):
                model.run([host(1.0)])
            assert not _core.tracing()

    def test_of_options_name_the_setter(self):
        options = _core.Options()
        with pytest.raises(ValueError, match="threads"):
            options.apply("threads", "many")
        with pytest.raises(ValueError, match="deviceIterations"):
            options.apply("deviceIteration", 2)


class TestModels:
    def test_compute_what_numpy_computes(self):
        model, _ = linear_model()
        x = np.array([[1, 1], [0, 2]], np.float32)
        (y,) = model.run([_core.HostTensor(x)])
        assert np.array_equal(y.array(), x @ np.array([[1, 2], [3, 4]], np.float32).T)

    def test_train_by_hand_computed_steps(self):
        model, weight = linear_model(_core.Optimizer("SGD", lr=0.5))
        x, y = host([1, 0]), host([0, 0])
        _, loss = model.run([x, y])
        # y = (1, 3); the mean of the squares is 5, its gradient (1, 3), times x on the first column.
        assert loss.array() == 5.0
        assert np.array_equal(weight.value().array(), [[0.5, 2], [1.5, 4]])

    def test_keep_results_over_later_calls(self):
        model, _ = linear_model()
        (first,) = model.run([host([1, 0])])
        kept = first.array().copy()
        model.run([host([5, 5])])
        assert np.array_equal(first.array(), kept)

    def test_refuse_another_number_of_inputs(self):
        model = _core.Model(_core.Module(), lambda t: [t[-1]], ["x"], _core.Options())
        with pytest.raises(ValueError, match="input"):
            model.run([host(-1.0), host(2.0)])
        assert model.run([host(3.0)])[0].array() == 3

    def test_freeze_their_options(self):
        options = _core.Options()
        linear_model(options=options)
        assert options.frozen
        with pytest.raises(ValueError, match="frozen"):
            options.apply("threads", 2)

    def test_end_with_their_last_reference(self):
        class Mark:
            pass

        mark = Mark()
        alive = weakref.ref(mark)

        def forward(tensors, mark=mark):
            return [tensors[0]]

        model = _core.Model(_core.Module(), forward, ["x"], _core.Options())
        model.run([host(1.0)])
        del forward, mark, model
        gc.collect()
        assert alive() is None

    def test_run_from_threads_with_the_same_bits(self):
        model, _ = linear_model()
        inputs = [host([i, -i]) for i in range(8)]
        expected = [model.run([x])[0].hash() for x in inputs]
        found = [None] * 8

        def call(i):
            for _ in range(20):
                found[i] = model.run([inputs[i]])[0].hash()

        threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert found == expected


class TestInterrupts:
    def test_end_a_step_and_leave_the_model_usable(self):
        model = _core.Model(_core.Module(),
                            lambda t: [_core.functions.matmul(t[0], t[0])], ["x"],
                            _core.Options())
        began = threading.Event()

        def slow(inputs):
            began.set()
            stop.wait(30)
            return inputs

        stop = threading.Event()
        op = _core.HostOp(slow, "slow")
        blocked = _core.Model(_core.Module(),
                              lambda t: op(t, [((2,), "float32")]), ["x"], _core.Options())
        timer = threading.Thread(target=lambda: (began.wait(), signal.raise_signal(signal.SIGINT),
                                                 stop.set()))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            blocked.run([host(1, 2)])
        timer.join()
        assert np.array_equal(model.run([host([1, 0], [0, 1])])[0].array(), np.eye(2))
        assert np.array_equal(blocked.run([host(1, 2)])[0].array(), [1, 2])

    def blocked_model(self, began, stop):
        """A model whose step sets the first event and waits for the second."""

        def slow(inputs):
            began.set()
            stop.wait(30)
            return inputs

        op = _core.HostOp(slow, "slow")
        return _core.Model(_core.Module(),
                           lambda t: op(t, [((2,), "float32")]), ["x"], _core.Options())

    def during_a_step(self, handler, began, run):
        """Runs with a signal that the handler gets once the step has begun."""
        before = signal.signal(signal.SIGUSR1, handler)
        sender = threading.Thread(target=lambda: (began.wait(),
                                                  signal.raise_signal(signal.SIGUSR1)))
        sender.start()
        try:
            return run()
        finally:
            sender.join()
            signal.signal(signal.SIGUSR1, before)

    def test_let_a_handler_use_other_models_but_not_this_one(self):
        other, _ = linear_model()
        expected = other.run([host([1, 0])])[0].array().copy()
        began, stop, seen = threading.Event(), threading.Event(), []
        blocked = self.blocked_model(began, stop)

        def handler(number, frame):
            seen.append(other.run([host([1, 0])])[0].array().copy())
            try:
                blocked.run([host(3, 4)])
            except _core.InvalidArgument as error:
                seen.append(str(error))
            stop.set()

        result = self.during_a_step(handler, began, lambda: blocked.run([host(1, 2)]))
        assert np.array_equal(result[0].array(), [1, 2])
        assert np.array_equal(seen[0], expected)
        assert "signal handler" in seen[1]

    def test_end_a_call_that_waits_for_another_thread(self):
        began, stop = threading.Event(), threading.Event()
        blocked = self.blocked_model(began, stop)
        results = []
        first = threading.Thread(target=lambda: results.append(blocked.run([host(1, 2)])))
        first.start()
        began.wait()

        def handler(number, frame):
            stop.set()
            raise InterruptedError("enough")

        with pytest.raises(InterruptedError, match="enough"):
            self.during_a_step(handler, began, lambda: blocked.run([host(3, 4)]))
        first.join()
        assert np.array_equal(results[0][0].array(), [1, 2])
        assert np.array_equal(blocked.run([host(5, 6)])[0].array(), [5, 6])


#: How to use each method and property of a model.
USES = {
    "anchored": ["x"],
    "compile": [[host(1, 2)]],
    "compile_again": [[host(1, 2)]],
    "find_plan": [[host(1, 2)], 1, 0.01, False, False],
    "latency": ["compute"],
    "load_executable": ["no file"],
    "load_optimizer_state_dict": [{}],
    "load_state_dict": [{}],
    "read": ["x"],
    "report": ["", ""],
    "returned_shape": [[2]],
    "run": [[host(1, 2)]],
    "run_here": [[host(1, 2)]],
    "save": ["/nowhere/file.slx"],
    "set_optimizer": [_core.Optimizer("SGD", lr=0.5)],
    "trace": [[host(1, 2)]],
}


def identity_model(module, op=None):
    function = (lambda t: t) if op is None else lambda t: op(t, [((2,), "float32")])
    return _core.Model(module, function, ["x"], _core.Options())


@pytest.mark.parametrize("name", ["", *(n for n in dir(_core.Model) if not n.startswith("_"))])
def test_what_waits_for_a_step_gives_up_the_lock_that_the_step_needs(name):
    """A step lets another thread use its model, or make another one of its module, and goes on once that
    has given up the interpreter."""
    entered, found, module = threading.Event(), [], _core.Module()

    def use():
        entered.set()
        try:
            value = getattr(model, name) if name else identity_model(module)
            found.append(value(*USES.get(name, [])) if callable(value) else value)
        except (_core.Error, OSError) as error:
            found.append(error)

    user = threading.Thread(target=use)

    def step(inputs):
        if not entered.is_set():
            user.start()
            entered.wait()
        return inputs

    model = identity_model(module, _core.HostOp(step, "step"))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that a thread gives the interpreter up only where it waits
    try:
        model.run_here([host(1, 2)])
    except _core.Cancelled:
        assert name in ("cancel", "destroy")
    finally:
        sys.setswitchinterval(interval)
    user.join()
    assert len(found) == 1


class TestConsole:
    def test_gets_log_lines_and_progress(self):
        text = []
        _core.set_console(text.append, redraws=True)
        try:
            options = _core.Options()
            options.apply("showCompilationProgressBar", True)
            linear_model(options=options)[0].run([host([1, 0])])
            _core.log(3, "careful")
        finally:
            _core.set_console()
        assert "Graph compilation: 100/100" in "".join(text)
        assert text[-1].endswith("warning python: careful\n")

    @pytest.mark.parametrize("installed", [True, False])
    def test_of_a_notebook_draws_a_bar_of_tqdm_if_there_is_one(self, installed, monkeypatch, capsys):
        bars = []

        class Bar:
            def __init__(self, total, desc):
                self.total, self.desc, self.n, self.open = total, desc, 0, True
                bars.append(self)

            def update(self, n):
                self.n += n

            def close(self):
                self.open = False

        monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
        module = types.ModuleType("tqdm.auto") if installed else None  # None: an ImportError
        monkeypatch.setitem(sys.modules, "tqdm.auto", module)
        if installed:
            module.tqdm = Bar
        options = _core.Options()
        options.apply("showCompilationProgressBar", True)
        _core.set_console(helpers.NotebookConsole(), redraws=True)
        try:
            linear_model(options=options)[0].run([host([1, 0])])
            _core.log(3, "careful")
        finally:
            _core.set_console()
        text = capsys.readouterr().err
        assert text.endswith("warning python: careful\n")
        assert ("Graph compilation: 100/100" in text) is not installed
        assert [(b.total, b.desc, b.n, b.open) for b in bars] == installed * [(100, "Graph compilation", 100, False)]

    def test_that_fails_stops_nothing(self):
        def broken(text):
            raise ValueError("no console")

        _core.set_console(broken)
        try:
            _core.log(3, "careful")
        finally:
            _core.set_console()

    def test_interrupts_end_a_compilation(self):
        def forward(tensors):
            signal.raise_signal(signal.SIGINT)
            return [tensors[0]]

        model = _core.Model(_core.Module(), forward, ["x"], _core.Options())
        with pytest.raises(KeyboardInterrupt):
            model.run([host(1.0)])


def test_the_package_imports_no_torch():
    code = "import sluice, sys; assert 'torch' not in sys.modules, 'torch'"
    subprocess.run([sys.executable, "-c", code], check=True)
