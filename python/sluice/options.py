"""``Options``: how a model is run.

    options = sluice.Options().deviceIterations(10).device("cpu*2")
    options.Training.gradientAccumulation(8)

Setters return the object, so they chain, and check their arguments at once. A model or a loader
freezes the options that it is given; ``clone()`` is a copy that can be changed. Values also come
from SLUICE_DEFAULT_OPTIONS (a JSON object) and from files.
"""

from __future__ import annotations

import os
import sys
from typing import Mapping, Optional, Sequence

from ._option_base import NO_EFFECT, warn_no_effect
from ._option_state import RecordedOptions
from .enums import CommGroupType, ConnectionType, OutputMode, SyncPattern
from .option_groups import (
    _DistributedOptions,
    _JitOptions,
    _PopartOptions,
    _PrecisionOptions,
    _TensorLocationOptions,
    _TrainingOptions,
)
from .strategy import Strategy, TensorLocationSettings

__all__ = ["NO_EFFECT", "Options", "TensorLocationSettings"]

class Options(RecordedOptions):
    """How a model is run.

    Besides the methods below, every setter of the C++ library can be called by its name, and every
    value can be read: ``options.threads(2)``, ``options.device_iterations``,
    ``options.value("threads")``. ``str(options)`` lists all values, ``repr(options)`` those that
    are not the defaults.
    """

    _values_by_name = {
        "auto_round_num_ipus": ("autoRoundNumDevices", -1),
        "anchored_tensors": ("anchorTensor", -1),
        "output_mode": ("outputMode", 0),
        "output_return_period": ("outputMode", 1),
        "ipu_id": ("useDeviceIds", -1),
        "input_group_size": ("inputReplicaGrouping", 0),
        "input_group_type": ("inputReplicaGrouping", 1),
    }

    def _make_groups(self) -> None:
        self._training = _TrainingOptions(self)
        self._precision = _PrecisionOptions(self)
        self._jit = _JitOptions(self)
        self._locations = _TensorLocationOptions(self)
        self._distributed = _DistributedOptions(self)
        self._popart = _PopartOptions(self)

    # What a model runs.

    def deviceIterations(self, device_iterations: int) -> "Options":
        """Rounds per call: weight updates when training, micro-batches for inference."""
        return self._apply("deviceIterations", device_iterations)

    def replicationFactor(self, replication_factor: int) -> "Options":
        """Copies of the model that work on different data."""
        return self._apply("replicationFactor", replication_factor)

    def inputReplicaGrouping(
        self, input_group_size: int, input_group_type: CommGroupType
    ) -> "Options":
        """Groups of this many replicas get the same input."""
        return self._apply("inputReplicaGrouping", input_group_size, input_group_type)

    def setExecutionStrategy(self, strategy: Strategy) -> "Options":
        """How blocks become stages, and how the stages take turns.

        The strategy may still be changed (``strategy.stage("B1").ipu(1)``) until a model uses the
        options.
        """
        self._apply("setExecutionStrategy", strategy)
        self._strategy_text = repr(strategy)
        return self

    def outputMode(
        self, output_mode: OutputMode, output_return_period: Optional[int] = None
    ) -> "Options":
        """Which micro-batches come back to the host; EveryN needs a period."""
        period = [] if output_return_period is None else [output_return_period]
        if not period and getattr(output_mode, "name", output_mode) == OutputMode.EveryN.name:
            raise ValueError("outputMode: EveryN needs an output_return_period from 1 on")
        return self._apply("outputMode", output_mode, *period)

    def defaultOutputMode(self) -> bool:
        """Whether the model's kind decides which micro-batches come back."""
        return self.output_mode is OutputMode.Default

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: Optional[OutputMode] = None,
        output_return_period: int = 1,
    ) -> "Options":
        """Makes a call return an inner tensor, one of ``model.getTensorNames()``, as short_name."""
        mode = OutputMode.Default if output_mode is None else output_mode
        return self._apply("anchorTensor", short_name, long_name, mode, output_return_period)

    def enableSyntheticData(self, enabled: bool) -> "Options":
        """Makes random inputs on the devices once, so that a step copies nothing to them."""
        return self._apply("enableSyntheticData", enabled)

    def randomSeed(self, random_seed: int) -> "Options":
        """The seed of all random ops. It seeds torch as well, if torch is imported."""
        self._apply("randomSeed", random_seed)
        if "torch" in sys.modules and random_seed is not None:
            sys.modules["torch"].manual_seed(int(random_seed))
        return self

    # Devices.

    def device(self, names: str) -> "Options":
        """The devices that the model runs on, by the names of their kinds: "cpu", "cpu*4"."""
        return self._apply("device", names)

    def threads(self, count: int) -> "Options":
        """Threads per device. Results do not depend on it."""
        return self._apply("threads", count)

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> "Options":
        """Reserves the next power of two where the number of devices must be one."""
        return self._apply("autoRoundNumDevices", auto_round_num_ipus)

    def autoRoundNumDevices(self, on: bool = True) -> "Options":
        """The same as ``autoRoundNumIPUs``."""
        return self._apply("autoRoundNumDevices", on)

    def useIpuId(self, ipu_id: int) -> "Options":
        """The model uses exactly this device of the machine."""
        return self._apply("useDeviceId", ipu_id)

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> "Options":
        """The model is compiled for a simulated IPU and cannot run; see ``model.simulateStep``."""
        return self._apply("useOfflineTarget", ipu_version)

    def useOfflineTarget(self, version: int = 2) -> "Options":
        """The same as ``useOfflineIpuTarget``."""
        return self._apply("useOfflineTarget", version)

    def useIpuModel(self, use_model: bool) -> "Options":
        """Runs the model on simulated IPUs ("sim@ipu2"): the CPU's results, virtual times.

        Without a call, SLUICE_IPU_MODEL=1 in the environment does the same.
        """
        return self._apply("useIpuModel", use_model)

    def connectionType(self, connection_type: ConnectionType) -> "Options":
        """When devices are acquired. With Never the model compiles, but running it is an error."""
        return self._apply("connectionType", connection_type)

    def syncPattern(self, sync_pattern: SyncPattern) -> "Options":
        """Which devices meet at barriers."""
        return self._apply("syncPattern", sync_pattern)

    def setAvailableMemoryProportion(
        self, available_memory_proportion: Mapping[str, float]
    ) -> "Options":
        """The share of a device's memory for one op, by device: ``{"IPU0": 0.5}``. A hint."""
        if not isinstance(available_memory_proportion, Mapping):
            raise TypeError(
                "setAvailableMemoryProportion: expected a dictionary such as {'IPU0': 0.5}, got "
                f"{available_memory_proportion!r}"
            )
        pairs = [part for item in available_memory_proportion.items() for part in item]
        return self._apply("setAvailableMemoryProportion", *(pairs or [None]))

    # State.

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> "Options":
        """If false, each replica has its own buffers."""
        return self._apply("broadcastBuffers", broadcast_buffers)

    def updatableNamedBuffers(self, buffers: Sequence[str]) -> "Options":
        """These buffers may be set between calls; see ``model.copyNamedBuffersToDevice``."""
        return self._apply("updatableNamedBuffers", list(buffers))

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> "Options":
        """Unknown attributes of an optimizer are named in the debug log, not in a warning."""
        return self._apply("relaxOptimizerAttributesChecks", relax)

    def enableStableNorm(self, enabled: bool) -> "Options":
        """Norms subtract the mean before they square. They always do, whatever this says."""
        return self._apply("enableStableNorm", enabled)

    # Logs and reports.

    def modelName(self, name: str) -> "Options":
        """What logs and reports call the model."""
        return self._apply("modelName", name)

    def maxRepeatLogs(self, max_lines: int) -> "Options":
        """The models of one module log the same warning at most this many times."""
        return self._apply("maxRepeatLogs", max_lines)

    def logDir(self, log_dir: str) -> "Options":
        """The folder that relative paths of profiles and dumps start from."""
        return self._apply("logDir", log_dir)

    def logCycleCount(self, log_cycle_count: bool) -> "Options":
        """Counts the cycles of every step: see ``model.cycleCount``."""
        return self._apply("logCycleCount", log_cycle_count)

    def enableProfiling(self, profile_dir: Optional[str] = None) -> "Options":
        """Traces the first steps into this folder; without one, into ``logDir``."""
        return self._apply("enableProfiling", "." if profile_dir is None else profile_dir)

    def disableModuleNamescope(self, disable: bool = True) -> "Options":
        """Ops are named without the path of their module."""
        return self._apply("disableModuleNamescope", disable)

    def showCompilationProgressBar(self, show: Optional[bool] = True) -> "Options":
        """Shows a bar while the model compiles; None: if the standard error is a terminal."""
        return self._apply("showCompilationProgressBar", show)

    def enableExecutableCaching(self, path: Optional[str], size: str = "1GiB") -> "Options":
        """Keeps compiled programs in this folder, and takes them from it when a model is the same;
        None: no cache. Without this call, the folder is that of ``SLUICE_CACHE_DIR``."""
        return self._apply("enableExecutableCaching", "" if path is None else os.fspath(path), size)

    def sourceLocationExcludes(self, excludes: Sequence[str]) -> "Options":
        """Accepted without effect."""
        list(excludes)
        warn_no_effect("Options.sourceLocationExcludes")
        return self

    def appendToLocationExcludes(self, *excludes: str) -> "Options":
        """Accepted without effect."""
        warn_no_effect("Options.appendToLocationExcludes")
        return self

    # Groups.

    @property
    def Training(self) -> _TrainingOptions:
        """Settings that matter only when training."""
        return self._training

    @property
    def Precision(self) -> _PrecisionOptions:
        """Types and rounding."""
        return self._precision

    @property
    def Jit(self) -> _JitOptions:
        """How forward becomes a graph."""
        return self._jit

    @property
    def TensorLocations(self) -> _TensorLocationOptions:
        """Where a model keeps its tensors."""
        return self._locations

    @property
    def Distributed(self) -> _DistributedOptions:
        """Which of several processes this one is."""
        return self._distributed

    @property
    def _Popart(self) -> _PopartOptions:
        """Options by PopART's names."""
        return self._popart

    training, precision, jit, distributed = Training, Precision, Jit, Distributed
    tensorLocations, popart = TensorLocations, _Popart
