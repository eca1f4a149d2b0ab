"""The ops of PopART's own domain, against NumPy and cases worked out by hand."""

import math

import numpy as np
import pytest

import sluice.popart as popart
from popart_support import C, IMAGE, KERNEL, X, Y, compute, conv2d, f32, log_softmax, run
from sluice import _core
from sluice.popart import graphcore_ops

I32 = np.array([[5, 3, 12], [7, 0, 9]], np.int32)
J32 = np.array([[3, 6, 10], [1, 2, 4]], np.int32)


def mutable_weights():
    options = popart.SessionOptions()
    options.constantWeights = False
    return options


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def group_norm(x, groups=2, epsilon=1e-5):
    rows = x.reshape(groups, -1)
    return ((rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + epsilon)).reshape(x.shape)


SUM = popart.ReductionType.Sum
PROBABILITIES = np.exp(log_softmax(X))
ONES = np.ones(2, np.float32)
ZEROS = np.zeros(2, np.float32)
STEPS = np.log(np.full((4, 1, 3), 1 / 3, np.float32))


def scattered(x, index, size):
    result = np.zeros((x.shape[0], size), np.float32)
    np.add.at(result, (np.arange(x.shape[0])[:, None], index), x)
    return result


def lstm_by_hand(x, weights, biases=None, state=None):
    """All outputs and the last cell state; the gates are forget, input, candidate and output."""
    hidden = weights.shape[2]
    biases = np.zeros((4, hidden)) if biases is None else biases
    h, c = np.zeros((2, x.shape[1], hidden)) if state is None else state
    outputs = []
    for row in x:
        forget, enter, new, out = np.einsum("bi,gih->gbh", np.concatenate([row, h], 1), weights) + biases[:, None]
        c = c / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-enter))
        h = np.tanh(c) / (1 + np.exp(-out))
        outputs.append(h)
    return np.stack(outputs), c


LSTM_X, LSTM_W, LSTM_B, LSTM_STATE = (
    np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    for seed, shape in enumerate([(5, 2, 3), (4, 3 + 4, 4), (4, 4), (2, 2, 4)]))


