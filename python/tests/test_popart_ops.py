"""The op sets of sluice.popart.Builder: every op by its name, against the standard's own cases and NumPy."""

import glob
import inspect
import math
import os

import numpy as np
import pytest

import sluice.popart as popart
from popart_support import C, IMAGE, KERNEL, X, Y, compute, conv2d, f32, log_softmax, run
from sluice import _core
from sluice.popart.op_sets import onnx_specs

NODES = "/usr/share/libonnx-testdata/data/node"
I32 = np.array([[5, 3, 12], [7, 0, 9]], np.int32)
J32 = np.array([[3, 6, 10], [1, 2, 4]], np.int32)
METHODS = {"And": "logical_and", "Not": "logical_not", "Or": "logical_or", "Xor": "logical_xor"}


class TestOnnx:
    def test_has_the_ops_that_the_importer_reads(self):
        beyond = {name for name in _core.readable_ops("") if "Sequence" in name and name != "ReverseSequence"}
        ops = {opset: {spec.op for spec in onnx_specs(opset).values()} for opset in range(6, 18)}
        assert set(_core.readable_ops("")) - beyond <= set.union(*ops.values())
        assert not beyond & set.union(*ops.values())
        assert "Upsample" in ops[9] and "Upsample" not in ops[17]  # as in the standard

    def test_random_ops_have_the_right_moments(self):
        builder = popart.Builder()
        ops = builder.aiOnnx
        shape = [200, 100]
        like = builder.addConstant(np.zeros(shape, np.float32))
        half = builder.addConstant(np.full(shape, 0.25, np.float32))
        ids = [ops.randomnormal(shape, mean=1.0, scale=2.0), ops.randomuniform(shape, high=3.0, low=-1.0),
               ops.randomnormallike([like], mean=-1.0), ops.randomuniformlike([like]), ops.bernoulli([half])]
        moments = [(1, 2), (1, 4 / math.sqrt(12)), (-1, 1), (0.5, 1 / math.sqrt(12)), (0.25, math.sqrt(3) / 4)]
        for value, (mean, deviation) in zip(run(builder, ids), moments):
            assert abs(value.mean() - mean) < 5 * deviation / math.sqrt(value.size)
            assert abs(value.std() - deviation) < 0.05 * deviation
        scores = builder.addConstant(np.log(f32([0.5, 0.25, 0.25])))
        drawn, = run(builder, [ops.multinomial([scores], sample_size=4000)])
        assert np.allclose(np.bincount(drawn.ravel(), minlength=3) / 4000, [0.5, 0.25, 0.25], atol=0.05)

    @pytest.mark.parametrize("axis, p", [(0, 1), (1, 2)])
    def test_lp_ops_are_norms(self, axis, p):
        normalized = compute(lambda b, x: b.aiOnnx.lpnormalization(x, axis=axis, p=p), X)
        assert np.allclose(normalized, X / np.linalg.norm(X, p, axis, keepdims=True), rtol=1e-6)
        pooled = compute(lambda b, x: b.aiOnnx.globallppool(x, p=p), IMAGE)
        assert np.allclose(pooled, (np.abs(IMAGE) ** p).sum((2, 3), keepdims=True) ** (1 / p), rtol=1e-5)
        windows = compute(lambda b, x: b.aiOnnx.lppool(x, kernel_shape=[2, 2], strides=[2, 2], p=p), IMAGE)
        blocks = (np.abs(IMAGE) ** p).reshape(1, 2, 2, 2, 2, 2).sum((3, 5)) ** (1 / p)
        assert np.allclose(windows, blocks, rtol=1e-5)


def standard_cases():
    """The first cases of each op in the standard's data that are one node and have tensors only."""
    onnx = pytest.importorskip("onnx")
    chosen = {}
    for path in sorted(glob.glob(f"{NODES}/*/model.onnx")):
        model = onnx.load(path)
        nodes = model.graph.node
        values = [*model.graph.input, *model.graph.output]
        if len(nodes) == 1 and nodes[0].domain == "" and all(v.type.HasField("tensor_type") for v in values):
            chosen.setdefault(nodes[0].op_type, []).append((os.path.dirname(path), model))
    return chosen


