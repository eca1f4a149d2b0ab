"""Optimizers of sluice.popart against NumPy, and programs in the way of PopART's guides."""

import contextlib
import math

import numpy as np
import pytest

import sluice.popart as popart
from sluice import _core


W0 = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
BATCHES = np.random.default_rng(0).normal(size=(5, 4, 3))


def trained(optimizer, steps=5, updates=()):
    """The weights after some steps of 0.5 mean(y²) for y = x w^T, in float64."""
    builder = popart.Builder()
    x = builder.addInputTensor("DOUBLE", [4, 3], "x")
    w = builder.addInitializedInputTensor(W0, "w")
    y = builder.aiOnnx.matmul([x, builder.aiOnnx.transpose([w])])
    loss = builder.aiGraphcore.identityloss([builder.aiGraphcore.scale([builder.aiGraphcore.square([y])], 0.5)])
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1), loss, optimizer,
                                     popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    session.weightsFromHost()
    for step in range(steps):
        if step in dict(updates):
            session.updateOptimizerFromHost(dict(updates)[step])
        session.run(popart.PyStepIO({x: BATCHES[step]}, {}))
    result = {"w": np.zeros_like(W0)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(result))
    return result["w"]


def gradient(w, step):
    x = BATCHES[step]
    return (x @ w.T).T @ x / (4 * 2)


def by_numpy(rule, steps=5):
    w, state = W0.copy(), {}
    for step in range(steps):
        w = rule(w, gradient(w, step), state, step + 1)
    return w


