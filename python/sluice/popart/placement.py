"""Where the ops of a Builder run, what their ids begin with, and what is kept of their results."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any, Dict, Iterable, Iterator, List, Optional, Union

import numpy as np

from .. import _core
from . import _warn
from .enums import RecomputeType, TensorStorage
from .locations import TensorLocation
from .op_sets import OpSpec
from .tensor_info import data_type

Ids = Union[str, Iterable[str]]


def _listed(ids: Ids) -> List[str]:
    return [ids] if isinstance(ids, str) else list(ids)


class Placement:
    """The part of a Builder that says where and how its ops run."""

    _core: Any

    def __init__(self) -> None:
        self._scopes: List[str] = []
        self._kept: Dict[str, str] = {}  # tensors whose later uses read a checkpoint of them
        self._place: Dict[str, List[int]] = {"device": [], "stage": [], "phase": []}
        self._location: Optional[TensorLocation] = None

    def _placement(self, field: str, first: Any, value: Optional[int]) -> Any:
        if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
            return self._placed(field, int(first))
        for name in _listed(first):
            self._core.place(field, name, 0 if value is None else int(value))
        return None

    @contextmanager
    def _placed(self, field: str, number: int) -> Iterator[None]:
        with _core.PlacementScope(self._core, field, number):
            self._place[field].append(number)
            try:
                yield
            finally:
                self._place[field].pop()

    def _placement_of(self, field: str, name: str, ids: Optional[Ids]) -> int:
        number = (self._place[field] or [-1])[-1] if ids is None else max(
            self._core.placement(each, field) for each in _listed(ids))
        if number < 0:
            raise _core.InvalidArgument(f"{name}: none is set")
        return number

    def virtualGraph(self, nodeOutputNames: Union[int, Ids], value: Optional[int] = None) -> Any:
        """virtualGraph(tensor, n) puts the op that made a tensor on device n of a replica, and
        `with virtualGraph(n):` all ops made inside."""
        return self._placement("device", nodeOutputNames, value)

    def pipelineStage(self, nodeOutputNames: Union[int, Ids], value: Optional[int] = None) -> Any:
        """pipelineStage(tensor, n), or `with pipelineStage(n):`."""
        return self._placement("stage", nodeOutputNames, value)

    def executionPhase(self, nodeOutputNames: Union[int, Ids] = 0, value: Optional[int] = None) -> Any:
        """executionPhase(tensor, n), or `with executionPhase(n):`."""
        return self._placement("phase", nodeOutputNames, value)

    def getVirtualGraph(self, nodeOutputNames: Optional[Ids] = None) -> int:
        return self._placement_of("device", "getVirtualGraph", nodeOutputNames)

    def getPipelineStage(self, nodeOutputNames: Optional[Ids] = None) -> int:
        return self._placement_of("stage", "getPipelineStage", nodeOutputNames)

    def getExecutionPhase(self, nodeOutputNames: Optional[Ids] = None) -> int:
        return self._placement_of("phase", "getExecutionPhase", nodeOutputNames)

    def hasVirtualGraph(self) -> bool:
        return bool(self._place["device"])

    def hasPipelineStage(self) -> bool:
        return bool(self._place["stage"])

    def hasExecutionPhase(self) -> bool:
        return bool(self._place["phase"])

    @contextmanager
    def nameScope(self, name: str) -> Iterator[None]:
        """The ids of tensors made inside begin with the name."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def getNameScope(self, name: str = "") -> str:
        return "".join(f"{each}/" for each in self._scopes) + name

    # -- memory and recomputation ------------------------------------------------------------------

    def outputTensorLocation(self, first: Union[Ids, TensorLocation], value: Optional[TensorLocation] = None) -> Any:
        """outputTensorLocation(tensor, location), or `with outputTensorLocation(location):`."""
        if isinstance(first, TensorLocation):
            return self._located(first)
        location = TensorLocation() if value is None else value
        for name in _listed(first):
            self._core.set_on_chip(name, location.storage == TensorStorage.OnChip)
        return None

    @contextmanager
    def _located(self, location: TensorLocation) -> Iterator[None]:
        outer, self._location = self._location, location
        try:
            yield
        finally:
            self._location = outer

    def checkpointOutput(self, nodeOutputNames: Ids) -> List[str]:
        """The tensors, as values that are kept when activations are recomputed."""
        spec = OpSpec("recomputation_checkpoint", domain="sluice")
        return [self._op(spec, [name], {}, 1, "", {})[0] for name in _listed(nodeOutputNames)]

    def recomputeOutput(self, first: Union[Ids, RecomputeType] = RecomputeType.Undefined,
                        value: Optional[RecomputeType] = None) -> Any:
        """With Checkpoint, ops that use the tensor from now on read a value that is kept. Single ops cannot be
        marked for recomputation: `autoRecomputation` of the session's options says what is recomputed."""
        if isinstance(first, RecomputeType):
            if first != RecomputeType.Undefined:
                _warn.once("recomputeOutput as a scope has no effect: set autoRecomputation, and mark tensors to keep "
                           "with checkpointOutput")
            return nullcontext()
        kind = RecomputeType.Undefined if value is None else value
        for name in _listed(first):
            if kind == RecomputeType.Checkpoint:
                self._kept[name] = self.checkpointOutput(name)[0]
            elif kind != RecomputeType.Undefined:
                _warn.once("recomputeOutput(tensor, Recompute) has no effect: set autoRecomputation of the session's "
                           "options")
        return None

    def recomputeOutputInBackwardPass(self, nodeOutputName: Ids,
                                      value: RecomputeType = RecomputeType.Recompute) -> None:
        self.recomputeOutput(nodeOutputName, value)

    def setAvailableMemoryProportion(self, nodeOutputName: Ids, availableMemoryProportion: float) -> None:
        """Changes no result. Session options have a proportion for all ops."""
        self._require(nodeOutputName)
        if not 0 < availableMemoryProportion <= 1:
            raise _core.InvalidArgument(
                f"setAvailableMemoryProportion: expected a share above 0 and up to 1, got {availableMemoryProportion}")
        _warn.once("setAvailableMemoryProportion of a tensor has no effect: the options of a session have one for all")

    def setPartialsType(self, nodeOutputName: Ids, partialsType: Any) -> None:
        """Changes nothing for one op: `partialsTypeMatMuls` of the session's options is for all."""
        self._require(nodeOutputName)
        if data_type(partialsType).name not in ("FLOAT", "FLOAT16"):
            raise _core.InvalidArgument(f"setPartialsType: expected FLOAT or HALF, got {partialsType!r}")
        _warn.once("setPartialsType of a tensor has no effect: set partialsTypeMatMuls of the session's options")

    def setSerializeMatMul(self, nodeOutputName: Ids, mode: str, factor: int = 0, keep_precision: bool = False) -> None:
        """Changes no result and, for a Builder, nothing else."""
        self._require(nodeOutputName)
        _warn.once("setSerializeMatMul has no effect for a Builder's graph")

    @contextmanager
    def schedulePriority(self, value: float) -> Iterator[None]:
        """Ops run in the order in which they are made; the priority is not used."""
        float(value)
        _warn.once("schedulePriority has no effect: ops run in the order in which they are made")
        yield

    def _require(self, ids: Ids) -> None:
        for name in _listed(ids):
            self._core.shape(name)