@pytest.mark.skipif(not os.path.isdir(NODES), reason="needs libonnx-testdata")
class TestStandardsCases:
    #: Ops that have tests of their own here, or no tensors that NumPy has.
    LEFT_OUT = {"Bernoulli", "If", "Loop", "Scan", "StringNormalizer", "OptionalHasElement", "OptionalGetElement"}
    PER_OP = 2

    @staticmethod
    def tensors(folder, kind, count):
        from onnx import TensorProto, numpy_helper

        result = []
        for i in range(count):
            proto = TensorProto()
            with open(f"{folder}/test_data_set_0/{kind}_{i}.pb", "rb") as file:
                proto.ParseFromString(file.read())
            result.append(numpy_helper.to_array(proto))
        return result

    @staticmethod
    def attributes(node):
        from onnx import TensorProto, helper, numpy_helper

        def plain(value):
            if isinstance(value, bytes):
                return value.decode()
            if isinstance(value, TensorProto):
                return numpy_helper.to_array(value)
            return [plain(each) for each in value] if isinstance(value, list) else value

        return {each.name: plain(helper.get_attribute_value(each)) for each in node.attribute}

    def build(self, model, arrays, as_constants):
        node, opset = model.graph.node[0], max(model.opset_import[0].version, 6)
        builder = popart.Builder(opsets={"ai.onnx": opset})
        ids, feed = {"": ""}, {}
        for info, array in zip(model.graph.input, arrays):
            if as_constants:
                ids[info.name] = builder.addConstant(array)
            else:
                ids[info.name] = builder.addInputTensor(popart.TensorInfo(array), info.name)
                feed[ids[info.name]] = array
        name = METHODS.get(node.op_type, node.op_type.lower())
        spec = onnx_specs(opset)[name]
        given = self.attributes(node)
        if spec.counts_outputs:
            given["num_outputs"] = len(node.output)
        tensors = [[ids[each] for each in node.input]] if spec.inputs[1] else []
        made = getattr(getattr(builder, f"aiOnnxOpset{opset}"), name)(*tensors, **given)
        made = [made] if isinstance(made, str) else made
        return builder, [each for each, output in zip(made, node.output) if output], feed

    def check(self, folder, model):
        arrays = self.tensors(folder, "input", len(model.graph.input))
        try:
            built = self.build(model, arrays, False)
        except popart.Unsupported:  # an operand decides about a shape
            built = self.build(model, arrays, True)
        for value, expected in zip(run(*built), self.tensors(folder, "output", len(model.graph.output))):
            assert value.shape == expected.shape
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-6)
            else:
                np.testing.assert_array_equal(value, expected)

    def test_give_what_the_standard_says(self):
        cases = standard_cases()
        failures, passed = [], set()
        for op, each in cases.items():
            named = [(folder, model) for folder, model in each if "BFLOAT16" not in folder]  # NumPy has no such type
            for folder, model in [] if op in self.LEFT_OUT else named[: self.PER_OP]:
                try:
                    self.check(folder, model)
                    passed.add(op)
                except Exception as error:  # pylint: disable=broad-except
                    failures.append(f"{os.path.basename(folder)}: {type(error).__name__}: {error}")
        assert not failures, "\n".join(failures)
        elsewhere = {"Bernoulli", "GlobalLpPool", "If", "Loop", "LpNormalization", "LpPool", "Multinomial",
                     "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan"}
        assert {spec.op for spec in onnx_specs(17).values()} - passed == elsewhere


