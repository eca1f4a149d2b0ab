"""SessionOptions: PopART's options as plain attributes, and what they mean here."""

from __future__ import annotations

import copy
import os
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from .. import _core
from . import _warn
from .enums import (AccumulateOuterFragmentSchedule, ExecutionPhaseIOSchedule, ExecutionPhaseSchedule,
                    MeanReductionStrategy, MergeVarUpdateType, RecomputationType, ReductionType,
                    SubgraphCopyingStrategy, SyntheticDataMode, VirtualGraphMode)
from .locations import TensorLocation, TensorLocationSettings


class _Record:
    """Attributes with defaults; others are refused."""

    _DEFAULTS: Dict[str, Any] = {}

    def __init__(self, *values: Any, **named: Any) -> None:
        given = {**dict(zip(self._DEFAULTS, values)), **named}
        for name, default in self._DEFAULTS.items():
            object.__setattr__(self, name, copy.deepcopy(default))
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            raise AttributeError(f"{type(self).__name__} has no '{name}'{_warn.did_you_mean(name, self._DEFAULTS)}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no '{name}'{_warn.did_you_mean(name, self._DEFAULTS)}")

    def __repr__(self) -> str:
        changed = [f"{name}={getattr(self, name)!r}" for name, default in self._DEFAULTS.items()
                   if repr(getattr(self, name)) != repr(default)]
        return f"{type(self).__name__}({', '.join(changed)})"


class ExecutionPhaseSettings(_Record):
    """The number of phases, and of groups of devices that take turns to run them. The schedules of transfers
    and of phases are planned and not set."""

    _DEFAULTS = {"phases": 0, "stages": 2, "weightIOSchedule": ExecutionPhaseIOSchedule.Preload,
                 "activationIOSchedule": ExecutionPhaseIOSchedule.Preload,
                 "optimizerStateIOSchedule": ExecutionPhaseIOSchedule.OnDemand,
                 "accumulatorIOSchedule": ExecutionPhaseIOSchedule.Preload,
                 "schedule": ExecutionPhaseSchedule.Interleaving}


class AutomaticLossScalingSettings(_Record):
    _DEFAULTS = {"enabled": False, "toTrackTensors": None, "binEdgeLocation": 0.125,
                 "thresholdUpperCountProportion": 1e-7, "updatePeriod": 1}


class BatchSerializationSettings(_Record):
    _DEFAULTS = {"factor": 0, "concatOnVirtualGraphChange": True, "concatOnExecutionPhaseChange": True,
                 "concatOnPipelineStageChange": True, "transformContext": 0, "method": 0, "batchSchedule": 1}


class AccumulateOuterFragmentSettings(_Record):
    _DEFAULTS = {"schedule": AccumulateOuterFragmentSchedule.Serial, "excludedVirtualGraphs": []}


def _popart(options: Any, name: str, value: Any) -> None:
    """Options that the library knows by PopART's names."""
    options.apply("popart.set", name, value)


def _setter(setting: str) -> Callable[[Any, str, Any], None]:
    return lambda options, _, value: options.apply(setting, value)


def _location(setting: str) -> Callable[[Any, str, Any], None]:
    def apply(options: Any, name: str, value: Any) -> None:
        if not isinstance(value, TensorLocationSettings):
            raise TypeError(f"{name} needs TensorLocationSettings, got {value!r}")
        options.apply(setting, value._call())

    return apply


def _loss_scaling(options: Any, _: str, value: AutomaticLossScalingSettings) -> None:
    if value.enabled:
        tracked = value.toTrackTensors
        method = "AllNonViewChangingGradientTensors" if tracked is None else "GradientsOfUserSpecifiedTensors"
        arguments = [True, float(value.binEdgeLocation), float(value.thresholdUpperCountProportion),
                     int(value.updatePeriod), _core.Name(f"GradientTensorTrackingMethod.{method}")]
        options.apply("training.setAutomaticLossScaling", *arguments, *([] if tracked is None else [list(tracked)]))


