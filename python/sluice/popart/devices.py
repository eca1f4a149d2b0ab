"""Devices the PopART way."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .. import _core
from .enums import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern


class DeviceInfo:
    """Devices that a session runs on. Nobody else gets them until detach(), or until this object and all
    sessions on them are gone."""

    def __init__(self, core: Any, kind: DeviceType, connection: DeviceConnectionType) -> None:
        self._core = core
        self._released = False
        self.type = kind
        self.connectionType = connection

    @property
    def numIpus(self) -> int:
        return self._core.count

    @property
    def id(self) -> int:
        return (list(self._core.ids) or [0])[0]

    @property
    def driverIds(self) -> List[int]:
        return list(self._core.ids)

    @property
    def version(self) -> str:
        return str(_core.device_version(self._core.kind))

    @property
    def isAttached(self) -> bool:
        return not self._released

    def attach(self) -> bool:
        """Whether the devices are held; they are from the start, until detach()."""
        return not self._released

    def detach(self) -> None:
        """Ends the hold of this object. Sessions that run on the devices keep them."""
        self._core.release()
        self._released = True

    def __enter__(self) -> "DeviceInfo":
        return self

    def __exit__(self, *error: Any) -> None:
        self.detach()

    def _apply(self, options: Any) -> None:
        self._core.apply_to(options)
        if self.connectionType != DeviceConnectionType.Always:
            options.apply("connectionType", self.connectionType.name)

    def __repr__(self) -> str:
        return f"DeviceInfo({self._core.count} of kind '{self._core.kind}', {self.type.name})"


class DeviceManager:
    """Gives devices. All of them are of the kind `kind`, "cpu" unless said otherwise; `sluice devices` lists
    the kinds of this build."""

    def __init__(self, kind: str = "") -> None:
        self._kind = kind

    def acquireAvailableDevice(self, numIpus: int = 1, tilesPerIpu: int = 0, pattern: SyncPattern = SyncPattern.Full,
                               connectionType: DeviceConnectionType = DeviceConnectionType.Always,
                               selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
                               ) -> DeviceInfo:
        """Raises sluice.DeviceError if there are not so many free devices. Devices have no tiles, and any free
        ones will do."""
        return self._acquire(numIpus, DeviceType.Ipu, pattern, connectionType)

    def tryAcquireAvailableDevice(self, *args: Any, **named: Any) -> Optional[DeviceInfo]:
        """None instead of a sluice.DeviceError."""
        try:
            return self.acquireAvailableDevice(*args, **named)
        except _core.DeviceError:
            return None

    def createCpuDevice(self) -> DeviceInfo:
        return self._acquire(1, DeviceType.Cpu)

    def createIpuModelDevice(self, opts: Optional[Mapping[str, Any]] = None) -> DeviceInfo:
        """`numIPUs` simulated IPUs of the version `ipuVersion` ("ipu1", "ipu2", "ipu21"; "ipu2" unless said
        otherwise): the CPU's results in the time and memory of these IPUs, and their rules. Other entries
        are refused, because nothing here depends on them."""
        settings = dict(opts or {})
        count, version = settings.pop("numIPUs", 1), settings.pop("ipuVersion", "ipu2")
        settings.pop("compileIPUCode", None)  # simulated devices have no other code
        if settings:
            raise _core.InvalidArgument(
                f"createIpuModelDevice: unknown entries {sorted(settings)}; there are numIPUs, ipuVersion and "
                "compileIPUCode; docs/simulation.md says how to describe other devices")
        return self._acquire(int(count), DeviceType.IpuModel, kind=f"sim@{version}")

    createSimDevice = createIpuModelDevice

    def createOfflineIPUDevice(self, opts: Optional[Mapping[str, Any]] = None) -> DeviceInfo:
        """Devices that are compiled for and never run on."""
        return self._acquire(int((opts or {}).get("numIPUs", 1)), DeviceType.Ipu, SyncPattern.Full,
                             DeviceConnectionType.Never)

    createOfflineIpuDevice = createOfflineIPUDevice

    def enumerateDevices(self, pattern: SyncPattern = SyncPattern.Full, numIpus: int = 1,
                         deviceType: DeviceType = DeviceType.Ipu,
                         connectionType: DeviceConnectionType = DeviceConnectionType.Always,
                         tilesPerIPU: int = 0) -> List[DeviceInfo]:
        """A list with the devices that acquireAvailableDevice would give; empty if it would give none."""
        found = self.tryAcquireAvailableDevice(numIpus, pattern=pattern, connectionType=connectionType)
        return [] if found is None else [found]

    def acquireDeviceById(self, id: int, pattern: SyncPattern = SyncPattern.Full,  # noqa: A002: PopART's name
                          connectionType: DeviceConnectionType = DeviceConnectionType.Always) -> DeviceInfo:
        raise _core.Unsupported(
            "acquireDeviceById: the CPU's devices have no ids; name a device with "
            "SessionOptions().set('device', 'cuda:1')")

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        raise _core.Unsupported("setOnDemandAttachTimeout: a session does not wait for devices")

    def _acquire(self, count: int, device_type: DeviceType, pattern: SyncPattern = SyncPattern.Full,
                 connection: DeviceConnectionType = DeviceConnectionType.Always,
                 kind: Optional[str] = None) -> DeviceInfo:
        core = _core.MultiDevice(int(count), SyncPattern(pattern).name, self._kind if kind is None else kind)
        return DeviceInfo(core, device_type, DeviceConnectionType(connection))
