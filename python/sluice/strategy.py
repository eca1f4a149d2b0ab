"""Execution strategies: how the blocks of a model become stages, and how the stages take turns.

    options.setExecutionStrategy(PipelinedExecution(Stage("B1").ipu(0), Stage("B2", "B3").ipu(1)))

A strategy and its stages are plain values: they can be compared, copied and pickled, and their
``repr`` is the code that makes them. ``.device(n)`` and ``.ipu(n)`` are the same.
"""

from __future__ import annotations

import enum
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from .enums import AutoStage, IoSchedule, Liveness, PhaseOrder, PhaseSchedule

__all__ = [
    "AutoStage",
    "ConcurrentStages",
    "Liveness",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "SerialPhasedExecution",
    "ShardedExecution",
    "Stage",
    "TensorLocationSettings",
]


class _Value:
    """Equality, copies and text by the fields of an object."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def _call(self) -> Tuple[str, Sequence[Any], Sequence[Tuple[str, Sequence[Any]]]]:
        """The name, the arguments and the calls chained to it, as the core writes them."""
        raise NotImplementedError

    def to_core(self) -> Any:
        """The object as an argument of ``_core.Options.apply``."""
        from . import _core
        from ._values import to_core

        name, arguments, chained = self._call()
        return _core.Call(
            name,
            [to_core(each) for each in arguments],
            then=[_core.Call(call, [to_core(each) for each in items]) for call, items in chained],
        )

    def __repr__(self) -> str:
        name, arguments, chained = self._call()
        text = f"{name}({', '.join(map(_text, arguments))})"
        for call, items in chained:
            text += f".{call}({', '.join(map(_text, items))})"
        return text


def _text(value: Any) -> str:
    return str(value) if isinstance(value, enum.Enum) else repr(value)


def _block_id(block: Any) -> str:
    if not isinstance(block, str):
        raise TypeError(f"a block's id is text, such as 'B1'; got {block!r}")
    return block


def _number(device: Any) -> int:
    if isinstance(device, bool) or not hasattr(device, "__index__"):
        raise TypeError(f"a device is a whole number, got {device!r}")
    return int(device)


class Stage(_Value):
    """The blocks that run together on one device: ``Stage("B1", "B2").ipu(0)``."""

    def __init__(self, *block_ids: str) -> None:
        if len(block_ids) == 1 and isinstance(block_ids[0], (list, tuple)):
            block_ids = tuple(block_ids[0])
        if not block_ids:
            raise ValueError("Stage: expected the ids of one or more blocks")
        self._blocks = [_block_id(block) for block in block_ids]
        self._device: Optional[int] = None

    @property
    def blocks(self) -> List[str]:
        """The ids of the stage's blocks."""
        return list(self._blocks)

    def device(self, device: int) -> "Stage":
        """Places the stage on this device of its replica, instead of the one its blocks name."""
        self._device = _number(device)
        return self

    def ipu(self, ipu: int) -> "Stage":
        """The same as ``device``."""
        return self.device(ipu)

    def _call(self):
        chained = [] if self._device is None else [("device", [self._device])]
        return "Stage", self._blocks, chained


class ConcurrentStages(_Value):
    """Stages of a pipeline that work on the same micro-batch at the same time."""

    def __init__(self, *stages: Union[Stage, str, Sequence[str]]) -> None:
        if len(stages) < 2:
            raise ValueError("ConcurrentStages: expected two or more stages")
        self._stages = [_as_stage(stage) for stage in stages]

    @property
    def blocks(self) -> List[str]:
        """The ids of the blocks of all branches."""
        return [block for stage in self._stages for block in stage.blocks]

    def _call(self):
        return "ConcurrentStages", self._stages, []


def _as_stage(value: Any) -> Any:
    if isinstance(value, (Stage, ConcurrentStages)):
        return value
    if isinstance(value, str):
        return Stage(value)
    if isinstance(value, (list, tuple)):
        return Stage(*value)
    hint = ": phases belong to the phased strategies" if isinstance(value, Phase) else ""
    raise TypeError(f"expected block ids, lists of ids and Stages, got {value!r}{hint}")


