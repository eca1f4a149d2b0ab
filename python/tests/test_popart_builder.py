"""sluice.popart.Builder: tensors, names, placements, inner graphs, models."""

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import sluice.popart as popart
from sluice.popart import _warn


def run(builder, ids, feed=(), options=None):
    session = popart.InferenceSession(builder, popart.DataFlow(1, list(ids)), userOptions=options)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(feed), anchors))
    return [anchors[name] for name in ids]


@pytest.fixture
def builder():
    made = popart.Builder()
    made.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "x")
    return made


def warned(call):
    """The texts of the warnings that a call gives, as if it were the first one of the process."""
    _warn._given.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
        call()
    return [str(each.message) for each in caught]


class TestTensorInfo:
    @pytest.mark.parametrize("spelling, name", [
        ("FLOAT", "FLOAT"), ("float", "FLOAT"), ("float32", "FLOAT"), (np.float32, "FLOAT"), (np.dtype("f4"), "FLOAT"),
        (popart.DataType.FLOAT, "FLOAT"), ("FLOAT16", "FLOAT16"), ("half", "FLOAT16"), (np.float16, "FLOAT16"),
        ("DOUBLE", "DOUBLE"), ("float64", "DOUBLE"), ("BFLOAT16", "BFLOAT16"), ("INT8", "INT8"), ("UINT8", "UINT8"),
        ("INT16", "INT16"), ("UINT16", "UINT16"), ("INT32", "INT32"), (np.int32, "INT32"), ("UINT32", "UINT32"),
        ("INT64", "INT64"), (int, "INT64"), ("UINT64", "UINT64"), ("BOOL", "BOOL"), (bool, "BOOL"), (np.bool_, "BOOL")])
    def test_knows_all_spellings(self, spelling, name):
        info = popart.TensorInfo(spelling, (2, 3))
        assert info.data_type() == name and info.shape() == [2, 3] and info.nelms() == 6 and info.rank() == 2
        builder = popart.Builder()
        assert builder.getTensorDtype(builder.addInputTensor(info)).name == name

    def test_is_read_from_an_array(self):
        info = popart.TensorInfo(np.zeros((4, 1), np.int8))
        assert info == popart.TensorInfo("INT8", [4, 1]) and info != popart.TensorInfo("INT8", [4])
        assert repr(info) == "TensorInfo('INT8', [4, 1])" and info.data_type_lcase() == "int8"

    def test_refuses_other_types_and_shapes(self):
        with pytest.raises(popart.InvalidArgument, match="'COMPLEX'.*FLOAT"):
            popart.TensorInfo("COMPLEX", [1])
        with pytest.raises(popart.InvalidArgument, match="negative"):
            popart.TensorInfo("FLOAT", [-1])
        with pytest.raises(TypeError, match="a shape"):
            popart.TensorInfo("FLOAT")


class TestTensors:
    def test_are_added_in_all_forms(self):
        builder = popart.Builder()
        info = popart.TensorInfo("INT32", [2])
        assert builder.addInputTensor(info) == "input:0"
        assert builder.addInputTensor(info, "a") == "a"
        assert builder.addInputTensor("FLOAT16", [3], "b") == "b"
        assert builder.addInputTensor(info, popart.InputSettings(), "c") == "c"
        assert builder.addInputTensor(tensorInfo=info, debugContext="d") == "d"
        assert builder.addInputTensor(dataType="BOOL", shape=[], debugPrefix="e") == "e"
        assert builder.getInputTensorIds() == ["input:0", "a", "b", "c", "d", "e"]
        assert builder.getTensorDtypeString("b") == "float16" and builder.getTensorShape("e") == []
        with pytest.raises(TypeError, match="unexpected"):
            builder.addInputTensor(info, "f", "g")

    def test_have_names_of_their_own(self):
        builder = popart.Builder()
        assert [builder.addInputTensor("FLOAT", [1], "x") for _ in range(3)] == ["x", "x/1", "x/2"]
        with builder.nameScope("layer"):
            assert builder.addInitializedInputTensor(np.zeros(2, np.float32), "w") == "layer/w"
            assert builder.addInitializedInputTensor(np.zeros(2, np.float32)) == "layer/init:0"

    def test_know_what_they_are(self, builder):
        w = builder.addInitializedInputTensor(np.zeros(3, np.float32), "w")
        steps = builder.addInitializedInputTensor(np.zeros(1, np.int32), "steps")
        y = builder.aiOnnx.add(["x", w])
        builder.addOutputTensor(y)
        builder.addOutputTensor(y)
        assert builder.getOutputTensorIds() == [y] and builder.getTrainableTensorIds() == [w]
        assert builder.isInitializer(steps) and not builder.isInitializer("x")
        assert y in builder.getValueTensorIds() and "x" not in builder.getValueTensorIds()
        with pytest.raises(popart.InvalidArgument, match="'no'"):
            builder.addOutputTensor("no")
        with pytest.raises(popart.InvalidArgument, match="'no'"):
            builder.getTensorShape("no")

    def test_constants_copy_the_array(self, builder):
        value = np.array([1.0, 2.0, 3.0], np.float32)
        made = builder.aiOnnx.constant(value, "c")
        value[:] = 0
        y = builder.reshape_const(builder.aiOnnx, [builder.aiOnnx.add(["x", made])], [3, 2])
        assert made == "c"
        result, = run(builder, [y], {"x": np.zeros((2, 3), np.float32)})
        assert np.array_equal(result, [[1, 2], [3, 1], [2, 3]])

    def test_unknown_methods_propose_others(self, builder):
        with pytest.raises(AttributeError, match="addInputTensor"):
            builder.addInputTensors


