"""PopART's interface: graphs built op by op, and sessions that run them. It needs NumPy and no torch.

    import sluice.popart as popart

    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 8]), "x")
    w = builder.addInitializedInputTensor(weights, "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss, popart.ConstSGD(0.01),
                                     popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: images}, anchors))
"""

from __future__ import annotations

from typing import Any

from .. import _core
from ..errors import *  # noqa: F401,F403
from .builder import Builder, DebugContext, InputSettings
from .data_flow import AnchorReturnType, DataFlow, PyStepIO, PyStepIOCallback, PyWeightsIO
from .devices import DeviceInfo, DeviceManager
from .enums import *  # noqa: F401,F403
from .graphcore_ops import AiGraphcore as AiGraphcoreOpset1
from .locations import TensorLocation, TensorLocationSettings
from .models import ModelProto
from .op_sets import DEFAULT_OPSET as defaultAiOnnxOpset
from .op_sets import NEWEST_OPSET, OLDEST_OPSET, onnx_op_set
from .optimizers import SGD, Adam, Adaptive, ClipNormSettings, ConstSGD, Optimizer, OptimizerValue
from .session import InferenceSession, InputShapeInfo, Patterns, TrainingSession
from .session_options import (AccumulateOuterFragmentSettings, AutomaticLossScalingSettings,
                              BatchSerializationSettings, ExecutionPhaseSettings, SessionOptions)
from .tensor_info import DataType, TensorInfo

defaultAiGraphcoreOpset = 1

popart_exception = _core.Error
popart_internal_exception = _core.InternalError
popart_runtime_error = _core.Error
poplar_exception = _core.DeviceError
poplar_runtime_error = _core.DeviceError
poplar_recoverable_runtime_error = _core.RecoverableError
poplar_unrecoverable_runtime_error = _core.UnrecoverableError
OutOfMemoryException = _core.OutOfMemory

#: The levels of PopART's loggers and of sluice's log.
_LEVELS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3, "WARNING": 3, "ERR": 4, "ERROR": 4, "CRITICAL": 4,
           "OFF": 6}


class Logger:
    """A part of the log. Levels are set for the whole of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def setLevel(self, level: str) -> None:
        """TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF."""
        if str(level).upper() not in _LEVELS:
            raise _core.InvalidArgument(f"there is no log level '{level}'; there are {', '.join(_LEVELS)}")
        _core.set_log_level(_LEVELS[str(level).upper()])

    def _write(self, level: str, text: Any) -> None:
        _core.log(_LEVELS[level], f"{self.name}: {text}")

    def debug(self, text: Any) -> None:
        self._write("DEBUG", text)

    def info(self, text: Any) -> None:
        self._write("INFO", text)

    def warn(self, text: Any) -> None:
        self._write("WARN", text)

    def error(self, text: Any) -> None:
        self._write("ERR", text)

    def critical(self, text: Any) -> None:
        self._write("CRITICAL", text)


def getLogger(name: str = "all") -> Logger:
    return Logger(name)


def reservedGradientPrefix() -> str:
    """What the names of gradients begin with: an anchor reservedGradientPrefix() + id is the gradient of id."""
    return "Gradient___"


def __getattr__(name: str) -> Any:
    """The classes of the op sets: AiOnnxOpset10 and so on."""
    if name.startswith("AiOnnxOpset") and name[11:].isdigit() and OLDEST_OPSET <= int(name[11:]) <= NEWEST_OPSET:
        return onnx_op_set(int(name[11:]))
    raise AttributeError(f"module 'sluice.popart' has no attribute '{name}'")