class Phase(_Value):
    """A part of a phased execution.

    ``Phase("B1", "B2")`` is one stage; ``Phase(Stage("B1"), Stage("B2"))`` has two stages, which
    run at the same time on devices of their own.
    """

    def __init__(self, *arg: Union[Stage, str]) -> None:
        if not arg:
            raise ValueError("Phase: expected block ids or Stages")
        if all(isinstance(each, str) for each in arg):
            arg = (Stage(*arg),)
        self._stages = [_as_stage(each) for each in arg]
        self._count: Optional[int] = None

    @classmethod
    def automatic(cls, count: int) -> "Phase":
        """Stands for ``count`` phases into which the model is cut."""
        phase = cls("unused")
        phase._stages, phase._count = [], _number(count)
        return phase

    @property
    def stages(self) -> List[Stage]:
        """The stages of the phase."""
        return list(self._stages)

    def stage(self, idx: int) -> Stage:
        """The stage with this position in the phase."""
        if not 0 <= idx < len(self._stages):
            raise IndexError(f"Phase: stage {idx} of {len(self._stages)} stages")
        return self._stages[idx]

    def devices(self, *devices: int) -> "Phase":
        """Places the stages on these devices, in order."""
        if len(devices) != len(self._stages):
            raise ValueError(
                f"Phase: {len(self._stages)} stages need as many devices, got {len(devices)}"
            )
        for stage, device in zip(self._stages, devices):
            stage.device(device)
        return self

    def ipus(self, *ipus: int) -> "Phase":
        """The same as ``devices``."""
        return self.devices(*ipus)

    def _call(self):
        if self._count is not None:
            return "Phase.automatic", [self._count], []
        return "Phase", self._stages, []


def _as_phase(value: Any) -> Phase:
    if isinstance(value, Phase):
        return value
    if isinstance(value, (list, tuple)):
        return Phase(*value)
    if isinstance(value, (Stage, str)):
        return Phase(value)
    raise TypeError(f"expected Phases, block ids and lists of ids or Stages, got {value!r}")


def _with_block(stages: Iterable[Any], block_id: str) -> Stage:
    """The stage that has the block; a branch counts if stages are concurrent."""
    known: List[str] = []
    for stage in stages:
        if block_id in stage.blocks:
            branches = getattr(stage, "_stages", None)
            return _with_block(branches, block_id) if branches else stage
        known += stage.blocks
    raise KeyError(f"no stage has the block {block_id!r}; the stages have {', '.join(known)}")


class Strategy(_Value):
    """What all strategies share."""

    def stage(self, block_id: str) -> Stage:
        """The stage that has this block, to be placed: ``strategy.stage("B2").ipu(1)``."""
        raise NotImplementedError


class _StageStrategy(Strategy):
    def __init__(self, *args: Union[AutoStage, Stage, str, Sequence[str]]) -> None:
        self._rule: Optional[AutoStage] = None
        self._stages: List[Any] = []
        if len(args) == 1 and isinstance(args[0], AutoStage):
            self._rule = args[0]
            return
        if any(isinstance(each, AutoStage) for each in args):
            raise TypeError(f"{type(self).__name__} takes one AutoStage, or stages, and not both")
        self._stages = [_as_stage(each) for each in args]

    _cut: Any = None

    @classmethod
    def automatic(cls, devices: Union[int, Sequence[float]]):
        """A stage for each of so many devices: the model is cut by the work of its ops.

        Blocks do not matter. A list has the devices' shares of the work.
        """
        execution = cls()
        shares = isinstance(devices, (list, tuple))
        execution._cut = [float(each) for each in devices] if shares else _number(devices)
        return execution

    def stage(self, block_id: str) -> Stage:
        """The stage that has this block, to be placed: ``strategy.stage("B2").ipu(1)``."""
        if not self._stages:
            raise KeyError(
                f"{type(self).__name__} makes its stages when the model is traced; give it the "
                f"block ids, {type(self).__name__}({block_id!r}, ...), to place one of them"
            )
        return _with_block(self._stages, block_id)

    def _call(self):
        if self._cut is not None:
            return f"{type(self).__name__}.automatic", [self._cut], []
        arguments = [self._rule] if self._rule is not None else self._stages
        return type(self).__name__, arguments, []


class PipelinedExecution(_StageStrategy):
    """Stages work on different micro-batches at the same time. The default.

    Takes an ``AutoStage``, or stages in their order: ``Stage`` objects, block ids (a stage of one
    block each) or lists of ids.
    """

    _schedule: Optional[str] = None

    def schedule(self, name: str) -> "PipelinedExecution":
        """Sets the order of stages and micro-batches: "1f1b", "sequential", "zb-h1" and others."""
        self._schedule = name
        return self

    _stages_per_device: Optional[int] = None

    def stagesPerDevice(self, count: int) -> "PipelinedExecution":
        """Cuts an automatic pipeline into several stages for each device."""
        self._stages_per_device = _number(count)
        return self

    def _call(self):
        name, arguments, _ = super()._call()
        chained = [] if self._schedule is None else [("schedule", [self._schedule])]
        if self._stages_per_device is not None:
            chained.append(("stagesPerDevice", [self._stages_per_device]))
        return name, arguments, chained


