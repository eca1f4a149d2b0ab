"""PopART's enumerations. Where the number matters to PopART's users, it is PopART's."""

from __future__ import annotations

import enum


class AccumulateOuterFragmentSchedule(enum.IntEnum):
    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


class AdamMode(enum.IntEnum):
    Adam = 0
    AdamNoBias = 1
    AdaMax = 2
    Lamb = 3
    LambNoBias = 4


class AdaptiveMode(enum.IntEnum):
    AdaGrad = 0
    RMSProp = 1
    CenteredRMSProp = 2
    AdaDelta = 3


class AnchorReturnTypeId(enum.IntEnum):
    Final = 0
    EveryN = 1
    All = 2
    Sum = 3


class CollectiveOperator(enum.IntEnum):
    Add = 0
    Mean = 1
    Mul = 2
    Min = 3
    Max = 4
    LogicalAnd = 5
    LogicalOr = 6
    SquareAdd = 7
    Local = 8


class CommGroupType(enum.IntEnum):
    All = 0
    Consecutive = 1
    Orthogonal = 2


class DeviceConnectionType(enum.IntEnum):
    Always = 0
    OnDemand = 1
    Never = 2


class DeviceSelectionCriterion(enum.IntEnum):
    First = 0
    Random = 1


class DeviceType(enum.IntEnum):
    IpuModel = 0
    Cpu = 1
    Ipu = 2
    Sim = 3


class ExchangeStrategy(enum.IntEnum):
    JustInTime = 0
    OverlapInnerLoop = 1
    OverlapLoops = 2
    OverlapStep = 3


class ExecutionPhaseIOSchedule(enum.IntEnum):
    Preload = 0
    OnDemand = 1


class ExecutionPhaseSchedule(enum.IntEnum):
    Interleaving = 0
    Batch = 1
    BatchClusteredIO = 2


class InitType(enum.IntEnum):
    NoInit = 0
    Zero = 1


class Instrumentation(enum.IntEnum):
    Outer = 0
    Inner = 1


class MeanReductionStrategy(enum.IntEnum):
    Running = 0
    Post = 1
    PostAndLoss = 2


class MergeVarUpdateType(enum.IntEnum):
    Off = 0
    All = 1
    AutoLoose = 2
    AutoTight = 3


class PatternsLevel(enum.IntEnum):
    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3


class RecomputationType(enum.IntEnum):
    NoRecompute = 0
    Standard = 1
    NormOnly = 2
    Pipeline = 3
    RecomputeAll = 4


class RecomputeType(enum.IntEnum):
    Undefined = 0
    Checkpoint = 1
    Recompute = 2
    Recomputed = 3


class ReductionType(enum.IntEnum):
    Sum = 0
    Mean = 1
    NoReduction = 2


class ReplicatedTensorSharding(enum.IntEnum):
    Off = 0
    On = 1


class SGDAccumulatorAndMomentum(enum.IntEnum):
    Combined = 0
    Separate = 1


class ScatterReduction(enum.IntEnum):
    Sum = 0
    Max = 1
    Min = 2
    Mul = 3
    NoReduction = 4


class SubgraphCopyingStrategy(enum.IntEnum):
    OnEnterAndExit = 0
    JustInTime = 1


class SyncPattern(enum.IntEnum):
    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class SyntheticDataMode(enum.IntEnum):
    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class TensorRemapType(enum.IntEnum):
    FwdBwdReverse = 0
    FwdBwd = 1
    Fwd = 2


class TensorStorage(enum.IntEnum):
    OffChip = 0
    OnChip = 1


class TileSet(enum.IntEnum):
    Compute = 0
    IO = 1


class VirtualGraphMode(enum.IntEnum):
    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


class WeightDecayMode(enum.IntEnum):
    Decay = 0
    L2Regularization = 1


__all__ = [name for name, value in globals().items()
           if isinstance(value, type) and issubclass(value, enum.IntEnum) and name != "IntEnum"]