def _phases(options: Any, _: str, value: ExecutionPhaseSettings) -> None:
    if value.phases > 1:
        options.apply("executionPhases", int(value.phases), int(value.stages))


def _overrides(options: Any, _: str, value: Dict[str, TensorLocation]) -> None:
    for tensor, location in value.items():
        options.apply("tensorLocations.setTensorLocation", tensor, location.storage.name == "OnChip")


class _Option(NamedTuple):
    default: Any
    apply: Any = None  #: None: it has no effect here; else a function of the options, the name and the value


def _elsewhere(options: Any, name: str, value: Any) -> None:
    """Used by the session itself, or together with another option."""


_CACHE_SIZE = "1GiB"  # of compiled programs, as for models of torch

_OPTIONS: Dict[str, _Option] = {
    # Steps and gradients.
    "accumulationFactor": _Option(1, _elsewhere),
    "enableGradientAccumulation": _Option(False, _elsewhere),
    "accumulationAndReplicationReductionType": _Option(ReductionType.Sum, _popart),
    "meanAccumulationAndReplicationReductionStrategy": _Option(MeanReductionStrategy.Post, _popart),
    "enableReplicatedGraphs": _Option(False, _elsewhere),
    "replicatedGraphCount": _Option(1, _elsewhere),
    "syntheticDataMode": _Option(SyntheticDataMode.Off, _popart),
    "constantWeights": _Option(True, _elsewhere),
    "automaticLossScalingSettings": _Option(AutomaticLossScalingSettings(), _loss_scaling),
    # Devices.
    "virtualGraphMode": _Option(VirtualGraphMode.Off, _popart),
    "virtualGraphSplitRatios": _Option([], _setter("virtualGraphSplitRatios")),
    "enablePipelining": _Option(False, _popart),
    "executionPhaseSettings": _Option(ExecutionPhaseSettings(), _phases),
    "autoRecomputation": _Option(RecomputationType.NoRecompute, _popart),
    "numIOTiles": _Option(0, _popart),
    "activationTensorLocationSettings": _Option(
        TensorLocationSettings(), _location("tensorLocations.setActivationLocation")),
    "weightTensorLocationSettings": _Option(
        TensorLocationSettings(), _location("tensorLocations.setWeightLocation")),
    "optimizerStateTensorLocationSettings": _Option(
        TensorLocationSettings(), _location("tensorLocations.setOptimizerLocation")),
    "accumulatorTensorLocationSettings": _Option(
        TensorLocationSettings(), _location("tensorLocations.setAccumulatorLocation")),
    "tensorLocationSettingsOverride": _Option({}, _overrides),
    # Numbers.
    "enableFloatingPointChecks": _Option(False, _popart),
    "enableStochasticRounding": _Option(False, _popart),
    "enableStableNorm": _Option(False, _popart),
    "partialsTypeMatMuls": _Option("", _popart),
    # Compiled programs that are kept.
    "enableEngineCaching": _Option(False, _elsewhere),
    "cachePath": _Option("session_cache", _elsewhere),
    # Reports.
    "logDir": _Option(".", _popart),
    "instrumentWithHardwareCycleCounter": _Option(False, _popart),
    "rearrangeAnchorsOnHost": _Option(True, _popart),
    # What says how PopART compiles or how the IPU moves data. It changes no result.
    **{name: _Option(default) for name, default in {
        "accumulateOuterFragmentSettings": AccumulateOuterFragmentSettings(), "aliasZeroCopy": False,
        "batchSerializationSettings": BatchSerializationSettings(),
        "compileEngine": True, "convolutionOptions": {}, "createImplicitPipeliningFwdOnlyProgram": False,
        "customCodeletCompileFlags": "", "customCodelets": [], "decomposeGradSum": False,
        "defaultPrefetchBufferingDepth": 1, "delayVarUpdates": True, "disableGradAccumulationTensorStreams": False,
        "dotChecks": set(), "dotOpNames": True, "enableDistributedReplicatedGraphs": False,
        "enableExplicitMainLoops": False, "enableFullyConnectedPass": True,
        "enableLoadAndOffloadRNGState": False, "enableMergeExchange": True, "enableNonStableSoftmax": False,
        "enableOutlining": True, "enableOutliningCopyCostPruning": True, "enablePrefetchDatastreams": True,
        "enableSupportedDataTypeCasting": True, "engineOptions": {}, "explicitPipelining": False,
        "explicitRecomputation": False, "exportPoplarComputationGraph": False, "exportPoplarVertexGraph": False,
        "finalDotOp": 10000, "firstDotOp": 0, "gclOptions": {}, "globalReplicaOffset": 0,
        "globalReplicationFactor": 1, "groupHostSync": False, "groupNormStridedChannelGrouping": False,
        "hardwareInstrumentations": set(), "kahnTieBreaker": "greedy", "lstmOptions": {}, "matmulOptions": {},
        "mergeVarUpdate": MergeVarUpdateType.Off, "mergeVarUpdateMemThreshold": 1000000,
        "opxAliasChecking": False, "opxModifyChecking": False, "outlineSequenceBreakCost": 10000.0,
        "outlineThreshold": 1.0, "prefetchBufferingDepthMap": {}, "rearrangeStreamsOnHost": False,
        "reportOptions": {}, "scheduleNonWeightUpdateGradientConsumersEarly": False, "separateCallOpPdfs": True,
        "serializedPoprithmsShiftGraphsDir": "", "strictOpVersions": True,
        "subgraphCopyingStrategy": SubgraphCopyingStrategy.OnEnterAndExit, "swapLimitScheduler": 1000000000,
        "timeLimitScheduler": 1e9, "transitiveClosureOptimizationThreshold": 100000, "useHostCopyOps": False,
    }.items()},
}