class ShardedExecution(_StageStrategy):
    """Stages run one after the other, one device at a time. Without stages, each block is one."""


class _PhasedExecution(Strategy):
    def __init__(self, *phases: Union[Phase, Stage, str, Sequence[Any]]) -> None:
        if not phases:
            raise ValueError(f"{type(self).__name__}: expected one or more phases")
        self._phases = [_as_phase(phase) for phase in phases]
        self._liveness: Optional[Liveness] = None
        self._separate: Optional[bool] = None
        self._more: List[Tuple[str, Any]] = []

    def phase(self, phase: int) -> Phase:
        """The phase with this number, to be placed: ``strategy.phase(0).ipus(0, 1)``."""
        if not isinstance(phase, int) or not 0 <= phase < len(self._phases):
            raise IndexError(
                f"{type(self).__name__}: phase {phase!r}, expected 0 to {len(self._phases) - 1}"
            )
        return self._phases[phase]

    def stage(self, block_id: str) -> Stage:
        """The stage that has this block."""
        return _with_block((s for phase in self._phases for s in phase.stages), block_id)

    def useSeparateBackwardPhase(self, use: bool = True):
        """Whether the last forward phase and the first backward phase are separate phases."""
        self._separate = bool(use)
        return self

    def setTensorsLiveness(self, liveness: Liveness):
        """Sets where tensors are between their phases."""
        self._liveness = Liveness[liveness] if isinstance(liveness, str) else Liveness(liveness)
        return self

    def order(self, order: PhaseOrder):
        """Whether a phase runs for all micro-batches, or all phases run for one."""
        return self._and("order", order)

    def io(self, schedule: IoSchedule):
        """When the data of a phase is loaded."""
        return self._and("io", schedule)

    def schedule(self, schedule: PhaseSchedule):
        """How computation and transfers of a phase are ordered."""
        return self._and("schedule", schedule)

    def _and(self, setter: str, value: Any):
        self._more = [each for each in self._more if each[0] != setter] + [(setter, value)]
        return self

    def _call(self):
        chained: List[Tuple[str, List[Any]]] = []
        if self._liveness is not None:
            chained.append(("setTensorsLiveness", [self._liveness]))
        if self._separate is not None:
            chained.append(("useSeparateBackwardPhase", [self._separate]))
        chained += [(setter, [value]) for setter, value in self._more]
        return type(self).__name__, self._phases, chained


class SerialPhasedExecution(_PhasedExecution):
    """One group of devices runs all phases in turn.

    Between its phases, what is needed much later is in remote memory. Takes ``Phase`` objects,
    block ids, or lists of ids or stages.
    """


class ParallelPhasedExecution(_PhasedExecution):
    """Two groups of devices take turns: one loads while the other computes."""

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> "ParallelPhasedExecution":
        """Whether tensors of the forward pass wait for the backward pass in remote memory."""
        return self.setTensorsLiveness(
            Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        )


class TensorLocationSettings(_Value):
    """Where the tensors of one class are kept, for ``options.TensorLocations``.

    ``TensorLocationSettings().useOnChipStorage(False)`` keeps them in remote memory.
    """

    def __init__(self) -> None:
        self._settings: List[Tuple[str, Any]] = []

    def useOnChipStorage(self, use: Optional[bool] = True) -> "TensorLocationSettings":
        """On the devices, in remote memory, or (None) wherever the strategy puts them."""
        return self._set("useOnChipStorage", use)

    def minElementsForOffChip(self, min_elements: int) -> "TensorLocationSettings":
        """Smaller tensors stay on the devices."""
        return self._set("minElementsForOffChip", min_elements)

    def useReplicatedTensorSharding(self, use: bool = True) -> "TensorLocationSettings":
        """Each replica keeps a part of every tensor. Ignored if there is only one replica."""
        return self._set("useReplicatedTensorSharding", use)

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> "TensorLocationSettings":
        """Smaller tensors are not divided among replicas."""
        return self._set("minElementsForReplicatedTensorSharding", min_elements)

    def useIOTilesToLoad(self, use: bool = True) -> "TensorLocationSettings":
        """A hint for devices with tiles that only move data."""
        return self._set("useIOTilesToLoad", use)

    def useIOTilesToStore(self, use: bool = True) -> "TensorLocationSettings":
        """A hint for devices with tiles that only move data."""
        return self._set("useIOTilesToStore", use)

    def _set(self, setter: str, value: Any) -> "TensorLocationSettings":
        self._settings = [each for each in self._settings if each[0] != setter] + [(setter, value)]
        return self

    def _call(self):
        return type(self).__name__, [], [(setter, [value]) for setter, value in self._settings]