#: (PopART's name, what the builder makes, what NumPy makes, the arrays)
GRAPHCORE_CASES = [
    ("atan2", lambda b, x: b.aiGraphcore.atan2(x), np.arctan2, [X, Y]),
    ("batchnormalization", lambda b, x: b.aiGraphcore.batchnormalization(x, 1)[0],
     lambda x, s, t, m, v: x / np.sqrt(1 + 1e-5), [IMAGE, ONES, ZEROS, ZEROS, ONES]),
    ("bitwiseand", lambda b, x: b.aiGraphcore.bitwiseand(x), np.bitwise_and, [I32, J32]),
    ("bitwisenot", lambda b, x: b.aiGraphcore.bitwisenot(x), np.bitwise_not, [I32]),
    ("bitwiseor", lambda b, x: b.aiGraphcore.bitwiseor(x), np.bitwise_or, [I32, J32]),
    ("bitwisexnor", lambda b, x: b.aiGraphcore.bitwisexnor(x), lambda x, y: ~(x ^ y), [I32, J32]),
    ("bitwisexor", lambda b, x: b.aiGraphcore.bitwisexor(x), np.bitwise_xor, [I32, J32]),
    ("bucketize", lambda b, x: b.aiGraphcore.bucketize([*x, C(b, [0, 1, 2], np.float32)]),
     lambda x: np.searchsorted([0, 1, 2], x), [X]),
    ("ctcloss", lambda b, x: b.aiGraphcore.ctcloss([*x, C(b, [[1, 2]]), C(b, [4]), C(b, [2])], SUM),
     lambda x: np.float32(-math.log(15 / 3**4)), [STEPS]),  # 15 paths of 4 steps read "1 2"
    ("depthtospace", lambda b, x: b.aiGraphcore.depthtospace(x, 1), lambda x: x, [IMAGE]),
    ("detach", lambda b, x: b.aiGraphcore.detach(x), lambda x: x, [X]),
    ("dynamicadd", lambda b, x: b.aiGraphcore.dynamicadd([x[0], C(b, [1]), x[1]], axes=[0], sizes=[1]),
     lambda x, y: np.stack([x[0], x[1] + y[0]]), [X, Y[:1].copy()]),
    ("dynamicslice", lambda b, x: b.aiGraphcore.dynamicslice([*x, C(b, [1])], axes=[1], sizes=[2]),
     lambda x: x[:, 1:3], [X]),
    ("dynamicupdate", lambda b, x: b.aiGraphcore.dynamicupdate([x[0], C(b, [1]), x[1]], axes=[0], sizes=[1]),
     lambda x, y: np.stack([x[0], y[0]]), [X, Y[:1].copy()]),
    ("dynamiczero", lambda b, x: b.aiGraphcore.dynamiczero([*x, C(b, [0])], axes=[0], sizes=[1]),
     lambda x: x * [[0], [1]], [X]),
    ("expm1", lambda b, x: b.aiGraphcore.expm1(x), np.expm1, [X]),
    ("fmod", lambda b, x: b.aiGraphcore.fmod(x), np.fmod, [X, Y]),
    ("gelu", lambda b, x: b.aiGraphcore.gelu(x), gelu, [X]),
    ("geluerf", lambda b, x: b.aiGraphcore.geluerf(x),
     lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))), [X]),
    ("groupnormalization", lambda b, x: b.aiGraphcore.groupnormalization(x, 2)[0],
     lambda x, s, t: group_norm(x), [IMAGE, ONES, ZEROS]),
    ("histogram", lambda b, x: b.aiGraphcore.histogram(x, [0.0, 1.0]), lambda x: np.array([2, 1, 3]), [X]),
    ("identityloss", lambda b, x: b.aiGraphcore.identityloss(x, popart.ReductionType.Sum), np.sum, [X]),
    ("incrementmod", lambda b, x: b.aiGraphcore.incrementmod(x, 1.0, 3.0), lambda x: (x + 1) % 3, [np.abs(X)]),
    ("init", lambda b, x: b.aiGraphcore.init([2, 3], popart.DataType.FLOAT, popart.InitType.Zero),
     lambda: np.zeros((2, 3)), []),
    ("l1loss", lambda b, x: b.aiGraphcore.l1loss(x, 0.5), lambda x: 0.5 * np.abs(x).mean(), [X]),
    ("log1p", lambda b, x: b.aiGraphcore.log1p(x), np.log1p, [np.abs(X)]),
    ("multiconv", lambda b, x: b.aiGraphcore.multiconv([x, x], pads=[[], [1, 1, 1, 1]])[0], conv2d, [IMAGE, KERNEL]),
    ("nllloss", lambda b, x: b.aiGraphcore.nllloss([*x, C(b, [0, 2])], ignoreIndex=2),
     lambda p: -np.log(p[0, 0]), [PROBABILITIES]),
    ("nop", lambda b, x: b.aiGraphcore.nop(x), lambda x: x, [X]),
    ("printtensor", lambda b, x: b.aiGraphcore.printtensor(x, title="x"), lambda x: x, [X]),
    ("remainder", lambda b, x: b.aiGraphcore.remainder(x), np.remainder, [X, Y]),
    ("replicatedallgather", lambda b, x: b.aiGraphcore.replicatedallgather(x, 1), np.ravel, [X]),
    ("replicatedallreduce", lambda b, x: b.aiGraphcore.replicatedallreduce(x), lambda x: x, [X]),
    ("replicatedreducescatter", lambda b, x: b.aiGraphcore.replicatedreducescatter(x, replicas=1), np.ravel, [X]),
    ("reshape", lambda b, x: b.aiGraphcore.reshape(x, [3, 2]), lambda x: x.reshape(3, 2), [X]),
    ("reverse", lambda b, x: b.aiGraphcore.reverse(x, [1]), lambda x: x[:, ::-1], [X]),
    ("round", lambda b, x: b.aiGraphcore.round(x), np.round, [X]),
    ("scale", lambda b, x: b.aiGraphcore.scale(x, 2.5), lambda x: x * 2.5, [X]),
    ("scaledadd", lambda b, x: b.aiGraphcore.scaledadd(x, 2.0, 3.0), lambda x, y: 2 * x + 3 * y, [X, Y]),
    ("scatterreduce", lambda b, x: b.aiGraphcore.scatterreduce([*x, C(b, [[1, 1, 0], [2, 2, 2]])], axis_size=3, axis=1),
     lambda x: scattered(x, np.array([[1, 1, 0], [2, 2, 2]]), 3), [X]),
    ("sequenceslice", lambda b, x: b.aiGraphcore.sequenceslice([*x, C(b, [1]), C(b, [0]), C(b, [1])]),
     lambda x, y: np.stack([y[0], x[0]]), [X, Y]),
    ("shapeddropout", lambda b, x: b.aiGraphcore.shapeddropout(x, [1, 3], 0.5), lambda x: x, [X]),  # inference
    ("sort", lambda b, x: b.aiGraphcore.sort(x)[0], np.sort, [X]),
    ("square", lambda b, x: b.aiGraphcore.square(x), np.square, [X]),
    ("subsample", lambda b, x: b.aiGraphcore.subsample(x, [1, 2]), lambda x: x[:, ::2], [X]),
    ("swish", lambda b, x: b.aiGraphcore.swish(x), lambda x: x / (1 + np.exp(-x)), [X]),
    ("tensorremap", lambda b, x: b.aiGraphcore.tensorremap(x, 0), lambda x: x, [X]),
    ("lstm", lambda b, x: b.aiGraphcore.lstm(x)[0], lambda *x: lstm_by_hand(*x)[0], [LSTM_X, LSTM_W]),
    ("lstm", lambda b, x: b.aiGraphcore.lstm(x, 0)[0], lambda *x: lstm_by_hand(*x)[0][-1], [LSTM_X, LSTM_W, LSTM_B]),
    ("lstm", lambda b, x: b.aiGraphcore.lstm(x)[1], lambda *x: lstm_by_hand(*x)[1],
     [LSTM_X, LSTM_W, LSTM_B, LSTM_STATE]),
    ("reducemedian", lambda b, x: b.aiGraphcore.reducemedian(x, [1])[0],
     lambda x: np.median(x, 1, keepdims=True), [X]),
    ("reducemedian", lambda b, x: b.aiGraphcore.reducemedian(x, [0], 0)[0], lambda x: x.min(0), [X]),
    ("reducemedian", lambda b, x: b.aiGraphcore.reducemedian(x, keepdims=0)[1], lambda x: np.argsort(x, None)[2], [X]),
    ("zeros", lambda b, x: b.aiGraphcore.zeros([2], "FLOAT16"), lambda: np.zeros(2), []),
    ("zeroslike", lambda b, x: b.aiGraphcore.zeroslike(x), np.zeros_like, [X]),
]
#: Ops with tests of their own, below or in test_popart_builder.py.
GRAPHCORE_ELSEWHERE = {"abort", "call", "castthenpow2scale", "ctcbeamsearchdecoder", "hostload", "hoststore",
                       "packedDataBlock", "packeddatablock", "pow2scalethencast", "remoteload", "remotestore",
                       "splinebasis", "splineweighting"}