#: (name, what the builder makes, what NumPy makes, the arrays)
NUMPY_CASES = [
    ("abs", lambda b, x: b.aiOnnx.abs(x), np.abs, [X]),
    ("add", lambda b, x: b.aiOnnx.add(x), np.add, [X, Y]),
    ("argmax", lambda b, x: b.aiOnnx.argmax(x, 1, 0), lambda x: x.argmax(1), [X]),
    ("argmin", lambda b, x: b.aiOnnx.argmin(x, axis=0), lambda x: x.argmin(0, keepdims=True), [X]),
    ("averagepool", lambda b, x: b.aiOnnx.averagepool(x, [2, 2], strides=[2, 2]),
     lambda x: x.reshape(1, 2, 2, 2, 2, 2).mean((3, 5)), [IMAGE]),
    ("cast", lambda b, x: b.aiOnnx.cast(x, "INT32"), lambda x: x.astype(np.int32), [X]),
    ("ceil", lambda b, x: b.aiOnnx.ceil(x), np.ceil, [X]),
    ("clip", lambda b, x: b.aiOnnx.clip(x, 1.0, -1.0), lambda x: x.clip(-1, 1), [X]),
    ("concat", lambda b, x: b.aiOnnx.concat(x, 1), lambda x, y: np.concatenate([x, y], 1), [X, Y]),
    ("conv", lambda b, x: b.aiOnnx.conv(x), conv2d, [IMAGE, KERNEL]),
    ("div", lambda b, x: b.aiOnnx.div(x), np.divide, [X, Y]),
    ("equal", lambda b, x: b.aiOnnx.equal(x), np.equal, [I32, J32]),
    ("erf", lambda b, x: b.aiOnnx.erf(x), np.vectorize(math.erf, otypes=[np.float32]), [X]),
    ("exp", lambda b, x: b.aiOnnx.exp(x), np.exp, [X]),
    ("expand", lambda b, x: b.aiOnnx.expand([*x, C(b, [2, 2, 3])]), lambda x: np.broadcast_to(x, (2, 2, 3)), [X]),
    ("flatten", lambda b, x: b.aiOnnx.flatten(x, 2), lambda x: x.reshape(2, 16), [IMAGE]),
    ("gather", lambda b, x: b.aiOnnx.gather([*x, C(b, [2, 0])], axis=1), lambda x: x[:, [2, 0]], [X]),
    ("gemm", lambda b, x: b.aiOnnxOpset11.gemm(x, alpha=0.5, transB=1), lambda x, y: 0.5 * x @ y.T, [X, Y]),
    ("greater", lambda b, x: b.aiOnnx.greater(x), np.greater, [X, Y]),
    ("identity", lambda b, x: b.aiOnnx.identity(x), lambda x: x, [X]),
    ("log", lambda b, x: b.aiOnnx.log(x), np.log, [np.abs(X)]),
    ("logsoftmax", lambda b, x: b.aiOnnx.logsoftmax(x, 1), log_softmax, [X]),
    ("matmul", lambda b, x: b.aiOnnx.matmul(x), np.matmul, [X, Y.T.copy()]),
    ("max", lambda b, x: b.aiOnnx.max(x), np.maximum, [X, Y]),
    ("maxpool", lambda b, x: b.aiOnnx.maxpool(x, 1, [2, 2], strides=[2, 2])[0],
     lambda x: x.reshape(1, 2, 2, 2, 2, 2).max((3, 5)), [IMAGE]),
    ("mean", lambda b, x: b.aiOnnx.mean(x), lambda x, y: (x + y) / 2, [X, Y]),
    ("mul", lambda b, x: b.aiOnnx.mul(x), np.multiply, [X, Y]),
    ("neg", lambda b, x: b.aiOnnx.neg(x), np.negative, [X]),
    ("onehot", lambda b, x: b.aiOnnx.onehot([*x, C(b, 13), C(b, [0, 1])]),
     lambda x: np.eye(13, dtype=np.int64)[x], [I32]),
    ("pad", lambda b, x: b.aiOnnx.pad(x, pads=[0, 1, 0, 2], value=7.0),
     lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=7), [X]),
    ("pow", lambda b, x: b.aiOnnx.pow(x), np.power, [np.abs(X), Y]),
    ("reducemean", lambda b, x: b.aiOnnx.reducemean(x, axes=[1], keepdims=0), lambda x: x.mean(1), [X]),
    ("reducesum", lambda b, x: b.aiOnnx.reducesum(x, axes=[0]), lambda x: x.sum(0, keepdims=True), [X]),
    ("relu", lambda b, x: b.aiOnnx.relu(x), lambda x: x.clip(0), [X]),
    ("reshape", lambda b, x: b.aiOnnx.reshape([*x, C(b, [3, -1])]), lambda x: x.reshape(3, 2), [X]),
    ("sigmoid", lambda b, x: b.aiOnnx.sigmoid(x), lambda x: 1 / (1 + np.exp(-x)), [X]),
    ("slice", lambda b, x: b.aiOnnxOpset9.slice(x, axes=[1], starts=[1], ends=[3]), lambda x: x[:, 1:3], [X]),
    ("softmax", lambda b, x: b.aiOnnx.softmax(x), lambda x: np.exp(log_softmax(x)), [X]),
    ("sqrt", lambda b, x: b.aiOnnx.sqrt(x), np.sqrt, [np.abs(X)]),
    ("squeeze", lambda b, x: b.aiOnnx.squeeze(x, axes=[0]), lambda x: x[0], [IMAGE]),
    ("sub", lambda b, x: b.aiOnnx.sub(x), np.subtract, [X, Y]),
    ("sum", lambda b, x: b.aiOnnx.sum(x), lambda x, y: x + y, [X, Y]),
    ("tanh", lambda b, x: b.aiOnnx.tanh(x), np.tanh, [X]),
    ("tile", lambda b, x: b.aiOnnx.tile([*x, C(b, [1, 2])]), lambda x: np.tile(x, (1, 2)), [X]),
    ("transpose", lambda b, x: b.aiOnnx.transpose(x, [1, 0]), lambda x: x.T, [X]),
    ("unsqueeze", lambda b, x: b.aiOnnx.unsqueeze(x, axes=[0]), lambda x: x[None], [X]),
    ("where", lambda b, x: b.aiOnnx.where([b.aiOnnx.greater(x), *x]), lambda x, y: np.where(x > y, x, y), [X, Y]),
    ("einsum", lambda b, x: b.aiOnnx.einsum(x, "ij,ij->i"), lambda x, y: (x * y).sum(1), [X, Y]),
]