class TestPlacement:
    @pytest.mark.parametrize("method, getter, has", [
        ("virtualGraph", "getVirtualGraph", "hasVirtualGraph"),
        ("pipelineStage", "getPipelineStage", "hasPipelineStage"),
        ("executionPhase", "getExecutionPhase", "hasExecutionPhase")])
    def test_has_two_forms(self, builder, method, getter, has):
        place, get, is_set = (getattr(builder, name) for name in (method, getter, has))
        late = builder.aiOnnx.relu(["x"])
        place(late, 3)
        assert get(late) == 3 and not is_set()
        with place(1):
            assert get() == 1 and is_set()
            outer = builder.aiOnnx.relu(["x"])
            with place(2):
                inner = builder.aiOnnx.relu(["x"])
            again = builder.aiOnnx.relu(["x"])
        after = builder.aiOnnx.relu(["x"])
        assert [get(each) for each in (outer, inner, again)] == [1, 2, 1]
        place([outer, inner], 4)
        assert get([outer, inner]) == 4
        with pytest.raises(popart.InvalidArgument, match="none is set"):
            get(after)
        with pytest.raises(popart.InvalidArgument, match="none is set"):
            get()

    def test_scopes_end_with_an_exception(self, builder):
        with pytest.raises(KeyError):
            with builder.virtualGraph(1), builder.nameScope("a"):
                raise KeyError
        assert not builder.hasVirtualGraph() and builder.aiOnnx.relu(["x"]) == "Relu:0"

    def test_refuses_negative_numbers_and_unknown_tensors(self, builder):
        with pytest.raises(popart.InvalidArgument, match="pipelineStage.*-1"):
            with builder.pipelineStage(-1):
                pass
        with pytest.raises(popart.InvalidArgument, match="from 0 on, got -2"):
            builder.virtualGraph(builder.aiOnnx.relu(["x"]), -2)
        with pytest.raises(popart.InvalidArgument, match="'y'"):
            builder.virtualGraph("y", 0)

    def test_tensor_locations_change_no_result(self, builder):
        off = popart.TensorLocation(popart.TensorStorage.OffChip)
        with builder.outputTensorLocation(off):
            y = builder.aiOnnx.relu(["x"])
        builder.outputTensorLocation(y, popart.TensorLocation())
        value, = run(builder, [y], {"x": np.full((2, 3), 2, np.float32)})
        assert np.array_equal(value, np.full((2, 3), 2))

    def test_checkpoints_are_read_by_later_ops(self, builder):
        y = builder.aiOnnx.exp(["x"])
        ops = builder._core.num_ops()
        builder.recomputeOutput(y, popart.RecomputeType.Checkpoint)
        assert builder._core.num_ops() == ops + 1
        z = builder.aiOnnx.log([y])
        kept, = builder.checkpointOutput([z])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for value in run(builder, [z, kept], {"x": x}):
            assert np.allclose(value, x, atol=1e-6)

    @pytest.mark.parametrize("call, word", [
        (lambda b: b.setAvailableMemoryProportion("x", 0.5), "setAvailableMemoryProportion"),
        (lambda b: b.setPartialsType("x", "half"), "partialsTypeMatMuls"),
        (lambda b: b.setSerializeMatMul({"x"}, "output_channels", 2), "setSerializeMatMul"),
        (lambda b: b.recomputeOutputInBackwardPass("x"), "autoRecomputation"),
        (lambda b: b.schedulePriority(1.0).__enter__(), "schedulePriority")])
    def test_what_has_no_effect_warns_once(self, builder, call, word):
        texts = warned(lambda: call(builder))
        assert len(texts) == 1 and word in texts[0] and "no effect" in texts[0]

    def test_hints_are_checked(self, builder):
        with pytest.raises(popart.InvalidArgument, match="got 1.5"):
            builder.setAvailableMemoryProportion("x", 1.5)
        with pytest.raises(popart.InvalidArgument, match="'y'"):
            builder.setAvailableMemoryProportion("y", 0.5)
        with pytest.raises(popart.InvalidArgument, match="FLOAT or HALF"):
            builder.setPartialsType("x", "INT8")