@pytest.mark.parametrize("make, expected, arrays", [case[1:] for case in GRAPHCORE_CASES],
                         ids=[c[0] for c in GRAPHCORE_CASES])
def test_graphcore_ops_compute_what_numpy_does(make, expected, arrays):
    value, wanted = compute(make, *arrays), expected(*arrays)
    assert value.shape == np.shape(wanted)
    np.testing.assert_allclose(value, wanted, rtol=2e-6, atol=1e-6)


class TestGraphcore:
    def test_has_the_ops_that_the_importer_reads(self):
        tabled = {spec.op for spec in graphcore_ops.SPECS.values()}
        assert tabled | set(graphcore_ops.WRITTEN_OUT) == set(_core.readable_ops("ai.graphcore"))

    def test_has_a_case_for_every_op(self):
        ops = {name for name in dir(popart.Builder().aiGraphcore) if not name.startswith("_")}
        assert ops == {case[0] for case in GRAPHCORE_CASES} | GRAPHCORE_ELSEWHERE

    def test_lstm_refuses_weights_that_do_not_fit(self):
        with pytest.raises(ValueError, match=r"weights \[4, in \+ hidden, hidden\], got .*\[4, 4, 4\]"):
            compute(lambda b, x: b.aiGraphcore.lstm(x)[0], LSTM_X, np.ones((4, 4, 4), np.float32))
        with pytest.raises(ValueError, match="two to four tensors"):
            compute(lambda b, x: b.aiGraphcore.lstm(x)[0], LSTM_X)

    def test_lstm_is_trained(self):
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo(LSTM_X), "x")
        weights = builder.addInitializedInputTensor(LSTM_W, "w")
        outputs, _ = builder.aiGraphcore.lstm([x, weights])
        loss = builder.aiGraphcore.identityloss([builder.aiGraphcore.square([outputs])], SUM)
        flow = popart.DataFlow(1, [popart.reservedGradientPrefix() + weights])
        session = popart.TrainingSession(builder, flow, loss, popart.ConstSGD(0.1))
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: LSTM_X}, anchors))
        (gradient,) = anchors.values()
        change = np.random.default_rng(9).uniform(-1, 1, LSTM_W.shape) * 1e-4
        up, down = (np.square(lstm_by_hand(LSTM_X.astype(float), LSTM_W + each)[0]).sum() for each in (change, -change))
        assert abs((up - down) / 2 - (gradient * change).sum()) < 1e-7

    def test_floats_of_8_bits_come_back(self):
        def make(b, x):
            bits = b.aiGraphcore.pow2scalethencast([*x, C(b, 0, np.int32)])
            return b.aiGraphcore.castthenpow2scale([bits, C(b, 1, np.int32)], "FLOAT")

        assert np.array_equal(compute(make, X), 2 * X)  # all of X has at most 3 bits of fraction

    def test_beam_search_finds_the_best_labels(self):
        steps = np.log(f32([[[0.1, 0.8, 0.1]], [[0.9, 0.05, 0.05]], [[0.1, 0.1, 0.8]]]).reshape(3, 1, 3))
        probability, length, path = compute(
            lambda b, x: b.aiGraphcore.ctcbeamsearchdecoder([*x, C(b, [3])], beamWidth=10, topPaths=1), steps)
        assert length.tolist() == [[2]] and path[0, 0, :2].tolist() == [1, 2]
        assert abs(probability[0, 0] - 0.648) < 1e-6  # of 1-2, 112, 122, -12 and 12-

    def test_splines_of_degree_1_interpolate(self):
        def make(b, x):
            basis, indices = b.aiGraphcore.splinebasis([*x, C(b, [3]), C(b, [1], np.uint8)], degree=1)
            weights = C(b, np.arange(3).reshape(3, 1, 1), np.float32)
            return b.aiGraphcore.splineweighting([C(b, [[1.0], [1.0]], np.float32), weights, basis, indices])

        assert np.allclose(compute(make, f32([0.25], [0.75])), [[0.5], [1.5]])  # 2 x on three knots

    def test_remote_buffers_keep_their_rows(self):
        builder = popart.Builder()
        ops = builder.aiGraphcore
        x = builder.addInputTensor("FLOAT", [3], "x")
        before = ops.remoteload([x], 1)
        ops.remotestore([x], 1)
        builder.addOutputTensor(before)
        session = popart.InferenceSession(builder, popart.DataFlow(1, [before]), userOptions=mutable_weights())
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        for step, expected in enumerate([0, 1, 2]):
            session.run(popart.PyStepIO({x: np.full(3, step + 1, np.float32)}, anchors))
            assert np.array_equal(anchors[before], np.full(3, expected))

    def test_streams_are_inputs_and_outputs(self):
        builder = popart.Builder()
        like = builder.aiGraphcore.init([3], "FLOAT")
        x = builder.aiGraphcore.hostload([like], "in")
        builder.aiGraphcore.hoststore([builder.aiOnnx.neg([x])], "out")
        assert builder.getInputTensorIds() == ["in"] and builder.getOutputTensorIds() == ["out"]
        value, = run(builder, ["out"], {"in": X[0]})
        assert np.array_equal(value, -X[0])

    def test_abort_ends_the_run(self):
        builder = popart.Builder()
        x = builder.addInputTensor("BOOL", [2], "x")
        builder.aiGraphcore.abort([x])
        builder.addOutputTensor(builder.aiOnnx.identity([x]))
        session = popart.InferenceSession(builder, popart.DataFlow(1))
        session.prepareDevice()
        session.run(popart.PyStepIO({x: np.zeros(2, bool)}, {}))
        with pytest.raises(popart.DeviceError, match="bort"):
            session.run(popart.PyStepIO({x: np.array([False, True])}, {}))
        session.run(popart.PyStepIO({x: np.zeros(2, bool)}, {}))