class TestOptimizers:
    def test_const_sgd(self):
        expected = by_numpy(lambda w, g, s, t: w - 0.1 * (g + 0.01 * w))
        assert np.allclose(trained(popart.ConstSGD(0.1, weight_decay=0.01)), expected, rtol=1e-12)

    @pytest.mark.parametrize("kind", popart.SGDAccumulatorAndMomentum)
    def test_sgd_with_momentum(self, kind):
        def rule(w, g, s, t):  # PopART dampens from the first step on
            s["v"] = 0.9 * s.get("v", 0) + (1 - 0.5) * (g + 0.01 * w)
            return w - 0.1 * s["v"]

        values = {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True), "defaultDampening": (0.5, True),
                  "defaultWeightDecay": (0.01, False), "lossScaling": (64.0, False)}
        made = popart.SGD(values, accumulatorAndMomentum=kind)
        assert made.getLossScalingVal() == 64 and made.momentums().val() == 0.9
        assert not made.learningRates().isConst()
        assert np.allclose(trained(made), by_numpy(rule), rtol=1e-10)

    @pytest.mark.parametrize("mode, decay", [("Decay", 0.05), ("L2Regularization", 0.05), ("Decay", 0.0)])
    @pytest.mark.parametrize("corrected", [True, False])
    def test_adam(self, mode, decay, corrected):
        def rule(w, g, s, t):
            g = g + decay * w if mode != "Decay" else g
            s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
            s["v"] = 0.99 * s.get("v", 0) + 0.01 * g * g
            m, v = (s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.99**t)) if corrected else (s["m"], s["v"])
            return w - 0.02 * (m / (np.sqrt(v) + 1e-6) + (decay * w if mode == "Decay" else 0))

        made = popart.Adam({"defaultLearningRate": (0.02, False), "defaultBeta1": (0.9, True),
                            "defaultBeta2": (0.99, True), "defaultWeightDecay": (decay, False)},
                           popart.AdamMode.Adam if corrected else popart.AdamMode.AdamNoBias,
                           popart.WeightDecayMode[mode], accl1_type="UNDEFINED", accl2_type="UNDEFINED")
        assert np.allclose(trained(made), by_numpy(rule), rtol=1e-9)

    def test_lamb(self):
        def rule(w, g, s, t):
            s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
            s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
            u = (s["m"] / (1 - 0.9**t)) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-6) + 0.01 * w
            return w - 0.02 * min(np.linalg.norm(w), 10.0) / np.linalg.norm(u) * u

        made = popart.Adam({"defaultLearningRate": (0.02, False), "defaultWeightDecay": (0.01, False)},
                           popart.AdamMode.Lamb, accl1_type="UNDEFINED", accl2_type="UNDEFINED")
        assert np.allclose(trained(made), by_numpy(rule), rtol=1e-6)

    @pytest.mark.parametrize("centered", [False, True])
    def test_rmsprop(self, centered):
        def rule(w, g, s, t):
            s["v"] = 0.9 * s.get("v", 0) + 0.1 * g * g
            s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
            d = s["v"] - s["m"] ** 2 if centered else s["v"]
            return w - 0.02 * g / (np.sqrt(d) + 1e-6)

        mode = popart.AdaptiveMode.CenteredRMSProp if centered else popart.AdaptiveMode.RMSProp
        made = popart.Adaptive({"defaultLearningRate": (0.02, False), "defaultAlpha": (0.9, True)}, mode,
                               accl1_type="UNDEFINED", accl2_type="UNDEFINED")
        assert np.allclose(trained(made), by_numpy(rule), rtol=1e-8)

    def test_gradients_are_clipped_to_a_norm(self):
        def rule(w, g, s, t):
            return w - 0.1 * g * min(1.0, 0.3 / np.linalg.norm(g))

        made = popart.ConstSGD(0.1, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(0.3)])
        assert np.allclose(trained(made), by_numpy(rule), rtol=1e-5)

    def test_weights_may_have_their_own_values(self):
        made = popart.SGD({"defaultLearningRate": (7.0, False)})
        made.insertSpecific("w", {"learningRate": (0.1, False)})
        assert np.allclose(trained(made), by_numpy(lambda w, g, s, t: w - 0.1 * g), rtol=1e-12)
        with pytest.raises(popart.InvalidArgument, match="did you mean learningRate"):
            made.insertSpecific("w", {"learningRates": (0.1, False)})

    def test_variable_values_change_between_steps(self):
        first, then = (popart.SGD({"defaultLearningRate": (rate, False)}) for rate in (0.1, 0.02))
        expected = by_numpy(lambda w, g, s, t: w - (0.1 if t <= 2 else 0.02) * g)
        assert np.allclose(trained(first, updates=[(2, then)]), expected, rtol=1e-12)

    @pytest.mark.parametrize("first, then, word", [
        ({"defaultLearningRate": (0.1, True)}, {"defaultLearningRate": (0.2, True)}, "learning rate is constant"),
        ({"defaultMomentum": (0.5, True)}, {"defaultMomentum": (0.6, True)}, "momentum")])
    def test_constant_values_do_not(self, first, then, word):
        with pytest.raises(popart.InvalidArgument, match=word):
            trained(popart.SGD(first), updates=[(1, popart.SGD(then))])

    @pytest.mark.parametrize("make, kind, word", [
        (lambda: popart.SGD({"learningRate": (0.1, True)}), popart.InvalidArgument, "defaultLearningRate"),
        (lambda: popart.Adam({}, popart.AdamMode.AdaMax), popart.Unsupported, "AdaMax"),
        (lambda: popart.Adaptive({}, popart.AdaptiveMode.AdaGrad), popart.Unsupported, "AdaGrad"),
        (lambda: popart.Adaptive({"defaultWeightDecay": (0.1, True)}), popart.Unsupported, "L2Regularization"),
        (lambda: popart.Adam({}, popart.AdamMode.Lamb, popart.WeightDecayMode.L2Regularization),
         popart.Unsupported, "LAMB"),
        (lambda: popart.ConstSGD(0.1, clip_norm_settings=[popart.ClipNormSettings(["w"], 1)]),
         popart.Unsupported, "clipAll")])
    def test_others_are_refused(self, make, kind, word):
        with pytest.raises(kind, match=word):
            make()


