"""Builder: a graph made op by op, with PopART's names."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Type, Union

import numpy as np

from .. import _core
from . import _warn
from .graphcore_ops import AiGraphcore
from .models import ModelProto, graph_of, model_bytes, write_file
from .op_sets import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET, OpSet, OpSpec, onnx_op_set
from .placement import Placement
from .tensor_info import TensorInfo, data_type, numpy_name


class DebugContext:
    """A name for what is made; PopART's form of a debug name."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class InputSettings:
    """How an input reaches its device. Inputs overlap by the options of the session instead."""

    def __init__(self, *settings: Any, **named: Any) -> None:
        if settings or named:
            _warn.once("InputSettings have no effect: the options of a session say how inputs are loaded")


class Builder(Placement):
    """Builds a graph. Tensors are identified by unique texts.

    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 8]), "x")
    with builder.pipelineStage(1):
        y = builder.aiOnnx.relu([x])
    builder.addOutputTensor(y)

    `aiOnnx` has ONNX's ops in the form of opset 10, or of `opsets["ai.onnx"]`, and newer ops in the form of
    opset 17; `aiOnnxOpset6` to `aiOnnxOpset17` have those of one opset. `aiGraphcore` has PopART's own.
    `dir()` and `help()` of them list the ops with their attributes.
    """

    def __init__(self, modelProtoOrFilename: Union[None, bytes, str, os.PathLike] = None,
                 opsets: Optional[Mapping[str, int]] = None, *, name: str = "main",
                 parent: Optional["Builder"] = None) -> None:
        super().__init__()
        self._core = _core.Builder(name) if modelProtoOrFilename is None else graph_of(modelProtoOrFilename)
        self._opset = int((opsets or {}).get("ai.onnx", DEFAULT_OPSET))
        self._parent = parent
        self._captured: Dict[str, str] = {}  # inputs that are tensors of the parent
        self._sets: Dict[str, OpSet] = {}
        onnx_op_set(self._opset)  # refuses an opset that there is not

    # -- op sets -----------------------------------------------------------------------------------

    def _set(self, name: str, kind: Type[OpSet]) -> OpSet:
        if name not in self._sets:
            self._sets[name] = kind(self)
        return self._sets[name]

    @property
    def aiOnnx(self) -> OpSet:
        return self._set("aiOnnx", onnx_op_set(self._opset, strict=False))

    @property
    def aiGraphcore(self) -> OpSet:
        return self._set("aiGraphcore", AiGraphcore)

    aiGraphcoreOpset1 = aiGraphcore

    @property
    def aiOnnxMl(self) -> OpSet:
        raise _core.Unsupported("the ops of the domain ai.onnx.ml (trees, encoders of texts) are not supported")

    aiOnnxMlOpset1 = aiOnnxMl

    def __getattr__(self, name: str) -> Any:
        if name.startswith("aiOnnxOpset") and name[11:].isdigit():
            return self._set(name, onnx_op_set(int(name[11:])))
        raise AttributeError(f"Builder has no '{name}'{_warn.did_you_mean(name, dir(self))}")

    def __dir__(self) -> List[str]:
        sets = [f"aiOnnxOpset{n}" for n in range(OLDEST_OPSET, NEWEST_OPSET + 1)]
        return sorted({*super().__dir__(), *sets})

    def _op(self, spec: OpSpec, inputs: Sequence[str], attributes: Mapping[str, Any], outputs: int, context: Any,
            bodies: Mapping[str, "Builder"]) -> List[str]:
        graphs = {}
        for attribute, body in bodies.items():
            if not isinstance(body, Builder):
                raise TypeError(f"{spec.op}, {attribute}: expected a Builder, got {body!r}")
            if body._captured and spec.op != "Call":
                raise _core.Unsupported(
                    f"{spec.op}: its graph reads '{next(iter(body._captured.values()))}' of the graph around it; pass "
                    "it to the op as a value that the graph returns unchanged")
            graphs[attribute] = body._core
        stem = self._stem(context)
        ids = self._core.op(spec.domain, spec.op, self._resolved(inputs), dict(attributes), outputs, spec.opset,
                            f"{stem}/{spec.op}" if stem else "", graphs)
        if self._location is not None:
            self.outputTensorLocation(ids, self._location)
        return ids

    def _resolved(self, ids: Sequence[str]) -> List[str]:
        for each in ids:
            if not isinstance(each, str):
                raise TypeError(f"expected the id of a tensor, got {each!r}")
        return [self._kept.get(each, each) for each in ids]

    def _stem(self, context: Any) -> str:
        name = getattr(context, "name", context)
        return "/".join([*self._scopes, *([str(name)] if name else [])])

    def _free(self, context: Any, default: str) -> str:
        """A name that no tensor has; PopART numbers those that are asked for again."""
        stem = self._stem(context)
        if not getattr(context, "name", context):
            stem = f"{stem}/{default}" if stem else default
            return next(f"{stem}:{i}" for i in range(2**31) if f"{stem}:{i}" not in self._core)
        return stem if stem not in self._core else next(
            f"{stem}/{i}" for i in range(1, 2**31) if f"{stem}/{i}" not in self._core)

    # -- tensors -----------------------------------------------------------------------------------

    def addInputTensor(self, *args: Any, debugContext: Any = "", debugPrefix: Any = "", **named: Any) -> str:
        """An input that the host feeds for every micro-batch.

        addInputTensor(TensorInfo("FLOAT", [2]), "x"); addInputTensor("FLOAT", [2], "x")
        """
        left = list(args)
        info = named.pop("tensorInfo", None)
        if info is None and left and isinstance(left[0], (TensorInfo, np.ndarray)):
            info = left.pop(0)
            info = info if isinstance(info, TensorInfo) else TensorInfo(info)
        if info is None:
            kind = named.pop("dataType") if "dataType" in named else left.pop(0)
            info = TensorInfo(kind, named.pop("shape") if "shape" in named else left.pop(0))
        settings = [each for each in left if isinstance(each, InputSettings)] + [named.pop("settings", None)]
        names = [each for each in left if not isinstance(each, InputSettings)]
        if named or len(names) > 1 or len(settings) > 2:
            raise TypeError(f"addInputTensor: unexpected {[*names[1:], *named]}")
        name = self._free(names[0] if names else debugContext or debugPrefix, "input")
        return self._core.add_input(numpy_name(info.dataType()), info.shape(), name)

    def addUntypedInputTensor(self, debugContext: Any = "") -> str:
        """An input of an inner graph that has the type of the tensor of that name in the graph around it."""
        name = str(getattr(debugContext, "name", debugContext))
        if self._parent is None or name not in self._parent._core:
            raise _core.Unsupported(
                f"addUntypedInputTensor('{name}'): the graph around has no tensor of that name; shapes are static, so "
                "use addInputTensor with the type")
        core = self._parent._core
        return self._core.add_input(core.dtype(name), core.shape(name), self._free(name, "input"))

    def addInputTensorFromParentGraph(self, tensorId: str) -> str:
        """A tensor of the graph around this one."""
        if self._parent is None or tensorId not in self._parent._core:
            raise _core.InvalidArgument(f"the graph around has no tensor '{tensorId}'")
        core = self._parent._core
        name = self._core.add_input(core.dtype(tensorId), core.shape(tensorId), self._free(tensorId, "input"))
        self._captured[name] = tensorId
        return name

    def addInitializedInputTensor(self, initVal: Any, debugContext: Any = "", debugPrefix: Any = "") -> str:
        """A weight that starts with this value; it is trained if its type is a float type."""
        name = self._free(debugContext or debugPrefix, "init")
        return self._core.add_weight(_core.HostTensor(np.asarray(initVal)), name)

    def addConstant(self, value: Any, debugContext: Any = "") -> str:
        """A tensor that never changes."""
        return self._core.add_constant(_core.HostTensor(np.asarray(value)), self._free(debugContext, "Constant"))

    def addOutputTensor(self, outputName: str) -> None:
        """Makes a tensor an output; what is an output already stays one."""
        if outputName not in self._core.outputs():
            self._core.add_output(outputName)

    def reshape_const(self, aiOnnx: OpSet, args: Sequence[str], shape: Iterable[int], debugContext: Any = "") -> str:
        """reshape to a shape that is known."""
        return aiOnnx.reshape([args[0], aiOnnx.constant(np.asarray(list(shape), np.int64))], debugContext)

    def customOp(self, opName: str, opVersion: int = 1, domain: str = "", inputs: Sequence[str] = (),
                 attributes: Optional[Mapping[str, Any]] = None, numOutputs: int = 1, name: str = "", *,
                 example_outputs: Sequence[TensorInfo] = ()) -> List[str]:
        """An op from a library that was loaded with sluice.load_custom_ops."""
        examples = [(info.shape(), numpy_name(info.dataType())) for info in example_outputs]
        ids = self._core.custom_op(self._resolved(inputs), opName, domain, opVersion, examples, dict(attributes or {}))
        if len(ids) != numOutputs:
            raise _core.InvalidArgument(f"customOp: {opName} has {len(ids)} results, got numOutputs = {numOutputs}")
        return ids

    # -- inner graphs ------------------------------------------------------------------------------

    def createSubgraphBuilder(self) -> "Builder":
        """A builder for a graph inside this one: the body of a call, loop, scan or condition."""
        return Builder(opsets={"ai.onnx": self._opset}, name="inner", parent=self)

    def setGraphName(self, name: str) -> None:
        """Names the graph; only messages show the name."""
        if self._core.num_ops() == 0:
            self._core = _core.Builder(name)

    def _inputs_for(self, args: Sequence[str]) -> List[str]:
        """What a call passes: the arguments, and the tensors of the parent where they are inputs."""
        left = list(args)
        inputs = self._core.inputs()
        if len(left) != len(inputs) - len(self._captured):
            raise _core.InvalidArgument(
                f"call: the graph has {len(inputs) - len(self._captured)} inputs, got {len(left)} tensors")
        return [self._captured[each] if each in self._captured else left.pop(0) for each in inputs]

    # -- what there is -----------------------------------------------------------------------------

    def getTensorShape(self, id: str) -> List[int]:  # noqa: A002: PopART's name
        return list(self._core.shape(id))

    def getTensorDtypeString(self, id: str) -> str:  # noqa: A002
        return TensorInfo(self._core.dtype(id), []).data_type_lcase()

    def getTensorDtype(self, id: str) -> Any:  # noqa: A002
        return data_type(self._core.dtype(id))

    def getInputTensorIds(self) -> List[str]:
        return self._core.inputs()

    def getOutputTensorIds(self) -> List[str]:
        return self._core.outputs()

    def getValueTensorIds(self) -> List[str]:
        known = {*self.getInputTensorIds(), *self.getTrainableTensorIds()}
        return [name for name in self._core.tensors() if name not in known]

    def getTrainableTensorIds(self) -> List[str]:
        return [name for name, trained in self._core.weights() if trained]

    def isInitializer(self, id: str) -> bool:  # noqa: A002
        return any(name == id for name, _ in self._core.weights())

    def getModelProto(self) -> ModelProto:
        """The graph as the bytes of an ONNX model. A session made from these bytes in this process has the graph
        itself, with its placements; to other tools they are what the standard can say."""
        return ModelProto.of(self._core.snapshot(True))

    def saveModelProto(self, filename: Union[str, os.PathLike]) -> None:
        """Writes the graph as an ONNX file. Virtual graphs, stages and phases are attributes of its nodes."""
        write_file(filename, model_bytes(self._core))
