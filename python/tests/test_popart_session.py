"""Sessions of sluice.popart: data flows, steps, weights, threads, interrupts."""

import contextlib
import signal
import threading

import numpy as np
import pytest

import sluice.popart as popart


def row(*values):
    return np.array(values, np.float32)


class Scaled:
    """y = w x on micro-batches of two numbers; the loss is the mean of y."""

    def __init__(self):
        self.builder = popart.Builder()
        self.x = self.builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
        self.w = self.builder.addInitializedInputTensor(row(3, 3), "w")
        self.y = self.builder.aiOnnx.mul([self.x, self.w])
        self.loss = self.builder.aiGraphcore.identityloss([self.y])
        self.builder.addOutputTensor(self.y)

    def inference(self, kind=None, batches=1, options=None):
        flow = popart.DataFlow(batches, {self.y: kind or popart.AnchorReturnType("All")})
        session = popart.InferenceSession(self.builder.getModelProto(), flow, popart.DeviceManager().createCpuDevice(),
                                          userOptions=options)
        session.prepareDevice()
        return session

    def training(self, optimizer=None, anchors=None, batches=1, options=None):
        flow = popart.DataFlow(batches, {self.loss: popart.AnchorReturnType("All")} if anchors is None else anchors)
        session = popart.TrainingSession(fnModel=self.builder.getModelProto(), dataFlow=flow, loss=self.loss,
                                         optimizer=optimizer or popart.ConstSGD(0.5),
                                         deviceInfo=popart.DeviceManager().createCpuDevice(), userOptions=options)
        session.prepareDevice()
        session.weightsFromHost()
        return session


def accumulating(factor, reduction=None):
    options = popart.SessionOptions()
    options.enableGradientAccumulation = True
    options.accumulationFactor = factor
    if reduction is not None:
        options.accumulationAndReplicationReductionType = reduction
    return options


def weights_of(session, **arrays):
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


class TestDataFlow:
    def test_anchors_have_return_types(self):
        assert popart.AnchorReturnType("final").id() == popart.AnchorReturnTypeId.Final
        assert popart.AnchorReturnType("EveryN", 4).rp() == 4 and popart.AnchorReturnType("SUM").rp() == 1
        flow = popart.DataFlow(3, {"a": popart.AnchorReturnType("All")})
        assert flow.batchesPerStep() == 3 and flow.anchors() == ["a"] and flow.isAnchored("a")
        assert flow.art("a").id() == popart.AnchorReturnTypeId.All
        assert popart.DataFlow(1, ["a", "b"], popart.AnchorReturnType("Sum")).nAnchors() == 2
        assert popart.DataFlow(1, anchorIds=["a"]).art("a").id() == popart.AnchorReturnTypeId.All

    @pytest.mark.parametrize("make, kind, word", [
        (lambda: popart.AnchorReturnType("Some"), popart.InvalidArgument, "'Some'"),
        (lambda: popart.AnchorReturnType("EveryN"), popart.InvalidArgument, "needs a period"),
        (lambda: popart.AnchorReturnType("EveryN", 0), popart.InvalidArgument, "got 0"),
        (lambda: popart.AnchorReturnType("Final", 2), popart.InvalidArgument, "only EveryN"),
        (lambda: popart.DataFlow(0, []), popart.InvalidArgument, "above 0, got 0"),
        (lambda: popart.DataFlow(1, {"a": "All"}), TypeError, "AnchorReturnType")])
    def test_refuse_what_makes_no_sense(self, make, kind, word):
        with pytest.raises(kind, match=word):
            make()