class Layers:
    """Layers of x <- relu(x w) and an L1 loss, placed by `place(builder, i)`."""

    COUNT, BATCH, SIZE, ACCUMULATION = 4, 2, 8, 6

    def __init__(self, place, loss_place=None):
        random = np.random.default_rng(1)
        self.builder = popart.Builder()
        value = self.builder.addInputTensor(popart.TensorInfo("FLOAT", [self.BATCH, self.SIZE]), "x")
        for i in range(self.COUNT):
            w = random.normal(size=(self.SIZE, self.SIZE)).astype(np.float32) / math.sqrt(self.SIZE)
            with place(self.builder, i):
                name = self.builder.addInitializedInputTensor(w, f"w{i}")
                value = self.builder.aiOnnx.relu([self.builder.aiOnnx.matmul([value, name])])
        with (loss_place or place)(self.builder, self.COUNT - 1):
            self.loss = self.builder.aiGraphcore.l1loss([value], 0.1)
        self.out = value

    def train(self, options, devices):
        options.enableGradientAccumulation = True
        options.accumulationFactor = self.ACCUMULATION
        session = popart.TrainingSession(
            self.builder.getModelProto(), popart.DataFlow(2, {self.loss: popart.AnchorReturnType("All")}), self.loss,
            popart.ConstSGD(0.05), popart.DeviceManager().acquireAvailableDevice(devices), userOptions=options)
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        x = np.random.default_rng(2).normal(size=(2, self.ACCUMULATION, self.BATCH, self.SIZE)).astype(np.float32)
        session.run(popart.PyStepIO({"x": x}, anchors))
        weights = {f"w{i}": np.zeros((self.SIZE, self.SIZE), np.float32) for i in range(self.COUNT)}
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(weights))
        return [anchors[self.loss], *weights.values()]


def nowhere(builder, i):
    return contextlib.nullcontext()


def same_bits(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second)) and len(first) == len(second)