class TestInnerGraphs:
    def twice(self, builder):
        inner = builder.createSubgraphBuilder()
        a = inner.addInputTensor("FLOAT", [2, 3])
        inner.addOutputTensor(inner.aiOnnx.add([a, a]))
        return inner

    def test_are_called(self, builder):
        y, = builder.aiGraphcore.call(["x"], 1, self.twice(builder))
        z, = builder.aiGraphcore.call([y], 1, self.twice(builder))
        value, = run(builder, [z], {"x": np.ones((2, 3), np.float32)})
        assert np.array_equal(value, np.full((2, 3), 4))

    def test_read_tensors_of_the_graph_around(self, builder):
        inner = builder.createSubgraphBuilder()
        outer = inner.addInputTensorFromParentGraph("x")
        a = inner.addInputTensor("FLOAT", [3])
        inner.addOutputTensor(inner.aiOnnx.mul([outer, a]))
        c = builder.addConstant(np.array([1, 2, 3], np.float32))
        y, = builder.aiGraphcore.call([c], 1, inner)
        value, = run(builder, [y], {"x": np.ones((2, 3), np.float32)})
        assert np.array_equal(value, [[1, 2, 3]] * 2)

    @pytest.mark.parametrize("condition, expected", [(True, 1.0), (False, -1.0)])
    def test_are_branches(self, builder, condition, expected):
        flag = builder.addInputTensor("BOOL", [], "flag")
        branches = []
        for op in ("identity", "neg"):
            branch = builder.createSubgraphBuilder()
            branch.addOutputTensor(getattr(branch.aiOnnx, op)([branch.addInputTensorFromParentGraph("x")]))
            branches.append(branch)
        y, = builder.aiOnnx.logical_if([flag], 1, branches[1], branches[0])
        value, = run(builder, [y], {"x": np.ones((2, 3), np.float32), flag: np.array(condition)})
        assert np.array_equal(value, np.full((2, 3), expected))

    def test_are_bodies_of_loops(self, builder):
        body = builder.createSubgraphBuilder()
        body.addInputTensor("INT64", [])
        go = body.addInputTensor("BOOL", [])
        a = body.addUntypedInputTensor("x")
        body.addOutputTensor(go)
        body.addOutputTensor(body.aiOnnx.add([a, a]))
        times = builder.addConstant(np.array(3, np.int64))
        more = builder.addConstant(np.array(True))
        y, = builder.aiOnnx.loop([times, more, "x"], 1, body)
        value, = run(builder, [y], {"x": np.ones((2, 3), np.float32)})
        assert np.array_equal(value, np.full((2, 3), 8))

    def test_are_bodies_of_scans(self, builder):
        body = builder.createSubgraphBuilder()
        total, row = body.addInputTensor("FLOAT", [3]), body.addInputTensor("FLOAT", [3])
        added = body.aiOnnx.add([total, row])
        body.addOutputTensor(added)
        body.addOutputTensor(body.aiOnnx.identity([added]))
        zero = builder.addConstant(np.zeros(3, np.float32))
        last, sums = builder.aiOnnx.scan([zero, "x"], 2, body, 1)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        values = run(builder, [last, sums], {"x": x})
        assert np.array_equal(values[0], x.sum(0)) and np.array_equal(values[1], x.cumsum(0))

    def test_pack_data(self, builder):
        block = builder.createSubgraphBuilder()
        block.addOutputTensor(block.aiOnnx.neg([block.addInputTensor("FLOAT", [1, 4, 3])]))
        offsets = builder.addConstant(np.array([0, 1], np.int64))
        lengths = builder.addConstant(np.array([1, 1], np.int64))
        y = builder.aiGraphcore.packedDataBlock(["x", offsets, lengths, offsets, lengths], [4], 2, 1, block)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        value, = run(builder, [y], {"x": x})
        assert np.array_equal(value, -x)

    def test_refuse_what_does_not_fit(self, builder):
        inner = self.twice(builder)
        with pytest.raises(popart.InvalidArgument, match="1 inputs, got 2"):
            builder.aiGraphcore.call(["x", "x"], 1, inner)
        with pytest.raises(popart.InvalidArgument, match="1 outputs, got num_outputs = 2"):
            builder.aiGraphcore.call(["x"], 2, inner)
        with pytest.raises(popart.InvalidArgument, match="'z'"):
            inner.addInputTensorFromParentGraph("z")
        with pytest.raises(popart.Unsupported, match="addInputTensor"):
            inner.addUntypedInputTensor("z")
        with pytest.raises(popart.InvalidArgument, match="1 tensor"):
            builder.aiOnnx.logical_if(["x", "x"], 1, inner, inner)
        capturing = builder.createSubgraphBuilder()
        capturing.addOutputTensor(capturing.addInputTensorFromParentGraph("x"))
        with pytest.raises(popart.Unsupported, match="reads 'x'"):
            builder.aiOnnx.loop(["", "", "x"], 1, capturing)