class TestInference:
    @pytest.mark.parametrize("kind, expected", [
        (("All",), [[3, 6], [9, 12], [15, 18], [21, 24]]), (("EveryN", 2), [[9, 12], [21, 24]]),
        (("Final",), [21, 24]), (("Sum",), [48, 60])])
    def test_brings_anchors_back_by_their_types(self, kind, expected):
        net = Scaled()
        session = net.inference(popart.AnchorReturnType(*kind), 4)
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({net.x: np.arange(1, 9, dtype=np.float32)}, anchors))
        assert anchors[net.y].shape == np.shape(expected) and np.array_equal(anchors[net.y], expected)

    def test_writes_into_the_callers_own_arrays(self):
        net = Scaled()
        session = net.inference(batches=2)
        whole = np.zeros((4, 2), np.float32)
        for target in (whole[:2], whole[::2], whole.T[:, :2]):  # the last two are not contiguous
            whole[:] = -1
            session.run(popart.PyStepIO({net.x: row(1, 2, 3, 4)}, {net.y: target}))
            assert np.array_equal(np.ravel(target), [3, 6, 9, 12])
            assert np.count_nonzero(whole == -1) == 4

    def test_results_of_earlier_steps_stay(self):
        net = Scaled()
        session = net.inference()
        first, second = session.initAnchorArrays(), session.initAnchorArrays()
        session.run(popart.PyStepIO({net.x: row(1, 2)}, first))
        session.run(popart.PyStepIO({net.x: row(5, 5)}, second))
        assert np.array_equal(first[net.y], [3, 6]) and np.array_equal(second[net.y], [15, 15])

    def test_weights_are_constants_unless_asked_otherwise(self):
        net = Scaled()
        constant = net.inference()
        constant.weightsFromHost()
        constant.writeWeights(popart.PyWeightsIO({"w": row(5, 7)}))
        with pytest.raises(popart.InvalidArgument, match="constantWeights"):
            constant.weightsFromHost()
        options = popart.SessionOptions()
        options.constantWeights = False
        session = net.inference(options=options)
        session.writeWeights(popart.PyWeightsIO({"w": row(5, 7)}))
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({net.x: row(1, 2)}, anchors))
        assert np.array_equal(anchors[net.y], [5, 14])

    def test_dropout_passes_everything(self):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [8], "x")
        y = builder.aiOnnx.dropout([builder.aiOnnx.dropout([x], 1, 0.5)[0]], 1, 0.5)[0]
        ones = np.ones(8, np.float32)
        session = popart.InferenceSession(builder, popart.DataFlow(1, [y]))
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: ones}, anchors))
        assert np.array_equal(anchors[y], ones)

    def test_takes_numbers_of_all_types(self):
        for dtype in ("FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64",
                      "UINT64", "BOOL", "BFLOAT16"):
            builder = popart.Builder()
            x = builder.addInputTensor(dtype, [3], "x")
            y = builder.aiOnnx.identity([x])
            session = popart.InferenceSession(builder, popart.DataFlow(1, [y]))
            session.prepareDevice()
            anchors = session.initAnchorArrays()
            value = np.array([0, 1, 1]).astype(anchors[y].dtype)  # bfloat16: its bits
            session.run(popart.PyStepIO({x: value}, anchors))
            assert np.array_equal(anchors[y], value)

    @pytest.mark.parametrize("inputs, outputs, kind, word", [
        ({}, {}, popart.InvalidArgument, "'x' is missing"),
        ({"x": row(1, 2, 3)}, {}, popart.InvalidArgument, "'x'"),
        ({"x": np.ones(2)}, {}, popart.InvalidArgument, "f32"),
        ({"x": row(1, 2)}, {"x": row(1, 2)}, popart.InvalidArgument, "not anchored"),
        ({"x": row(1, 2)}, {"Mul:0": row(1)}, popart.InvalidArgument, "Mul:0"),
        ({"x": row(1, 2)}, {"Mul:0": np.ones(2, np.int32)}, popart.InvalidArgument, "Mul:0"),
        ({"x": row(1, 2)}, {"Mul:0": [0.0, 0.0]}, TypeError, "NumPy array"),
        ({"x": np.array(["a", "b"])}, {}, popart.InvalidArgument, "element type"),
        ({"x": row(1, 2)}, {"Mul:0": np.broadcast_to(row(1), (2,))}, popart.InvalidArgument, "read-only")])
    def test_refuses_arrays_that_do_not_fit(self, inputs, outputs, kind, word):
        session = Scaled().inference()
        with pytest.raises(kind, match=word):
            session.run(popart.PyStepIO(inputs, outputs))
        session.run(popart.PyStepIO({"x": row(1, 2)}, {}))

    def test_uses_the_first_elements_without_runtime_asserts(self):
        session = Scaled().inference()
        io = popart.PyStepIO({"x": row(1, 2, 3, 4)}, {"Mul:0": np.zeros(5, np.float32)})
        io.enableRuntimeAsserts(False)
        session.run(io)
        assert np.array_equal(io._outputs["Mul:0"], [3, 6, 0, 0, 0])