class SessionOptions(_Record):
    """Options of a session, by PopART's names:

        options = popart.SessionOptions()
        options.enablePipelining = True

    A name that PopART does not have is an error. One that has no effect here gives a warning once. Any other
    setting of sluice.Options can be given with `set`: options.set("threads", 2).
    """

    _DEFAULTS = {name: option.default for name, option in _OPTIONS.items()}

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_settings", [])

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if _OPTIONS[name].apply is None and repr(value) != repr(_OPTIONS[name].default):
            _no_effect(name)

    def set(self, setting: str, *values: Any) -> "SessionOptions":
        """Any setting of sluice.Options by its name. Raises sluice.InvalidArgument for one that there is not."""
        _core.Options().apply(setting, *values)
        self._settings.append((setting, values))
        return self

    def _counts(self) -> List[Tuple[str, int]]:
        """The accumulation and replication, each of which PopART has two options for."""
        counts = []
        for count, switch, setting in (("accumulationFactor", "enableGradientAccumulation",
                                        "training.gradientAccumulation"),
                                       ("replicatedGraphCount", "enableReplicatedGraphs", "replicationFactor")):
            number = int(getattr(self, count))
            if number != 1 and not getattr(self, switch):
                raise _core.InvalidArgument(
                    f"SessionOptions: {count} is {number}, but {switch} is False; set it to True")
            counts.append((setting, number))
        return counts

    def _core_options(self) -> Any:
        options = _core.Options()
        for setting, number in self._counts():
            if number != 1:
                options.apply(setting, number)
        for name, option in _OPTIONS.items():
            value = getattr(self, name)
            if option.apply is None:
                if repr(value) != repr(option.default):  # a dict that was filled later
                    _no_effect(name)
            elif repr(value) != repr(option.default) or name == "accumulationAndReplicationReductionType":
                option.apply(options, name, value)
        if self.enableEngineCaching:
            options.apply("enableExecutableCaching", os.fspath(self.cachePath), _CACHE_SIZE)
        for setting, values in self._settings:
            options.apply(setting, *values)
        return options


def _no_effect(name: str) -> None:
    _warn.once(f"SessionOptions.{name} has no effect: it says how PopART compiles for the IPU, and changes no result")