@pytest.mark.parametrize("make, expected, arrays", [case[1:] for case in NUMPY_CASES], ids=[c[0] for c in NUMPY_CASES])
def test_onnx_ops_compute_what_numpy_does(make, expected, arrays):
    value, wanted = compute(make, *arrays), expected(*arrays)
    assert value.shape == np.shape(wanted)
    np.testing.assert_allclose(value, wanted, rtol=2e-6, atol=1e-6)


class TestCalls:
    """What all op sets have."""

    @pytest.fixture
    def builder(self):
        builder = popart.Builder()
        builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "x")
        return builder

    def test_attributes_come_by_position_or_name(self, builder):
        for made in (builder.aiOnnx.argmax(["x"], 1, 0), builder.aiOnnx.argmax(["x"], keepdims=0, axis=1)):
            assert builder.getTensorShape(made) == [2]

    def test_the_debug_context_is_part_of_the_id(self, builder):
        assert builder.aiOnnx.relu(["x"], "act") == "act/Relu:0"
        assert builder.aiOnnx.argmax(["x"], 1, 0, "best") == "best/ArgMax:0"
        assert builder.aiOnnx.relu(["x"], debugPrefix=popart.DebugContext("act")) == "act/Relu:1"
        with builder.nameScope("block"), builder.nameScope("0"):
            assert builder.aiOnnx.relu(["x"]) == "block/0/Relu:0"
            assert builder.getNameScope("w") == "block/0/w"
        assert builder.aiOnnx.relu(["x"]) == "Relu:0"

    def test_ops_with_a_choice_of_results_return_lists(self, builder):
        assert builder.aiOnnx.dropout(["x"], 1, 0.1) == ["Dropout:0"]
        assert len(builder.aiOnnx.dropout(["x"], num_outputs=2)) == 2
        assert len(builder.aiOnnx.split(["x"], 3, 1)) == 3
        assert [builder.getTensorShape(each) for each in builder.aiOnnx.split(["x"], 2, 1, [1, 2])] == [[2, 1], [2, 2]]
        assert len(builder.aiOnnxOpset13.split(["x"], split=[1, 2], axis=1)) == 2

    def test_opsets_have_their_own_forms(self, builder):
        axes = builder.addConstant(np.array([1], np.int64))
        assert builder.getTensorShape(builder.aiOnnxOpset11.reducesum(["x"], [1], 0)) == [2]
        assert builder.getTensorShape(builder.aiOnnxOpset13.reducesum(["x", axes], 0)) == [2]
        with pytest.raises(TypeError, match="axes"):
            builder.aiOnnxOpset13.reducesum(["x"], axes=[1])
        assert builder.aiOnnx.layernormalization(["x", builder.addConstant(f32(1, 1, 1))], num_outputs=1)
        with pytest.raises(AttributeError, match="layernormalization"):
            builder.aiOnnxOpset11.layernormalization
        with pytest.raises(popart.InvalidArgument, match="6 to 17"):
            builder.aiOnnxOpset18
        assert popart.Builder(opsets={"ai.onnx": 13}).aiOnnx._opset == 13

    def test_dir_and_help_list_all(self, builder):
        ops = dir(builder.aiOnnx)
        assert {"conv", "logical_and", "softmax", "einsum"} <= set(ops) and len(ops) > 170
        assert list(inspect.signature(builder.aiOnnx.conv).parameters)[:3] == ["args", "dilations", "group"]
        assert "epsilon: float" in builder.aiOnnx.batchnormalization.__doc__
        assert "aiOnnxOpset11" in dir(builder) and popart.AiOnnxOpset11.__name__ == "AiOnnxOpset11"

    @pytest.mark.parametrize("call, kind, word", [
        (lambda b: b.aiOnnx.convv, AttributeError, "did you mean conv"),
        (lambda b: b.aiGraphcore.gellu, AttributeError, "gelu"),
        (lambda b: b.aiOnnx.relu(["x"], axes=1), TypeError, "axes"),
        (lambda b: b.aiOnnx.relu("x"), TypeError, "as a list"),
        (lambda b: b.aiOnnx.relu([3]), TypeError, "id of a tensor"),
        (lambda b: b.aiOnnx.relu(["y"]), popart.InvalidArgument, "'y'"),
        (lambda b: b.aiOnnx.relu(["x", "x"]), popart.InvalidArgument, "1 tensors, got 2"),
        (lambda b: b.aiOnnx.concat(["x"]), TypeError, "axis"),
        (lambda b: b.aiOnnx.concat(["x"], "one"), popart.InvalidArgument, "expected int"),
        (lambda b: b.aiOnnx.cast(["x"], "FLOTE"), popart.InvalidArgument, "FLOTE"),
        (lambda b: b.aiOnnx.dropout(["x"], 3), popart.InvalidArgument, "1 to 2"),
        (lambda b: b.aiOnnx.matmul(["x", "x"]), popart.InvalidArgument, "MatMul"),
        (lambda b: b.aiOnnx.reshape(["x", "x"]), popart.Unsupported, "onstant"),
        (lambda b: b.aiOnnxMl, NotImplementedError, "ai.onnx.ml"),
        (lambda b: b.aiOnnx.loop(["", "", "x"], 1, "body"), TypeError, "Builder"),
    ])
    def test_errors_say_what_is_wrong(self, builder, call, kind, word):
        before = builder._core.num_ops()
        with pytest.raises(kind, match=word):
            call(builder)
        assert builder._core.num_ops() == before