class TestTraining:
    def test_trains_and_brings_the_weights_back(self):
        net = Scaled()
        session = net.training(options=accumulating(2, popart.ReductionType.Mean))
        anchors = session.initAnchorArrays()
        assert anchors[net.loss].shape == (2,) and session.accumulationFactor == 2 and session.replicationFactor == 1
        session.run(popart.PyStepIO({net.x: row(1, 2, 3, 4)}, anchors))
        assert np.array_equal(anchors[net.loss], [4.5, 10.5])
        before = {"w": np.zeros(2, np.float32)}
        session.readWeights(popart.PyWeightsIO(before))
        assert np.array_equal(before["w"], [3, 3])  # the host's copy is from before the step
        assert np.array_equal(weights_of(session, w=np.zeros(2, np.float32))["w"], [3 - 0.5 * 1, 3 - 0.5 * 1.5])

    def test_gradients_are_summed_unless_asked_otherwise(self):
        net = Scaled()
        gradient = popart.reservedGradientPrefix() + net.w
        session = net.training(options=accumulating(2), anchors={gradient: popart.AnchorReturnType("All")})
        anchors = session.initAnchorArrays()
        assert session.getInfo(gradient) == popart.TensorInfo("FLOAT", [2])
        session.run(popart.PyStepIO({net.x: row(1, 2, 3, 4)}, anchors))
        assert np.array_equal(anchors[gradient], [[0.5, 1], [1.5, 2]])
        assert np.array_equal(weights_of(session, w=np.zeros(2, np.float32))["w"], [3 - 0.5 * 2, 3 - 0.5 * 3])

    def test_sessions_of_one_model_have_weights_of_their_own(self):
        net = Scaled()
        first, second = net.training(), net.training()
        first.run(popart.PyStepIO({net.x: row(4, 4)}, {}))
        assert np.array_equal(weights_of(first, w=np.zeros(2, np.float32))["w"], [2, 2])
        assert np.array_equal(weights_of(second, w=np.zeros(2, np.float32))["w"], [3, 3])

    def test_writes_models_and_takes_their_weights(self, tmp_path):
        net = Scaled()
        session = net.training()
        session.run(popart.PyStepIO({net.x: row(4, 4)}, {}))
        session.modelToHost(tmp_path / "trained.onnx")
        other = net.training()
        other.resetHostWeights(str(tmp_path / "trained.onnx"))
        other.weightsFromHost()
        for each in (session, other):
            each.run(popart.PyStepIO({net.x: row(2, 2)}, {}))
            assert np.array_equal(weights_of(each, w=np.zeros(2, np.float32))["w"], [1.5, 1.5])
        again = popart.Builder(str(tmp_path / "trained.onnx"))
        assert again.getTrainableTensorIds() == ["w"]
        assert np.array_equal(again._core.start_value("w").array(), [2, 2])
        stranger = popart.Builder()
        stranger.addInitializedInputTensor(row(1), "v")
        with pytest.raises(popart.InvalidArgument, match="'v'"):
            other.resetHostWeights(stranger)
        other.resetHostWeights(stranger, True)

    def test_a_file_of_a_trained_model_without_outputs_serves_inference_by_the_same_names(self, tmp_path):
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
        w = builder.addInitializedInputTensor(row(3, 3))
        y = builder.aiOnnx.mul([x, w])
        loss = builder.aiGraphcore.identityloss([builder.aiOnnx.abs([y])], popart.ReductionType.Sum)
        device = popart.DeviceManager().createCpuDevice()
        session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss,
                                         popart.ConstSGD(0.5), device)
        session.prepareDevice()
        session.weightsFromHost()
        session.run(popart.PyStepIO({x: row(1, 2)}, session.initAnchorArrays()))  # w = 3 - 0.5 * (1, 2)
        session.modelToHost(tmp_path / "trained.onnx")
        trained = popart.InferenceSession(str(tmp_path / "trained.onnx"), popart.DataFlow(1, [y]), device)
        trained.prepareDevice()
        anchors = trained.initAnchorArrays()
        trained.run(popart.PyStepIO({x: row(1, 10)}, anchors))
        assert anchors[y].tolist() == [2.5, 20]

    def test_programs_are_exported_and_loaded_instead_of_compiled(self, tmp_path):
        net = Scaled()
        session = net.training()
        session.compileAndExport(tmp_path / "program.slx")
        loaded = popart.TrainingSession(net.builder.getModelProto(), popart.DataFlow(1, [net.loss]), net.loss,
                                        popart.ConstSGD(0.5), popart.DeviceManager().createCpuDevice())
        loaded.loadExecutable(tmp_path / "program.slx")
        loaded.prepareDevice()
        loaded.weightsFromHost()
        assert session._core.model.compilation_time > 0 and loaded._core.model.compilation_time == 0
        for each in (session, loaded):
            each.run(popart.PyStepIO({net.x: row(4, 2)}, each.initAnchorArrays()))
            assert weights_of(each, w=np.zeros(2, np.float32))["w"].tolist() == [2, 2.5]
        with pytest.raises(popart.FileError, match="none.slx"):
            popart.InferenceSession(net.builder, popart.DataFlow(1, [net.y])).loadExecutable(tmp_path / "none.slx")

    def test_a_program_with_other_weights_as_constants_is_not_loaded(self, tmp_path):
        def session_of(value, constant=True):
            builder = popart.Builder()
            x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
            y = builder.aiOnnx.mul([x, builder.addInitializedInputTensor(row(value, value))])
            builder.addOutputTensor(y)
            options = popart.SessionOptions()
            options.constantWeights = constant
            return x, y, popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]),
                                                 popart.DeviceManager().createCpuDevice(), userOptions=options)

        session_of(3)[2].compileAndExport(tmp_path / "three.slx")
        x, y, five = session_of(5)
        with pytest.raises(popart.InvalidArgument, match="other weights as constants"):
            five.loadExecutable(tmp_path / "three.slx")
        with pytest.raises(popart.InvalidArgument, match="weights that may change"):
            session_of(3, constant=False)[2].loadExecutable(tmp_path / "three.slx")
        five.prepareDevice()
        anchors = five.initAnchorArrays()
        five.run(popart.PyStepIO({x: row(1, 2)}, anchors))
        assert anchors[y].tolist() == [5, 10]

    def test_programs_are_kept_where_engines_are_cached(self, tmp_path):
        options = popart.SessionOptions()
        options.enableEngineCaching = True
        options.cachePath = tmp_path / "cache"
        results = []
        for _ in range(2):
            session = Scaled().inference(options=options)
            anchors = session.initAnchorArrays()
            session.run(popart.PyStepIO({"x": row(1, 2)}, anchors))
            results.append([*anchors.values()][0].tolist())
        assert results == [[3, 6], [3, 6]] and len(list((tmp_path / "cache").glob("*.slc"))) == 1

    def test_resumes_from_bytes_of_other_tools(self):
        net = Scaled()
        net.builder.addOutputTensor(net.loss)
        session = popart.TrainingSession(bytes(net.builder.getModelProto()), popart.DataFlow(1, [net.loss]), net.loss,
                                         popart.ConstSGD(0.5))
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({net.x: row(4, 4)}, anchors))
        assert anchors[net.loss] == 12
        assert np.array_equal(weights_of(session, w=np.zeros(2, np.float32))["w"], [2, 2])

    def test_the_seed_determines_dropout(self):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [64], "x")
        w = builder.addInitializedInputTensor(np.ones(64, np.float32), "w")
        y, mask = builder.aiOnnx.dropout([builder.aiOnnx.mul([x, w])], 2, 0.5)
        loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
        session = popart.TrainingSession(builder, popart.DataFlow(1, [y, mask]), loss, popart.ConstSGD(0.0))
        session.prepareDevice()
        seen = []
        for seed in (1, 1, 2):
            session.setRandomSeed(seed)
            anchors = session.initAnchorArrays()
            session.run(popart.PyStepIO({x: np.ones(64, np.float32)}, anchors))
            assert np.array_equal(anchors[y], 2 * anchors[mask])  # a mask belongs to its dropout
            seen.append(anchors[mask].tolist())
        assert seen[0] == seen[1] != seen[2] and 16 < sum(seen[0]) < 48
        state = session.getRNGState()
        session.setRNGState(state)
        assert session.getRNGState() == state == [2, 1]

    @pytest.mark.parametrize("call, kind, word", [
        (lambda n, s: s.readWeights(popart.PyWeightsIO({"ww": row(1)})), popart.InvalidArgument, "did you mean w"),
        (lambda n, s: s.readWeights(popart.PyWeightsIO({"w": row(1)})), popart.InvalidArgument, r"float32\[2\]"),
        (lambda n, s: s.writeWeights(popart.PyWeightsIO({"w": np.ones(2)})), popart.InvalidArgument, "float64"),
        (lambda n, s: s.getInfo("z"), popart.InvalidArgument, "'z'"),
        (lambda n, s: s.run(None), TypeError, "PyStepIO"),
        (lambda n, s: s.loadExecutable("x"), popart.InvalidArgument, "before prepareDevice"),
        (lambda n, s: s.getSerializedGraph(), NotImplementedError, "modelToHost"),
        (lambda n, s: s.weightsToHosts(), AttributeError, "weightsToHost"),
        (lambda n, s: s.modelToHost("/no/such/folder/x.onnx"), popart.FileError, "cannot be written"),
        (lambda n, s: s.updateOptimizerFromHost(3), TypeError, "optimizer")])
    def test_errors_have_their_kinds(self, call, kind, word):
        net = Scaled()
        session = net.training()
        with pytest.raises(kind, match=word):
            call(net, session)

    @pytest.mark.parametrize("make, kind, word", [
        (lambda n: popart.TrainingSession(n.builder, popart.DataFlow(1), "z", popart.ConstSGD(1)),
         popart.InvalidArgument, "'z'"),
        (lambda n: popart.TrainingSession(n.builder, popart.DataFlow(1, ["z"]), n.loss, popart.ConstSGD(1)),
         popart.InvalidArgument, "'z'"),
        (lambda n: popart.TrainingSession(n.builder, popart.DataFlow(1), n.loss, "SGD"), TypeError, "optimizer"),
        (lambda n: popart.TrainingSession(n.builder, 4, n.loss, popart.ConstSGD(1)), TypeError, "DataFlow"),
        (lambda n: popart.InferenceSession(b"?", popart.DataFlow(1)), popart.FileError, "model"),
        (lambda n: popart.InferenceSession("/no/model.onnx", popart.DataFlow(1)), OSError, "model.onnx"),
        (lambda n: popart.InferenceSession(n.builder, popart.DataFlow(1), userOptions={}), TypeError, "SessionOptions"),
        (lambda n: n.inference(options=accumulating(2)), popart.InvalidArgument, "ccumulat")])
    def test_sessions_refuse_what_makes_no_sense(self, make, kind, word):
        with pytest.raises(kind, match=word):
            make(Scaled())

    def test_must_be_prepared(self):
        net = Scaled()
        session = popart.InferenceSession(net.builder, popart.DataFlow(1, [net.y]))
        for call in (session.initAnchorArrays, session.weightsToHost, session.loadEngineAndConnectStreams,
                     lambda: session.run(popart.PyStepIO({}, {}))):
            with pytest.raises(popart.InvalidArgument, match="prepareDevice"):
                call()

    def test_reports_show_weights_and_plan(self):
        report = Scaled().training().getSummaryReport()
        assert "w" in report and len(report) > 50


