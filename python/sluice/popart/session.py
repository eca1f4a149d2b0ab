"""Sessions: they compile a graph, feed it and fetch from it."""

from __future__ import annotations

import copy
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .. import _core, _forks
from . import _warn
from .builder import Builder
from .data_flow import DataFlow, PyStepIO, PyStepIOCallback, PyWeightsIO
from .devices import DeviceInfo
from .enums import VirtualGraphMode
from .models import graph_of, model_bytes, write_file
from .optimizers import Optimizer
from .session_options import SessionOptions
from .tensor_info import TensorInfo

_GRADIENT = "Gradient___"

Model = Union[bytes, str, os.PathLike, Builder]


class Patterns:
    """PopART's choice of rewrites. It is accepted; Sluice has its own rewrites, which change no result."""

    def __init__(self, patterns: Any = None, level: Any = None) -> None:
        self._on: Dict[str, bool] = {}
        if isinstance(patterns, (list, tuple)):
            self._on.update({str(name): True for name in patterns})

    def enablePattern(self, name: str, on: bool) -> "Patterns":
        self._on[name] = bool(on)
        return self

    def isPatternEnabled(self, name: str) -> bool:
        return self._on.get(name, False)

    def enableRuntimeAsserts(self, on: bool) -> "Patterns":
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.isPatternEnabled(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._on[name] = bool(value)


class InputShapeInfo:
    """The types of inputs that a model does not say. Models have static shapes here: use sluice's ONNX importer."""

    def __init__(self) -> None:
        self._infos: Dict[str, TensorInfo] = {}

    def add(self, name: str, info: TensorInfo) -> None:
        self._infos[name] = info

    def get(self, name: str) -> TensorInfo:
        return self._infos[name]

    def has(self, name: str) -> bool:
        return name in self._infos


class _Steps:
    """What a StepIO needs of a session."""

    def __init__(self, core: Any, graph: Any) -> None:
        self._core = core
        self._graph = graph
        self.run = core.run
        self.anchor_arrays = core.anchor_arrays

    @property
    def layout(self) -> Tuple[int, int, int, int]:
        return self._core.layout

    def dtype(self, name: str) -> Optional[str]:
        """None for a name that the graph does not have."""
        name = _without_prefix(name)
        return self._graph.dtype(name) if name in self._graph else None

    def input_types(self) -> Dict[str, Tuple[np.dtype, Tuple[int, ...]]]:
        types = {name: self._graph.dtype(name) for name in self._graph.inputs()}
        return {name: (np.dtype("int16" if dtype == "bfloat16" else dtype), self._graph.shape(name))
                for name, dtype in types.items()}

    def micro_batch_shape(self, anchor: str) -> Tuple[int, ...]:
        return self._graph.shape(_without_prefix(anchor))


def _without_prefix(name: str) -> str:
    return name[len(_GRADIENT):] if name.startswith(_GRADIENT) else name


class _Session(_forks.Watched):
    """What both kinds of session do. Several threads may run one; the host's weights belong to one thread."""

    def __init__(self, fnModel: Model, dataFlow: DataFlow, deviceInfo: Optional[DeviceInfo],
                 inputShapeInfo: Optional[InputShapeInfo], userOptions: Optional[SessionOptions],
                 training: bool) -> None:
        if not isinstance(dataFlow, DataFlow):
            raise TypeError(f"a session needs a popart.DataFlow, got {dataFlow!r}")
        options = SessionOptions() if userOptions is None else userOptions
        if not isinstance(options, SessionOptions):
            raise TypeError(f"a session needs popart.SessionOptions, got {options!r}")
        self._graph = graph_of(fnModel, training).snapshot(training)
        self._flow = dataFlow
        self._check_shapes(inputShapeInfo)
        self._options = options._core_options()
        if deviceInfo is not None:
            deviceInfo._apply(self._options)
            if options.virtualGraphMode == VirtualGraphMode.Auto:
                self._options.apply("devicesPerReplica", deviceInfo.numIpus // options.replicatedGraphCount)
        self._changed = False
        self._prepared = False
        _forks.watch(self)

    def _after_fork(self) -> None:
        core = self.__dict__.get("_core")
        if core is not None:
            _forks.lose(core)
            self._core = _forks.Lost("session")

    def _check_shapes(self, infos: Optional[InputShapeInfo]) -> None:
        for name, info in (infos._infos if infos is not None else {}).items():
            if name in self._graph and self.getInfo(name) != info:
                raise _core.InvalidArgument(
                    f"inputShapeInfo: '{name}' is {self.getInfo(name)} in the model, got {info}; export the model with "
                    "that shape")

    @property
    def dataFlow(self) -> DataFlow:
        return self._flow

    @property
    def replicationFactor(self) -> int:
        return self._core.layout[2]

    @property
    def accumulationFactor(self) -> int:
        return self._core.layout[1]

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Plans memory, compiles the graph and loads the program."""
        self._core.prepare()
        self._prepared = True

    def loadEngineAndConnectStreams(self) -> None:
        """prepareDevice has done it already."""
        if not self._prepared:
            raise _core.InvalidArgument("loadEngineAndConnectStreams: call prepareDevice first")

    def compileAndExport(self, filename: Union[str, os.PathLike]) -> None:
        """Compiles as prepareDevice does, and writes the program and the weights to a file that loadExecutable,
        `sluice run` and C++ read."""
        if not self._prepared:
            self.prepareDevice()
        self._core.model.save(os.fspath(filename))

    def loadExecutable(self, filename: Union[str, os.PathLike]) -> None:
        """Takes the program of a file that compileAndExport of a session of the same model and options has written,
        instead of compiling it. The weights stay this session's. Call it before prepareDevice."""
        if self._prepared:
            raise _core.InvalidArgument("loadExecutable: call it before prepareDevice")
        self._core.model.load_executable(os.fspath(filename))

    loadExecutableFromFile = loadExecutable

    def initAnchorArrays(self) -> Dict[str, np.ndarray]:
        """Arrays for the anchors, of the shapes that a step gives."""
        return {name: tensor.array() for name, tensor in self._core.anchor_arrays().items()}

    def run(self, stepio: Union[PyStepIO, PyStepIOCallback], debugName: str = "") -> None:
        """Runs a step and writes its results into the arrays of `stepio`. Ctrl-C ends it."""
        if not isinstance(stepio, (PyStepIO, PyStepIOCallback)):
            raise TypeError(f"run needs a PyStepIO or PyStepIOCallback, got {stepio!r}")
        if not self._prepared:
            raise _core.InvalidArgument("run: call prepareDevice first")
        stepio._run(_Steps(self._core, self._graph))

    def getInfo(self, name: str) -> TensorInfo:
        """The type of a tensor, or of its gradient, in one micro-batch."""
        of = _without_prefix(name)
        return TensorInfo(self._graph.dtype(of), self._graph.shape(of))

    # -- weights -----------------------------------------------------------------------------------

    def weightsFromHost(self) -> None:
        """Copies the host's weights to the devices."""
        self._core.weights_from_host()

    def weightsToHost(self) -> None:
        """Copies the weights of the devices to the host, where readWeights finds them."""
        self._core.weights_to_host()

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copies the host's weights into the arrays."""
        weights = self._core.weights()
        for name, array in weightsIo._weights.items():
            value = self._host_weight(weights, name, array)
            if not array.flags.writeable:
                raise _core.InvalidArgument(f"readWeights: the array for '{name}' is read-only")
            array[...] = value.array().reshape(array.shape)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Makes the arrays the host's weights; weightsFromHost brings them to the devices."""
        weights = self._core.weights()
        for name, array in weightsIo._weights.items():
            shape = self._host_weight(weights, name, array).shape
            self._core.set_weight(name, _core.HostTensor(np.array(array).reshape(shape)))
            self._changed = True

    def _host_weight(self, weights: Mapping[str, Any], name: str, array: np.ndarray) -> Any:
        if name not in weights:
            raise _core.InvalidArgument(f"there is no weight '{name}'{_warn.did_you_mean(name, weights)}")
        value = weights[name]
        if array.dtype != np.dtype(value.dtype) or array.size != int(np.prod(value.shape, dtype=np.int64)):
            raise _core.InvalidArgument(
                f"the weight '{name}' is {value.dtype}{list(value.shape)}, got {array.dtype}{list(array.shape)}")
        return value

    def resetHostWeights(self, modelProtoOrFilename: Model,
                         ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False) -> None:
        """Makes the weights of another model the host's; weightsFromHost brings them to the devices."""
        other = graph_of(modelProtoOrFilename)
        given = {name: other.start_value(name).array() for name, _ in other.weights()}
        known = self._core.weights()
        if ignoreWeightsInModelWithoutCorrespondingHostWeight:
            given = {name: value for name, value in given.items() if name in known}
        self.writeWeights(PyWeightsIO(given))

    def modelToHost(self, filename: Union[str, os.PathLike]) -> None:
        """Writes the model with its current weights as an ONNX file."""
        self._core.weights_to_host()
        write_file(filename, model_bytes(self._graph, self._core.weights()))

    # -- the rest ----------------------------------------------------------------------------------

    def setRandomSeed(self, seedValue: int) -> None:
        """Random numbers of later steps start anew from this seed."""
        self._core.model.rng_state = (int(seedValue), 0)

    def getRNGState(self) -> List[int]:
        """The seed, and the number of micro-batches since it was set."""
        return list(self._core.model.rng_state)

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        seed, micro_batch = rngValue
        self._core.model.rng_state = (int(seed), int(micro_batch))

    def getCycleCount(self, id: str = "") -> int:  # noqa: A002: PopART's name
        """Of the last step; needs instrumentWithHardwareCycleCounter."""
        return self._core.model.cycle_count()

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """The weights, and how the compiled program runs."""
        return f"{self._core.model.summary()}\n{self._core.model.explain()}"

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_OFFERED:
            raise _core.Unsupported(f"{name}: {_NOT_OFFERED[name]}")
        raise AttributeError(f"{type(self).__name__} has no '{name}'{_warn.did_you_mean(name, dir(type(self)))}")


#: PopART's methods that have no counterpart, with the reason.
_NOT_OFFERED = {
    "getReport": "there is no Poplar report; getSummaryReport shows the plan",
    "getSerializedGraph": "there is no Poplar graph; modelToHost writes the model",
    "connectStreamToCallback": "streams are inputs and outputs of the graph; use PyStepIOCallback",
    "getHostReduceStreamIds": "gradients are not reduced on the host",
    "updateExternallySavedTensorLocations": "weights are saved with the model",
    "getIr": "PopART's intermediate representation does not exist here",
}


class TrainingSession(_Session):
    """Trains a graph.

    flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("All")})
    session = popart.TrainingSession(builder.getModelProto(), flow, loss, popart.ConstSGD(0.1),
                                     popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    """

    def __init__(self, fnModel: Model, dataFlow: DataFlow, loss: str, optimizer: Optimizer,
                 deviceInfo: Optional[DeviceInfo] = None, inputShapeInfo: Optional[InputShapeInfo] = None,
                 patterns: Optional[Patterns] = None, userOptions: Optional[SessionOptions] = None,
                 name: str = "training") -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"TrainingSession needs an optimizer of popart, got {optimizer!r}")
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, userOptions, True)
        self._optimizer = copy.deepcopy(optimizer)
        self._core = _core.GraphSession.training(self._graph, dataFlow._core, loss, optimizer._core_optimizer(),
                                                 self._options)

    def updateOptimizerFromHost(self, optimizer: Optimizer) -> None:
        """Takes the optimizer's variable numbers from now on."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"updateOptimizerFromHost needs an optimizer of popart, got {optimizer!r}")
        self._optimizer._require_same(optimizer)
        self._core.model.set_optimizer(optimizer._core_optimizer())
        self._optimizer = copy.deepcopy(optimizer)

    def optimizerFromHost(self) -> None:
        """Nothing is left to do: the optimizer is on the devices since prepareDevice."""
        self.loadEngineAndConnectStreams()


class InferenceSession(_Session):
    """Runs a graph. Its weights are constants of the program unless `constantWeights` of the options is False.
    Dropout passes everything."""

    def __init__(self, fnModel: Model, dataFlow: DataFlow, deviceInfo: Optional[DeviceInfo] = None,
                 inputShapeInfo: Optional[InputShapeInfo] = None, patterns: Optional[Patterns] = None,
                 userOptions: Optional[SessionOptions] = None, name: str = "inference") -> None:
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, userOptions, False)
        if not self._graph.outputs():
            for anchor in dataFlow.anchors():
                self._graph.add_output(anchor)
        self._constant = bool((userOptions or SessionOptions()).constantWeights)
        self._core = _core.GraphSession.inference(self._graph, dataFlow._core, self._options, self._constant)

    def weightsFromHost(self) -> None:
        """Copies the host's weights to the devices. Constant weights are there already."""
        if self._constant and not self._changed:
            self.loadEngineAndConnectStreams()
        else:
            super().weightsFromHost()
