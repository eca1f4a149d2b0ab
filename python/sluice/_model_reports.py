"""What a model tells about itself and its calls: a base class of Executor and LoadedModel."""

from __future__ import annotations

import html
import os
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch

from . import _core
from ._convert import to_torch
from .schedules import Schedule


class SimulatedStep(NamedTuple):
    """How long a call takes on the target of simulated devices."""

    target: str
    cycles: int
    seconds: float


class Suggestion(NamedTuple):
    """A change of the strategy, the strategy with it as text, and what it would give."""

    change: str
    strategy: str
    seconds: float
    faster: float


class PlanReport(NamedTuple):
    """What `findPlan` found. Without a plan that fits, `plan`, `seconds`, `bytes` and `lines` are empty."""

    target: str
    plan: Optional[str]
    seconds: float
    bound: float
    bytes: List[int]
    lines: List[str]
    smallest_budget: Optional[int]
    complete: bool
    tried: List[tuple]


class Explanation(str):
    """A text; in a notebook the schedule is drawn above it."""

    schedule: Schedule

    def __new__(cls, text: str, schedule: Schedule) -> "Explanation":
        self = super().__new__(cls, text)
        self.schedule = schedule
        return self

    def _repr_html_(self) -> str:
        return f"{self.schedule.svg()}<pre>{html.escape(self)}</pre>"

    def __repr__(self) -> str:
        return str(self)


class Reports:
    """Reports, latencies and figures of a model; `_compiled` gives the compiled model or says why there is
    none."""

    def _compiled(self, what: str) -> _core.Model:
        raise NotImplementedError

    def explain(self) -> "Explanation":
        """The stages, their devices and bytes, the schedule with its bound, and the warnings."""
        return Explanation(self._compiled("explain").explain(), self.schedule())

    def report(self, file: "str | os.PathLike[str]", predictedOn: str = "") -> None:
        """Writes a page about the first calls: what ran when, why devices were idle, their memory. With a
        target, such as "measured" after `sluice calibrate`, also what the simulator predicts for it and what changes would give there.

        Needs `Options.enableProfiling` and a call; the page needs nothing but a browser."""
        self._compiled("report").report(os.fspath(file), predictedOn)

    def schedule(self) -> Schedule:
        """The schedule of the newest program; it draws itself in a notebook. Times are estimates."""
        return Schedule(_core.schedule_of(self._compiled("schedule")))

    def summary(self) -> str:
        """The table of modules, then bytes and kernels of the compiled programs."""
        return self._compiled("summary").summary()

    def simulateStep(self) -> "SimulatedStep":
        """How long a call takes on the target of simulated devices, without computing anything."""
        return SimulatedStep(*self._compiled("simulateStep").simulate_step())

    def suggestChanges(self, most: int = 3, target: str = "") -> "List[Suggestion]":
        """Changes of the strategy that make a call on simulated devices faster, the best first.

        Devices that are not simulated need a target, such as "measured" after `sluice calibrate`."""
        found = self._compiled("suggestChanges").suggest_changes(most, target)
        return [Suggestion(*each) for each in found]

    def cycleCount(self) -> int:
        """Cycles of the newest call; nanoseconds on a CPU. Needs Options.logCycleCount(True)."""
        return self._compiled("cycleCount").cycle_count()

    def getTensorNames(self) -> List[str]:
        """The names that Options.anchorTensor can name."""
        return self._compiled("getTensorNames").tensor_names()

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """An anchored tensor of the newest call."""
        return to_torch(self._compiled("getAnchoredTensor").anchored(short_name))

    def getHostIpuLatency(self) -> Tuple[float, float, float]:
        """Minimum, maximum and mean seconds from the host to the devices in the newest call."""
        return self._compiled("getHostIpuLatency").latency("host_device")

    def getComputeLatency(self) -> Tuple[float, float, float]:
        """Minimum, maximum and mean seconds on the devices in the newest call."""
        return self._compiled("getComputeLatency").latency("compute")

    def getIpuHostLatency(self) -> Tuple[float, float, float]:
        """Minimum, maximum and mean seconds from the devices to the host in the newest call."""
        return self._compiled("getIpuHostLatency").latency("device_host")

    def getLatency(self) -> Tuple[float, float, float]:
        """Minimum, maximum and mean seconds for the whole way in the newest call."""
        return self._compiled("getLatency").latency("round_trip")

    getHostDeviceLatency = getHostIpuLatency
    getDeviceHostLatency = getIpuHostLatency

    def getPerfCounters(self):
        """The latencies of the newest call by kind."""
        return {
            "host_device": self.getHostDeviceLatency(),
            "compute": self.getComputeLatency(),
            "device_host": self.getDeviceHostLatency(),
            "round_trip": self.getLatency(),
        }