class TestCallbacks:
    def io(self, net, given, taken, done):
        inputs = iter(given)
        return popart.PyStepIOCallback(
            lambda name, prefetch: next(inputs), lambda name: done.append(("in", name)),
            lambda name: taken.append(np.zeros(2, np.float32)) or taken[-1], lambda name: done.append(("out", name)))

    def test_feed_and_fetch_one_micro_batch_at_a_time(self):
        net = Scaled()
        session = net.inference(batches=3)
        taken, done = [], []
        session.run(self.io(net, [row(i, i) for i in range(3)], taken, done))
        assert np.array_equal(taken, [[0, 0], [3, 3], [6, 6]])
        assert done == [("in", net.x)] * 3 + [("out", net.y)] * 3

    def test_may_refill_one_array(self):
        net = Scaled()
        session = net.inference(batches=3)
        array = np.zeros(2, np.float32)
        results = []

        def fill(name, prefetch):
            array[:] += 1
            return array

        session.run(popart.PyStepIOCallback(fill, lambda name: None, lambda name: array,
                                            lambda name: results.append(array[0])))
        assert results == [3, 6, 9]

    @pytest.mark.parametrize("which", range(4))
    def test_their_exceptions_reach_the_caller(self, which):
        net = Scaled()
        session = net.inference(batches=2)

        class Mine(Exception):
            pass

        def fail(*args):
            raise Mine("mine")

        calls = [lambda name, prefetch: row(1, 1), lambda name: None, lambda name: np.zeros(2, np.float32),
                 lambda name: None]
        with pytest.raises(Mine, match="mine"):
            session.run(popart.PyStepIOCallback(*[fail if i == which else each for i, each in enumerate(calls)]))
        session.run(popart.PyStepIOCallback(*calls))
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({net.x: row(1, 2, 3, 4)}, anchors))
        assert np.array_equal(anchors[net.y], [[3, 6], [9, 12]])

    def test_their_arrays_are_checked(self):
        session = Scaled().inference()
        nothing = lambda *args: None  # noqa: E731
        with pytest.raises(popart.InvalidArgument, match=r"input_callback: 'x' is float32\[2\].*int64"):
            session.run(popart.PyStepIOCallback(lambda name, prefetch: np.ones(2, np.int64), nothing, nothing, nothing))
        with pytest.raises(popart.InvalidArgument, match="output_callback.*NoneType"):
            session.run(popart.PyStepIOCallback(lambda name, prefetch: row(1, 2), nothing, nothing, nothing))


