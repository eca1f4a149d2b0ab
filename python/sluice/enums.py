"""The enumerations of the package.

Their names and values are those that PopTorch's users know; some have members of their own beside
them. An option takes a member, or its name as text: ``options.outputMode("All")``.
"""

from __future__ import annotations

import enum
from typing import Any, Dict

__all__ = [
    "AutoStage",
    "CommGroupType",
    "ConnectionType",
    "DataLoaderMode",
    "GradientTensorTrackingMethod",
    "HalfFloatCastingBehavior",
    "IoSchedule",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConvPlanType",
    "OutputMode",
    "OverlapMode",
    "PhaseOrder",
    "PhaseSchedule",
    "Recomputation",
    "ReductionType",
    "SharingStrategy",
    "SyncPattern",
    "SyntheticDataMode",
    "TraceValues",
    "VariableRetrievalMode",
    "VirtualGraphMode",
]


class CoreEnum(enum.Enum):
    """An enumeration that options take. Its members have names in the core."""

    @property
    def core_name(self) -> str:
        """The member as an options file writes it: ``OutputMode.All``."""
        owner = _CORE_TYPES.get(type(self).__name__, type(self).__name__)
        return f"{owner}.{_CORE_MEMBERS.get(self, self.name)}"

    def to_core(self) -> Any:
        """The member as an argument of ``_core.Options.apply``."""
        from . import _core

        return _core.Name(self.core_name)


class OutputMode(CoreEnum):
    """Which micro-batches of a call come back to the host.

    Final: the last one; EveryN: every n-th one; All: all; Sum: the sum of all; Default: All for
    inference and Final for training.
    """

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class ConnectionType(CoreEnum):
    """When devices are acquired: at the start, when the program is ready, or not at all."""

    Always = 0
    OnDemand = 1
    Never = 2


class HalfFloatCastingBehavior(CoreEnum):
    """What a function with float16 and float32 operands computes in. Default: float16."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class ReductionType(CoreEnum):
    """How the gradients of several micro-batches and replicas become one: their mean or sum."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(CoreEnum):
    """How a mean of gradients is computed: as a running mean, or divided at the end."""

    Running = 0
    Post = 1
    PostAndLoss = 2


class SyncPattern(CoreEnum):
    """Which devices meet at the barriers of ``Options.barriers``."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class MatMulSerializationMode(CoreEnum):
    """Which dimension of [m, n] x [n, p] ``serializedMatMul`` cuts: m, n, p or none."""

    InputChannels = "serialize_input_channels"
    ReducingDim = "serialize_reducing_dim"
    OutputChannels = "serialize_output_channels"
    Disabled = "none"


class Liveness(CoreEnum):
    """Where the tensors of phased execution are between their phases."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class OverlapMode(CoreEnum):
    """When inputs or outputs are copied while their device computes."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class AutoStage(CoreEnum):
    """How blocks become stages if no stages are given: one per device, or one per block."""

    SameAsIpu = 0
    AutoIncrement = 1
    SameAsDevice = 0


class MultiConvPlanType(CoreEnum):
    """Whether the convolutions of a ``MultiConv`` share a device or take turns. A hint."""

    Parallel = 0
    Serial = 1


class CommGroupType(CoreEnum):
    """Which replicas form a group."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(CoreEnum):
    """Which copies of a variable are read: one per group of replicas, or all."""

    OnePerGroup = 0
    AllReplicas = 1


class SyntheticDataMode(CoreEnum):
    """What devices use in place of inputs."""

    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class TraceValues(CoreEnum):
    """What traces keep of every value that a kernel, a copy or a sum writes."""

    Nothing = 0
    Hashes = 1
    All = 2


class VirtualGraphMode(CoreEnum):
    """How the ops of a Builder's graph get their devices."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


class GradientTensorTrackingMethod(CoreEnum):
    """Which gradients automatic loss scaling counts."""

    AllNonViewChangingGradientTensors = 0
    ConvAndMatmulGradients = 1
    GradientsOfUserSpecifiedTensors = 2


class IoSchedule(CoreEnum):
    """Whether the data of a phase is loaded while the previous phase computes."""

    Automatic = 0
    Preload = 1
    OnDemand = 2


class PhaseSchedule(CoreEnum):
    """How computation and transfers of a phase are ordered."""

    Automatic = 0
    Interleaving = 1
    Batch = 2
    BatchClusteredIO = 3


class PhaseOrder(CoreEnum):
    """Whether a phase runs for all micro-batches, or all phases run for a micro-batch."""

    Automatic = 0
    PhaseMajor = 1
    MicroBatchMajor = 2


# "None" is a keyword, so this one cannot be written as a class; Off is another name for it.
Recomputation = CoreEnum(  # type: ignore[misc]
    "Recomputation",
    {"Default": 0, "None": 1, "Pipeline": 2, "Standard": 3, "NormOnly": 4, "All": 5, "Off": 1},
    module=__name__,
    qualname="Recomputation",
)
Recomputation.__doc__ = "Which activations are computed again for the backward pass. Off: none."


class DataLoaderMode(enum.Enum):
    """How a DataLoader reads.

    Sync: when the batch is asked for. Async: ahead, in a thread. AsyncRebatched: like Async, and
    workers read small parts that the thread joins, so that no worker keeps a remainder.
    """

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(enum.Enum):
    """How a loading process hands over data. Accepted: a thread loads, so nothing is shared."""

    SharedMemory = "file_descriptor"
    FileSystem = "file_system"
    Fork = "fork"
    ForkServer = "forkserver"


_CORE_TYPES: Dict[str, str] = {"HalfFloatCastingBehavior": "HalfFloatCasting"}
_CORE_MEMBERS: Dict[enum.Enum, str] = {
    AutoStage.SameAsIpu: "SameAsDevice",
    TraceValues.Nothing: "None",
}

#: The enumerations by the name of their type in the core.
BY_CORE_TYPE: Dict[str, Any] = {
    _CORE_TYPES.get(each.__name__, each.__name__): each for each in CoreEnum.__subclasses__()
}
