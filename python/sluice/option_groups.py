"""The groups of ``Options``: Training, Precision, Jit, TensorLocations, Distributed and _Popart.

Setters return the group, so they chain: ``options.Training.gradientAccumulation(8)``.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional, Union

from ._option_base import Settings, warn_no_effect
from .enums import HalfFloatCastingBehavior, MeanReductionStrategy, ReductionType
from .strategy import TensorLocationSettings


class _Group(Settings):
    def __init__(self, options: Any) -> None:
        self._options = options

    def _owner(self) -> Any:
        return self._options

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._changed() == other._changed()  # type: ignore

    __hash__ = None  # type: ignore[assignment]


class _TrainingOptions(_Group):
    """Settings that matter only when training."""

    _prefix = "training."
    _values_by_name = {
        "meanAccumulationAndReplicationReductionStrategy": (
            "setMeanAccumulationAndReplicationReductionStrategy",
            -1,
        ),
    }

    def gradientAccumulation(self, gradient_accumulation: int) -> "_TrainingOptions":
        """Micro-batches per weight update."""
        return self._apply("gradientAccumulation", gradient_accumulation)

    def accumulationAndReplicationReductionType(
        self, reduction_type: ReductionType
    ) -> "_TrainingOptions":
        """How gradients are reduced over micro-batches and replicas: Mean (default) or Sum."""
        return self._apply("accumulationAndReplicationReductionType", reduction_type)

    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> "_TrainingOptions":
        """How a mean is computed. Accumulators in float16 use the running mean by default."""
        return self._apply(
            "setMeanAccumulationAndReplicationReductionStrategy", mean_reduction_strategy
        )

    def setAutomaticLossScaling(self, enabled: bool, *settings: Any) -> "_TrainingOptions":
        """Adapts the loss scaling to the size of the float16 gradients.

        Further arguments are the location of the bin's edge, the upper proportion, the period of
        updates, the tracking method and the tensors that it tracks, as in docs/optimizers.md.
        """
        return self._apply("setAutomaticLossScaling", enabled, *settings)

    def setConvolutionDithering(self, enabled: bool) -> "_TrainingOptions":
        """A hint to planners that spread convolutions over tiles; changes no result."""
        return self._apply("setConvolutionDithering", enabled)

    def replicationReductionType(
        self, reduction_type: Optional[ReductionType]
    ) -> "_TrainingOptions":
        """How gradients are reduced over replicas only; None: as over micro-batches."""
        return self._apply("replicationReductionType", reduction_type)

    def logGradientStatistics(self, period: int) -> "_TrainingOptions":
        """Logs the norm and extremes of every gradient at every ``period``-th update; 0: never."""
        return self._apply("logGradientStatistics", period)


class _PrecisionOptions(_Group):
    """Types and rounding; docs/precision.md describes them."""

    _prefix = "precision."

    def autocastEnabled(self, enabled: bool) -> "_PrecisionOptions":
        """If false, every request for autocast is ignored."""
        return self._apply("autocastEnabled", enabled)

    def autocastPolicy(self, policy: Any) -> "_PrecisionOptions":
        """Says which functions autocast runs in which type: an ``autocasting.Policy``."""
        return self._apply("autocastPolicy", policy)

    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> "_PrecisionOptions":
        """How operands are cast when a function gets both float16 and float32."""
        return self._apply("halfFloatCasting", half_float_casting)

    def runningStatisticsAlwaysFloat(self, value: bool) -> "_PrecisionOptions":
        """If false, batch norm averages its statistics in the type of its input."""
        return self._apply("runningStatisticsAlwaysFloat", value)

    def enableFloatingPointExceptions(self, enabled: bool) -> "_PrecisionOptions":
        """Ends a step with an error at the first op that makes a NaN or an infinity."""
        return self._apply("enableFloatingPointExceptions", enabled)

    def enableStochasticRounding(self, enabled: bool) -> "_PrecisionOptions":
        """Rounds new values of 16-bit weights up or down at random, right on average."""
        return self._apply("enableStochasticRounding", enabled)

    def setPartialsType(self, dtype: Any) -> "_PrecisionOptions":
        """The type in which products of float16 may accumulate: torch.float32 or torch.float16."""
        from ._values import dtype_name

        return self._apply("setPartialsType", dtype_name(dtype))


class _JitOptions(_Group):
    """How forward becomes a graph."""

    _prefix = "jit."

    def traceModel(self, trace_model: bool) -> "_JitOptions":
        """Accepted for programs that set it; forward always becomes a graph in the same way."""
        if trace_model is False:
            warn_no_effect("Jit.traceModel(False)")
            return self
        return self._apply("traceModel", trace_model)


class _TensorLocationOptions(_Group):
    """Where a model keeps its tensors: on the devices or in remote memory."""

    _prefix = "tensorLocations."

    def numIOTiles(self, num_tiles: int) -> "_TensorLocationOptions":
        """Tiles of a device that only move data: an even number from 32 to 192, or 0."""
        return self._apply("numIOTiles", num_tiles)

    def setActivationLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where activations wait between the passes of a stage."""
        return self._apply("setActivationLocation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where weights are between their uses."""
        return self._apply("setWeightLocation", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where the optimizer's state is between updates."""
        return self._apply("setOptimizerLocation", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Where gradients are added up over micro-batches."""
        return self._apply("setAccumulatorLocation", location)

    def setTensorLocation(self, name: str, on_chip: bool) -> "_TensorLocationOptions":
        """Where one tensor is, whatever its class and size say."""
        return self._apply("setTensorLocation", name, on_chip)


class _DistributedOptions(_Group):
    """Which of several processes this one is; by default mpirun's variables say so."""

    _prefix = "distributed."
    _values_by_name = {
        "distributed_process_id": ("configureProcessId", 0),
        "num_distributed_processes": ("configureProcessId", 1),
    }

    def shareModel(self, on: bool) -> "_DistributedOptions":
        """Whether all processes share replicas and devices and are called with the same data."""
        return self._apply("shareModel", on)

    def disable(self) -> "_DistributedOptions":
        """Makes this the only process, whatever the environment says."""
        return self._apply("disable")

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> "_DistributedOptions":
        """The environment variables with the number of processes and the id of this one."""
        return self._apply("setEnvVarNames", var_num_processes, var_process_id)

    def configureProcessId(self, process_id: int, num_processes: int) -> "_DistributedOptions":
        """Sets the id of this process and the number of processes."""
        return self._apply("configureProcessId", process_id, num_processes)

    @property
    def sharesModel(self) -> bool:
        """What shareModel has set."""
        return self.value("shareModel")

    @property
    def processId(self) -> int:
        """The id of this process."""
        return self.value("configureProcessId")[0]

    @property
    def numProcesses(self) -> int:
        """The number of processes."""
        return self.value("configureProcessId")[1]


def _has_counterpart(popart_name: str) -> bool:
    """Whether the core knows an option by its name in PopART."""
    from . import _core

    try:
        _core.Options().apply("popart.set", popart_name, 0)
    except ValueError as error:
        return "unknown option" not in str(error)
    return True


class _PopartOptions(_Group):
    """Options by PopART's names. It has no values of its own: each name is a setter of Options."""

    _prefix = "popart."

    def checkIsFrozen(self, option: Optional[str] = None) -> None:
        """Raises an error if the options are already in use."""
        if self._options.frozen:
            what = f" ({option})" if option else ""
            raise AttributeError(f"can't modify frozen options{what}: clone() gives a copy")

    def set(self, key: str, value: Any) -> "_PopartOptions":
        """Sets the option with this name in PopART; one without a counterpart warns, once."""
        try:
            return self._apply("set", key, value)
        except (TypeError, ValueError):  # of a type that no option here has, perhaps
            if _has_counterpart(key):
                raise
            warn_no_effect("_Popart.set", key)
            return self

    def setEngineOptions(self, engine_options: Mapping[str, str]) -> "_PopartOptions":
        """Accepted without effect: there is no Poplar engine."""
        dict(engine_options)
        warn_no_effect("_Popart.setEngineOptions")
        return self

    def setPatterns(
        self, patterns: Union[Iterable[str], Dict[str, bool]], level: int = 2
    ) -> "_PopartOptions":
        """Accepted without effect: passes of the compiler are not chosen one by one."""
        list(patterns)
        warn_no_effect("_Popart.setPatterns")
        return self

    def __call__(self) -> "_PopartOptions":
        """The group itself, for the core's spelling ``options.popart()``."""
        return self