@contextlib.contextmanager
def alarm(seconds):
    """A signal whose handler raises KeyboardInterrupt, as Ctrl-C does."""

    def ring(number, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def endless():
    """A session whose step would take many minutes."""
    builder = popart.Builder()
    a = builder.aiOnnx.randomnormal([1024, 1024])
    y = builder.aiOnnx.reducesum([builder.aiOnnx.matmul([a, a])])
    session = popart.InferenceSession(builder, popart.DataFlow(5_000, {y: popart.AnchorReturnType("Final")}))
    session.prepareDevice()
    return session


class TestThreads:
    def test_several_run_one_session(self):
        net = Scaled()
        session = net.inference(batches=2)
        results = {}

        def call(i):
            anchors = session.initAnchorArrays()
            for _ in range(20):
                session.run(popart.PyStepIO({net.x: np.full(4, i, np.float32)}, anchors))
            results[i] = anchors[net.y].tolist()

        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert results == {i: [[3 * i, 3 * i]] * 2 for i in range(4)}

    def test_others_go_on_while_a_step_runs(self):
        session = endless()
        errors = []

        def call():
            try:
                session.run(popart.PyStepIO({}, {}))
            except popart.Error as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        while not errors:  # this thread can only get here while the step has let go of the interpreter
            session._core.model.cancel()
        thread.join()
        assert isinstance(errors[0], popart.Cancelled)

    def test_others_see_the_layout_when_a_step_has_ended(self):
        session = endless()
        errors, seen = [], []

        def call():
            try:
                session.run(popart.PyStepIO({}, {}))
            except popart.Error as error:
                errors.append(error)

        def look():
            while not errors:
                seen.append(session._core.layout)

        threads = [threading.Thread(target=each) for each in (call, look)]
        for each in threads:
            each.start()
        while not errors:  # as above, though the other thread waits for the step
            session._core.model.cancel()
        for each in threads:
            each.join()
        assert isinstance(errors[0], popart.Cancelled)
        assert all(len(each) == 4 for each in seen)

    def test_an_interrupt_ends_a_step(self):
        session = endless()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                with alarm(0.2):
                    session.run(popart.PyStepIO({}, {}))
        net = Scaled()
        anchors = net.inference().initAnchorArrays()
        net.inference().run(popart.PyStepIO({net.x: row(1, 2)}, anchors))
        assert np.array_equal(anchors[net.y], [3, 6])