class TestModels:
    def test_are_what_other_tools_read(self, builder, tmp_path):
        w = builder.addInitializedInputTensor(np.array([1, 2, 3], np.float32), "w")
        y = builder.aiOnnx.mul(["x", w])
        builder.addOutputTensor(y)
        proto = builder.getModelProto()
        builder.saveModelProto(tmp_path / "model.onnx")
        assert (tmp_path / "model.onnx").read_bytes() == proto
        x = np.ones((2, 3), np.float32)
        path = tmp_path / "model.onnx"
        for source in (bytes(proto), pickle.loads(pickle.dumps(proto)), str(path), path):
            again = popart.Builder(source)
            assert again.getInputTensorIds() == ["x"] and again.getTrainableTensorIds() == ["w"]
            value, = run(again, [y], {"x": x})
            assert np.array_equal(value, [[1, 2, 3]] * 2)

    def test_keep_placements(self, builder, tmp_path):
        with builder.virtualGraph(1), builder.pipelineStage(2), builder.executionPhase(3):
            y = builder.aiGraphcore.gelu(["x"])  # several nodes in the standard
        builder.saveModelProto(tmp_path / "model.onnx")
        for source in (builder.getModelProto(), bytes(builder.getModelProto()), tmp_path / "model.onnx"):
            again = popart.Builder(source)
            assert [again.getVirtualGraph(y), again.getPipelineStage(y), again.getExecutionPhase(y)] == [1, 2, 3]

    def test_are_a_picture_of_the_graph_at_that_time(self, builder):
        y = builder.aiOnnx.relu(["x"])
        builder.addOutputTensor(y)
        proto = builder.getModelProto()
        z = builder.aiOnnx.neg([y])
        with pytest.raises(popart.InvalidArgument, match="Neg"):
            popart.InferenceSession(proto, popart.DataFlow(1, [z]))
        assert popart.InferenceSession(builder, popart.DataFlow(1, [z]))

    def test_without_outputs_have_what_nothing_reads(self, builder):
        y = builder.aiOnnx.relu(["x"])
        assert popart.Builder(bytes(builder.getModelProto())).getOutputTensorIds() == [y]
        assert builder.getOutputTensorIds() == []

    def test_that_cannot_be_written_still_run(self, builder):
        builder.aiGraphcore.remotestore(["x"], 1)
        builder.addOutputTensor(builder.aiOnnx.relu(["x"]))
        with pytest.raises(popart.Unsupported, match="Builder itself"):
            builder.getModelProto()

    def test_come_from_files_that_exist(self, tmp_path):
        with pytest.raises(popart.FileError):
            popart.Builder(str(tmp_path / "none.onnx"))
        with pytest.raises(popart.FileError):
            popart.Builder(b"no model")
        with pytest.raises(popart.FileError, match="none/model.onnx"):
            popart.Builder().saveModelProto(tmp_path / "none" / "model.onnx")
        with pytest.raises(TypeError, match="int"):
            popart.Builder(3)


class TestPackage:
    def test_needs_no_torch(self):
        code = "import sys, sluice.popart; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_scripts_may_import_popart(self):
        compat = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "compat")
        code = "import popart; from popart import Builder, SyncPattern; print(popart.Builder().aiOnnx.constant([1.0]))"
        path = os.pathsep.join([compat, *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": path})
        assert (done.returncode, done.stdout) == (0, "Constant:0\n"), done.stderr

    def test_errors_are_those_of_sluice(self):
        import sluice

        assert popart.popart_exception is sluice.Error
        with pytest.raises(popart.popart_exception):
            popart.Builder().addOutputTensor("x")
        assert popart.reservedGradientPrefix() == "Gradient___"

    def test_loggers_have_levels(self):
        logger = popart.getLogger("session")
        logger.setLevel("WARN")
        logger.debug("not shown")
        with pytest.raises(popart.InvalidArgument, match="'LOUD'"):
            logger.setLevel("LOUD")
        with pytest.raises(AttributeError, match="AiOnnxOpset99"):
            popart.AiOnnxOpset99
