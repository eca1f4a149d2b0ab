"""The ops of PopART's own domain, with the parameters that PopART gives them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import numpy as np

from .. import _core
from . import _warn
from .enums import CollectiveOperator, ReductionType
from .op_sets import Attribute, OpSet, OpSpec, make_op_set, onnx_specs
from .tensor_info import DataType

if TYPE_CHECKING:
    from .builder import Builder

DOMAIN = "ai.graphcore"

_MANY = 2**31 - 1
_MEAN = ReductionType.Mean


def _spec(op: str, inputs: Any, *attributes: Attribute, outputs: Any = 1, doc: str = "") -> OpSpec:
    def both(count: Any) -> Any:
        return count if isinstance(count, tuple) else (count, count)

    return OpSpec(op, attributes, both(inputs), both(outputs), 1, DOMAIN, doc)


_AXES = Attribute("axes", "ints")
_SIZES = Attribute("sizes", "ints")
_NO_OVERLAP = Attribute("noOverlap", "int", 0)
_COLLECTIVE = Attribute("collectiveOperator", "int", CollectiveOperator.Add, "__collectiveOperator")
_COMM_GROUP = Attribute("commGroup", "ints", None, "__collectiveCommGroup")
_REPLICAS = Attribute("replicas", "int", None)
_REDUCTION = Attribute("reduction", "reduction", _MEAN)

SPECS: Dict[str, OpSpec] = {
    "atan2": _spec("Atan2", 2, doc="As in C: the first tensor is the ordinate."),
    "batchnormalization": _spec(
        "BatchNormalization", 5, Attribute("epsilon", "float", 1e-5), Attribute("momentum", "float", 0.9),
        outputs=(1, 5), doc="With five results it is the training form: y, the new running mean and "
        "variance, and the batch's own."),
    "bitwiseand": _spec("BitwiseAnd", 2),
    "bitwisenot": _spec("BitwiseNot", 1),
    "bitwiseor": _spec("BitwiseOr", 2),
    "bitwisexnor": _spec("BitwiseXnor", 2),
    "bitwisexor": _spec("BitwiseXor", 2),
    "bucketize": _spec("Bucketize", 2, Attribute("right", "int", 0)),
    "castthenpow2scale": _spec(
        "CastThenPow2Scale", 2, Attribute("to", "str", "FLOAT"), Attribute("from_", "str", "FLOAT8_143", "from")),
    "ctcbeamsearchdecoder": _spec(
        "CtcBeamSearchDecoder", 2, Attribute("blank", "int", 0), Attribute("beamWidth", "int", 100),
        Attribute("topPaths", "int", 1), outputs=3,
        doc="The probabilities, lengths and labels of the most likely sequences."),
    "ctcloss": _spec(
        "Ctc", 4, _REDUCTION, Attribute("blank", "int", 0), Attribute("outDataType", "int", None),
        Attribute("zeroInfinity", "bool", False)),
    "detach": _spec("Detach", 1, doc="No gradient passes."),
    "dynamicadd": _spec("DynamicAdd", 3, _AXES, _SIZES),
    "dynamicslice": _spec("DynamicSlice", 2, _AXES, _SIZES, _NO_OVERLAP),
    "dynamicupdate": _spec("DynamicUpdate", 3, _AXES, _SIZES, _NO_OVERLAP),
    "dynamiczero": _spec("DynamicZero", 2, _AXES, _SIZES),
    "expm1": _spec("Expm1", 1),
    "fmod": _spec("Fmod", 2, doc="The result has the sign of the first tensor."),
    "gelu": _spec("Gelu", 1, doc="By tanh; geluerf is by the error function."),
    "geluerf": _spec("GeluErf", 1),
    "groupnormalization": _spec(
        "GroupNormalization", 3, Attribute("num_groups", "int"), Attribute("epsilon", "float", 1e-5), outputs=3,
        doc="The result, and the mean and the reciprocal deviation of each group."),
    "histogram": _spec("Histogram", 1, Attribute("levels", "floats"), Attribute("absoluteOfInput", "bool", False)),
    "identityloss": _spec("IdentityLoss", 1, _REDUCTION),
    "incrementmod": _spec("IncrementMod", 1, Attribute("increment", "float"), Attribute("modulus", "float")),
    "l1loss": _spec("L1", 1, Attribute("lambda_", "float", onnx="lambda"), _REDUCTION),
    "log1p": _spec("Log1p", 1),
    "nllloss": _spec(
        "Nll", 2, _REDUCTION, Attribute("ignoreIndex", "int", None), Attribute("inputIsLogProbability", "bool", False)),
    "nop": _spec("Nop", 1),
    "pow2scalethencast": _spec("Pow2ScaleThenCast", 2, Attribute("to", "str", "FLOAT8_143")),
    "remainder": _spec("Remainder", 2, doc="The result has the sign of the second tensor."),
    "replicatedallgather": _spec("ReplicatedAllGather", 1, _REPLICAS),
    "replicatedallreduce": _spec("ReplicatedAllReduce", 1, _COLLECTIVE, _COMM_GROUP, _REPLICAS),
    "replicatedreducescatter": _spec("ReplicatedReduceScatter", 1, _COLLECTIVE, _COMM_GROUP, _REPLICAS),
    "reshape": _spec("Reshape", 1, Attribute("shape", "ints")),
    "reverse": _spec("Reverse", 1, Attribute("dimensions", "ints")),
    "round": _spec("Round", 1),
    "scale": _spec("Scale", 1, Attribute("scale", "float")),
    "scaledadd": _spec("ScaledAdd", (2, 4), Attribute("scale0", "float", 1.0), Attribute("scale1", "float", 1.0)),
    "scatterreduce": _spec(
        "ScatterReduce", (2, 3), Attribute("axis_size", "int"), Attribute("axis", "int", -1),
        Attribute("reduction", "reduction", "sum"), Attribute("group_size", "int", 1)),
    "sequenceslice": _spec("SequenceSlice", 5, Attribute("zeroUnused", "int", 0)),
    "shapeddropout": _spec("ShapedDropout", 1, Attribute("shape", "ints"), Attribute("ratio", "float", 0.5)),
    "sort": _spec("Sort", 1, Attribute("axis", "int", -1), Attribute("descending", "bool", False), outputs=2),
    "splinebasis": _spec("SplineBasis", 3, Attribute("degree", "int", 1), outputs=2),
    "splineweighting": _spec("SplineWeighting", 4),
    "square": _spec("Square", 1),
    "subsample": _spec("Subsample", 1, Attribute("strides", "ints")),
    "swish": _spec("Swish", 1),
    "tensorremap": _spec("TensorRemap", 1, Attribute("remap_type", "int", 0), doc="The tensor itself."),
    "zeros": _spec("Zeros", 0, Attribute("shape", "ints"), Attribute("dtype", "int", DataType.FLOAT)),
    "zeroslike": _spec("ZerosLike", 1),
}
#: Ops of the domain that are methods of their own below.
WRITTEN_OUT = {"Abort": "abort", "Call": "call", "HostLoad": "hostload", "HostStore": "hoststore", "Init": "init",
               "MultiConv": "multiconv", "PackedDataBlock": "packedDataBlock", "PrintTensor": "printtensor",
               "RemoteLoad": "remoteload", "RemoteStore": "remotestore"}


class GraphcoreOps(OpSet):
    """Ops of the domain that a table cannot say."""

    def abort(self, args: Sequence[str] = (), debugContext: Any = "") -> None:
        """Ends the run with a sluice.DeviceError: always, or if an element of the tensor is not 0."""
        self._builder._core.abort(*self._builder._resolved(args))

    def printtensor(self, args: Sequence[str], print_gradient: int = 1, debugContext: Any = "", title: str = "") -> str:
        """The tensor itself, which every run logs; the op is dropped if nothing uses its result."""
        (x,) = self._builder._resolved(args)
        return self._builder._core.print(x, bool(print_gradient), title or self._builder._stem(debugContext) or x)

    def init(self, shape: Sequence[int], data_type: Any, init_type: int = 1, batch_axis: int = -1,
             debugContext: Any = "") -> str:
        """A tensor of zeros, whatever init_type says."""
        return self.zeros(shape, data_type, debugContext)

    def depthtospace(self, args: Sequence[str], blocksize: int, mode: str = "DCR", debugContext: Any = "") -> str:
        """ONNX's op of opset 11, which has modes."""
        return self._builder._op(onnx_specs(11)["depthtospace"], args, {"blocksize": int(blocksize), "mode": mode}, 1,
                                 debugContext, {})[0]

    def hostload(self, args: Sequence[str], hostStreamTensorId: str, debugContext: Any = "") -> str:
        """An input that the host feeds for every micro-batch; it has the type of the tensor."""
        (like,) = self._builder._resolved(args)
        core = self._builder._core
        return core.add_input(core.dtype(like), core.shape(like), hostStreamTensorId)

    def hoststore(self, args: Sequence[str], hostStreamTensorId: str, debugContext: Any = "") -> None:
        """Makes the tensor an output under this name."""
        (x,) = self._builder._resolved(args)
        self._builder._core.host_store(x, hostStreamTensorId)

    def remoteload(self, args: Sequence[str], remoteBufferId: int, repeats: int = 1, debugContext: Any = "") -> str:
        """A row of a buffer that the model keeps: the first tensor gives its type, the second its number."""
        like, offset = (*self._builder._resolved(args), "")[:2]
        return self._builder._core.remote_load(remoteBufferId, repeats, like, offset)

    def remotestore(self, args: Sequence[str], remoteBufferId: int, repeats: int = 1, debugContext: Any = "") -> None:
        """Stores the first tensor in the buffer's row whose number is the second."""
        x, offset = (*self._builder._resolved(args), "")[:2]
        self._builder._core.remote_store(remoteBufferId, repeats, x, offset)

    def call(self, args: Sequence[str], num_outputs: int, callee: "Builder", debugContext: Any = "") -> List[str]:
        """The results of another builder's graph for these tensors."""
        inputs = callee._inputs_for(args)
        results = len(callee._core.outputs())
        if num_outputs != results:
            raise _core.InvalidArgument(f"call: the graph has {results} outputs, got num_outputs = {num_outputs}")
        spec = _spec("Call", (0, _MANY), outputs=(1, _MANY))
        return self._builder._op(spec, inputs, {}, results, debugContext, {"callee": callee})

    def lstm(self, args: Sequence[str], outputFullSequence: int = 1, debugContext: Any = "") -> List[str]:
        """One layer of an LSTM: the outputs of all steps, or only the last one, and the last cell state.

        args: x [steps, batch, in]; weights [4, in + hidden, hidden], where the gates are forget, input, candidate and
        output; and, if wanted, biases [4, hidden], and the first output and cell state, [2, batch, hidden].
        """
        onnx, shape = self._builder.aiOnnxOpset9, self._builder.getTensorShape
        if not 2 <= len(args) <= 4:
            raise _core.InvalidArgument(f"lstm: expected two to four tensors, got {len(args)}")
        x, weights, *more = args
        size, hidden = shape(x)[-1], shape(weights)[-1]
        if len(shape(x)) != 3 or shape(weights) != [4, size + hidden, hidden]:
            raise _core.InvalidArgument(
                f"lstm: expected x [steps, batch, in] and weights [4, in + hidden, hidden], got {shape(x)} and "
                f"{shape(weights)}")

        def rows(start: int, end: int) -> str:
            part = onnx.slice([self._gates(weights)], axes=[1], starts=[start], ends=[end])
            return self._builder.reshape_const(onnx, [onnx.transpose([part], [0, 2, 1])], [1, 4 * hidden, end - start])

        inputs = [x, rows(0, size), rows(size, size + hidden)]
        if more:
            biases = self._builder.reshape_const(onnx, [self._gates(more[0])], [1, 4 * hidden])
            inputs.append(onnx.concat([biases, self.zeroslike([biases])], 1))
        if len(more) > 1:  # no lengths: all sequences have all steps
            inputs += ["", *(onnx.slice([more[1]], axes=[0], starts=[i], ends=[i + 1]) for i in (0, 1))]
        every, last, cell = onnx.lstm(inputs, 3, hidden_size=hidden)
        result = onnx.squeeze([every], [1]) if outputFullSequence else onnx.squeeze([last], [0])
        return [result, onnx.squeeze([cell], [0])]

    def _gates(self, x: str) -> str:
        """Rows in PopART's order of the gates of an LSTM as rows in ONNX's: input, output, forget, candidate."""
        order = self._builder.addConstant(np.array([1, 3, 0, 2], np.int64))
        return self._builder.aiOnnxOpset9.gather([x, order], 0)

    def reducemedian(self, args: Sequence[str], axes: Optional[Sequence[int]] = None, keepdims: int = 1,
                     debugContext: Any = "") -> List[str]:
        """The median over the axes, of an even number of elements the lower one in the middle, and its place among
        the elements of these axes."""
        onnx = self._builder.aiOnnxOpset9
        (x,) = args
        shape = self._builder.getTensorShape(x)
        gone = sorted({axis % len(shape) for axis in (range(len(shape)) if axes is None else axes)})
        kept = [axis for axis in range(len(shape)) if axis not in gone]
        count = math.prod(shape[axis] for axis in gone)
        moved = onnx.transpose([x], [*kept, *gone])
        flat = self._builder.reshape_const(onnx, [moved], [*(shape[axis] for axis in kept), count])
        middle = (count - 1) // 2
        parts = [onnx.slice([each], axes=[len(kept)], starts=[middle], ends=[middle + 1])
                 for each in self.sort([flat], -1)]
        extents = [1 if axis in gone else shape[axis] for axis in range(len(shape)) if keepdims or axis not in gone]
        return [self._builder.reshape_const(onnx, [each], extents) for each in parts]

    def packedDataBlock(self, args: Sequence[str], maxSequenceLengths: Sequence[int], resultSize: int,
                        callbackBatchSize: int, callback: "Builder", debugContext: Any = "") -> str:
        """Passes packed sequences, padded, to the graph `callback` and packs its results again."""
        attributes = {"maxSequenceLengths": [int(each) for each in maxSequenceLengths],
                      "resultSize": int(resultSize), "callbackBatchSize": int(callbackBatchSize)}
        spec = _spec("PackedDataBlock", (0, _MANY))
        return self._builder._op(spec, args, attributes, 1, debugContext, {"callback": callback})[0]

    packeddatablock = packedDataBlock

    def multiconv(self, args: Sequence[Sequence[str]], dilations: Sequence[Sequence[int]] = (),
                  inDilations: Sequence[Sequence[int]] = (), pads: Sequence[Sequence[int]] = (),
                  outPads: Sequence[Sequence[int]] = (), strides: Sequence[Sequence[int]] = (),
                  availableMemoryProportions: Sequence[float] = (), partialsTypes: Sequence[str] = (),
                  planType: Optional[str] = None, perConvReservedTiles: Optional[int] = None,
                  cycleBackOff: Optional[float] = None, debugContext: Any = "") -> List[str]:
        """Independent convolutions: a list of [x, w] each, and a list of attributes for each."""
        if inDilations or outPads:
            raise _core.Unsupported("multiconv: inDilations and outPads are not supported")
        if availableMemoryProportions or partialsTypes or planType or perConvReservedTiles or cycleBackOff:
            _warn.once("multiconv: memory proportions, partials, plan type, reserved tiles and back-off have no effect")
        core = self._builder._core
        attributes: Dict[str, List[int]] = {"dilations": [], "pads": [], "strides": []}
        for i, (x, *_) in enumerate(args):
            rank = len(core.shape(self._builder._resolved([x])[0])) - 2
            for name, given, default in (("dilations", dilations, [1] * rank), ("pads", pads, [0] * 2 * rank),
                                         ("strides", strides, [1] * rank)):
                attributes[name] += [int(each) for each in (given[i] if given and given[i] else default)]
        flat = [name for pair in args for name in pair]
        spec = _spec("MultiConv", (2, _MANY), outputs=(1, _MANY))
        return self._builder._op(spec, flat, attributes, len(args), debugContext, {})


AiGraphcore = make_op_set("AiGraphcoreOpset1", SPECS, "Ops of the domain ai.graphcore.", GraphcoreOps)
