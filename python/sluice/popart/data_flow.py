"""What a step takes and returns: DataFlow, AnchorReturnType and the arrays of a step."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from .. import _core
from .enums import AnchorReturnTypeId, ExchangeStrategy, TileSet
from . import _warn


class AnchorReturnType:
    """Which micro-batches of an anchor come back: "All", "Final", "Sum", or "EveryN" with a period."""

    def __init__(self, anchorReturnTypeString: str, returnPeriod: Optional[int] = None,
                 tileSet: TileSet = TileSet.Compute,
                 exchangeStrategy: ExchangeStrategy = ExchangeStrategy.JustInTime) -> None:
        if isinstance(returnPeriod, TileSet):  # PopART's second form has no period
            returnPeriod, tileSet = None, returnPeriod
        self._core = _core.AnchorReturnType(anchorReturnTypeString, returnPeriod)
        self._tile_set = tileSet
        self._exchange = exchangeStrategy
        if tileSet != TileSet.Compute or exchangeStrategy != ExchangeStrategy.JustInTime:
            _warn.once("AnchorReturnType: tileSet and exchangeStrategy have no effect: devices have "
                       "no tiles here, and outputs overlap by the options")

    def id(self) -> AnchorReturnTypeId:
        return AnchorReturnTypeId[self._core.mode]

    def rp(self) -> int:
        """The period; 1 unless EveryN."""
        return self._core.period

    def tileSet(self) -> TileSet:
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        return self._exchange

    def __repr__(self) -> str:
        period = f", {self.rp()}" if self.id() == AnchorReturnTypeId.EveryN else ""
        return f"AnchorReturnType({self._core.mode!r}{period})"


class DataFlow:
    """A step runs over `batchesPerStep` batches and returns the anchors.

    DataFlow(4, {loss: AnchorReturnType("Sum")}); DataFlow(4, [a, b], AnchorReturnType("All"))
    """

    def __init__(self, batchesPerStep: int,
                 anchorTensors: Union[Mapping[str, AnchorReturnType], Sequence[str]] = (),
                 anchorReturnType: Optional[AnchorReturnType] = None, *,
                 anchorIds: Optional[Sequence[str]] = None) -> None:
        given = anchorTensors if anchorIds is None else anchorIds
        if isinstance(given, Mapping):
            self._anchors = dict(given)
        else:
            default = AnchorReturnType("All") if anchorReturnType is None else anchorReturnType
            self._anchors = {name: default for name in given}
        for name, kind in self._anchors.items():
            if not isinstance(kind, AnchorReturnType):
                raise TypeError(f"DataFlow: the anchor '{name}' needs an AnchorReturnType, got {kind!r}")
        self._batches = batchesPerStep
        self._core = _core.DataFlow(batchesPerStep, {n: k._core for n, k in self._anchors.items()})

    def batchesPerStep(self) -> int:
        return self._batches

    def anchors(self) -> List[str]:
        return list(self._anchors)

    def nAnchors(self) -> int:
        return len(self._anchors)

    def isAnchored(self, name: str) -> bool:
        return name in self._anchors

    def art(self, name: str) -> AnchorReturnType:
        return self._anchors[name]


class PyStepIO:
    """The arrays of a step: inputs by name, and arrays that the results are written into."""

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, np.ndarray]) -> None:
        self._inputs = {name: np.asarray(array) for name, array in inputs.items()}
        self._outputs = dict(outputs)
        self._asserts = True

    def enableRuntimeAsserts(self, on: bool) -> None:
        """If off, arrays may have more elements than needed; the first ones are used."""
        self._asserts = bool(on)

    def _run(self, session: Any) -> None:
        run_on_arrays(session, self._inputs, self._outputs, self._asserts)


class PyStepIOCallback:
    """A step whose data comes from functions, one micro-batch at a time.

    `input_callback(name, prefetch)` returns an array for the next micro-batch of an input, and
    `output_callback(name)` an array that the next result of an anchor is written into. The other two
    are told when that array has been used. An exception in one of them ends the step and reaches the
    caller of run; no later micro-batch has been asked for then.
    """

    def __init__(self, input_callback: Callable[[str, bool], np.ndarray],
                 input_complete_callback: Callable[[str], Any],
                 output_callback: Callable[[str], np.ndarray],
                 output_complete_callback: Callable[[str], Any]) -> None:
        self._input = input_callback
        self._input_complete = input_complete_callback
        self._output = output_callback
        self._output_complete = output_complete_callback

    def _run(self, session: Any) -> None:
        inputs = self._gathered(session)
        outputs = {name: tensor.array() for name, tensor in session.anchor_arrays().items()}
        run_on_arrays(session, inputs, outputs, True)
        for name, array in outputs.items():
            self._deliver(name, array, session.micro_batch_shape(name))

    def _gathered(self, session: Any) -> Dict[str, np.ndarray]:
        iterations, accumulation, _, replicas = session.layout
        wanted = session.input_types()
        parts: Dict[str, List[np.ndarray]] = {name: [] for name in wanted}
        for _ in range(iterations * accumulation * replicas):
            for name, (dtype, shape) in wanted.items():
                part = np.asarray(self._input(name, False))
                elements = int(np.prod(shape, dtype=np.int64))
                if part.dtype != dtype or part.size != elements:
                    raise _core.InvalidArgument(
                        f"input_callback: '{name}' is {dtype}{list(shape)} per micro-batch, got "
                        f"{part.dtype}{list(part.shape)}")
                parts[name].append(part.reshape(shape).copy())
                self._input_complete(name)
        return {name: np.stack(each) if wanted[name][1] else each[0] for name, each in parts.items()}

    def _deliver(self, name: str, array: np.ndarray, shape: Sequence[int]) -> None:
        for part in array.reshape((-1, *shape)):
            target = self._output(name)
            if not isinstance(target, np.ndarray) or target.dtype != part.dtype or target.size != part.size:
                raise _core.InvalidArgument(
                    f"output_callback: '{name}' needs an array of {part.dtype}{list(shape)}, got "
                    f"{getattr(target, 'dtype', type(target).__name__)}"
                    f"{list(getattr(target, 'shape', ()))}")
            target[...] = part.reshape(target.shape)
            self._output_complete(name)


def host_tensor(array: np.ndarray, dtype: Optional[str]) -> Any:
    """The array as the library takes it. NumPy has no bfloat16; such tensors are given as their bits in int16."""
    bits = dtype == "bfloat16" and array.dtype in (np.int16, np.uint16)
    return _core.HostTensor(array, dtype if bits else None)


def run_on_arrays(session: Any, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray],
                  asserts: bool) -> None:
    """Runs a step. Results are written into the caller's own arrays, whatever their strides."""
    direct, indirect = {}, {}
    for name, array in outputs.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"PyStepIO: the output '{name}' needs a NumPy array to write into, got "
                            f"{type(array).__name__}")
        if not array.flags.writeable:
            raise _core.InvalidArgument(f"PyStepIO: the array for output '{name}' is read-only")
        if not array.flags.c_contiguous:
            indirect[name] = np.ascontiguousarray(array)
        direct[name] = host_tensor(indirect.get(name, array), session.dtype(name))
    given = {name: host_tensor(array, session.dtype(name)) for name, array in inputs.items()}
    session.run(given, direct, asserts)
    for name, array in indirect.items():
        outputs[name][...] = array


class PyWeightsIO:
    """Arrays for weights, by name, for readWeights and writeWeights."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self._weights = dict(weights)