class TestGuides:
    @pytest.fixture(scope="class")
    def on_one_device(self):
        return Layers(nowhere).train(popart.SessionOptions(), 1)

    def pipelined(self):
        options = popart.SessionOptions()
        options.enablePipelining = True
        options.virtualGraphMode = popart.VirtualGraphMode.Manual
        return options

    def test_a_pipeline_by_scopes_has_the_bits_of_one_device(self, on_one_device):
        class Both:
            def __init__(self, builder, i):
                self.scopes = [builder.virtualGraph(i // 2), builder.pipelineStage(i // 2)]

            def __enter__(self):
                [each.__enter__() for each in self.scopes]

            def __exit__(self, *error):
                [each.__exit__(*error) for each in reversed(self.scopes)]

        assert same_bits(Layers(Both).train(self.pipelined(), 2), on_one_device)

    def test_a_model_of_the_same_ops_has_the_same_bits(self, on_one_device):
        random = np.random.default_rng(1)
        root = _core.Module(kind="Net")
        weights = [root.add_parameter(f"w{i}", _core.HostTensor(
            random.normal(size=(Layers.SIZE, Layers.SIZE)).astype(np.float32) / math.sqrt(Layers.SIZE)))
            for i in range(Layers.COUNT)]

        def forward(tensors):
            value = tensors[0]
            with _core.ModuleScope(root):
                for weight in weights:
                    value = _core.op("relu", [_core.functions.matmul(value, weight.use())])[0]
                mean, = _core.op("reduce_mean", _core.op("abs", [value]))
                return [_core.op("mul", [mean, _core.scalar(0.1, "float32")])[0]]

        options = _core.Options()
        options.apply("deviceIterations", 2)
        options.apply("training.gradientAccumulation", Layers.ACCUMULATION)
        options.apply("training.accumulationAndReplicationReductionType", "Sum")
        options.apply("outputMode", _core.Name("OutputMode.All"))
        model = _core.Model(root, forward, ["x"], options, _core.Optimizer("SGD", lr=0.05))
        x = np.random.default_rng(2).normal(size=(2 * Layers.ACCUMULATION * Layers.BATCH, Layers.SIZE))
        loss, = model.run([_core.HostTensor(x.astype(np.float32))])
        found = [loss.array().reshape(2, -1), *(model.read(f"w{i}").array() for i in range(Layers.COUNT))]
        assert same_bits(found, on_one_device)

    def test_stages_follow_from_virtual_graphs(self, on_one_device):
        net = Layers(lambda builder, i: builder.virtualGraph(i // 2))
        assert same_bits(net.train(self.pipelined(), 2), on_one_device)

    def test_a_pipeline_by_tensors_after_the_fact(self):
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", [1, 2, 4, 4]), "x")
        w = builder.addInitializedInputTensor(np.ones((3, 2, 2, 2), np.float32), "w")
        o = builder.aiOnnx.conv([x, w])
        builder.pipelineStage(o, 1)
        assert builder.getPipelineStage(o) == 1
        with builder.pipelineStage(1):
            again = builder.aiOnnx.conv([x, w])
        assert builder.getPipelineStage(again) == 1

    def test_partial_annotation_is_an_error(self):
        net = Layers(lambda builder, i: builder.virtualGraph(i // 2))
        net.builder.pipelineStage(net.out, 1)
        with pytest.raises(popart.InvalidArgument, match="stage"):
            net.train(self.pipelined(), 2)

    def test_pipelining_needs_virtual_graphs(self):
        options = popart.SessionOptions()
        options.enablePipelining = True
        with pytest.raises(popart.InvalidArgument, match="virtualGraphMode"):
            Layers(nowhere).train(options, 2)

    def test_graphs_are_cut_automatically(self, on_one_device):
        options = self.pipelined()
        options.virtualGraphMode = popart.VirtualGraphMode.Auto
        assert same_bits(Layers(nowhere).train(options, 2), on_one_device)

    def test_recomputation_changes_no_bit(self, on_one_device):
        options = popart.SessionOptions()
        options.autoRecomputation = popart.RecomputationType.Standard
        assert same_bits(Layers(nowhere).train(options, 1), on_one_device)

    def test_replicas_share_the_batches(self):
        options = popart.SessionOptions()
        options.enableReplicatedGraphs = True
        options.replicatedGraphCount = 2
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [2], "x")
        w = builder.addInitializedInputTensor(np.array([3, 3], np.float32), "w")
        loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], popart.ReductionType.Sum)
        device = popart.DeviceManager().acquireAvailableDevice(2)
        session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss,
                                         popart.ConstSGD(0.5), device, userOptions=options)
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        assert anchors[loss].shape == (2,) and session.replicationFactor == 2
        session.run(popart.PyStepIO({x: np.array([[1, 2], [3, 4]], np.float32)}, anchors))
        assert np.array_equal(anchors[loss], [9, 21])
        weights = {"w": np.zeros(2, np.float32)}
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(weights))
        assert np.array_equal(weights["w"], [3 - 0.5 * 4, 3 - 0.5 * 6])  # gradients are summed

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_phases_over_two_devices_have_the_bits_of_shards(self, dtype):
        """Inference of a chain of products, whose weights are in remote memory, in turns on two devices."""

        def run(phased):
            random = np.random.default_rng(3)
            builder = popart.Builder()
            x = builder.addInputTensor(popart.TensorInfo(dtype, [4, 16, 16]), "x")
            value = x
            for i in range(4):
                w = builder.addInitializedInputTensor((random.normal(size=(16, 16)) / 4).astype(dtype), f"w{i}")
                with builder.executionPhase(i) if phased else builder.virtualGraph(i % 2):
                    if phased:
                        with builder.virtualGraph(i % 2):
                            value = builder.aiOnnx.matmul([value, w])
                    else:
                        value = builder.aiOnnx.matmul([value, w])
            builder.addOutputTensor(value)
            options = popart.SessionOptions()
            options.constantWeights = False
            options.virtualGraphMode = popart.VirtualGraphMode.Manual
            pattern = popart.SyncPattern.Full
            if phased:
                pattern = popart.SyncPattern.ReplicaAndLadder
                options.virtualGraphMode = popart.VirtualGraphMode.ExecutionPhases
                options.executionPhaseSettings.phases = 4
                off = popart.TensorLocation(popart.TensorStorage.OffChip)
                options.weightTensorLocationSettings = popart.TensorLocationSettings(off, 0, 0)
            device = popart.DeviceManager().acquireAvailableDevice(2, pattern=pattern)
            session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(3, [value]), device,
                                              userOptions=options)
            session.prepareDevice()
            session.weightsFromHost()
            anchors = session.initAnchorArrays()
            data = random.normal(size=(3, 4, 16, 16)).astype(dtype)
            session.run(popart.PyStepIO({x: data}, anchors))
            return anchors[value], data

        value, data = run(True)
        shards, _ = run(False)
        assert value.dtype == dtype and np.array_equal(value, shards)
        expected, random = data.astype(np.float64), np.random.default_rng(3)
        for _ in range(4):
            expected = expected @ (random.normal(size=(16, 16)) / 4).astype(dtype).astype(np.float64)
        tolerance = 0.02 if dtype == "float16" else 1e-4
        assert np.allclose(value, expected, rtol=tolerance, atol=tolerance)
