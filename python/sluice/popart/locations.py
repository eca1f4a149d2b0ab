"""Where tensors are kept."""

from __future__ import annotations

from typing import Any, Union

from .. import _core
from .enums import ReplicatedTensorSharding, TensorStorage, TileSet


class TensorLocation:
    """The storage of a tensor, and whether replicas share it."""

    def __init__(self, storage: TensorStorage = TensorStorage.OnChip, *args: Any, **named: Any) -> None:
        self.storage = TensorStorage(storage)
        self.loadTileSet = TileSet.Compute
        self.storageTileSet = TileSet.Compute
        self.replicatedTensorSharding = ReplicatedTensorSharding.Off
        names = (["replicatedTensorSharding"] if len(args) == 1
                 else ["loadTileSet", "storageTileSet", "replicatedTensorSharding"])
        if len(args) > len(names):
            raise TypeError(f"TensorLocation takes up to {len(names) + 1} values, got {len(args) + 1}")
        for name, value in [*zip(names, args), *named.items()]:
            if name not in vars(self) or name == "storage":
                raise TypeError(f"TensorLocation has no '{name}'")
            setattr(self, name, type(getattr(self, name))(value))

    def __repr__(self) -> str:
        return (f"TensorLocation({self.storage.name}, load={self.loadTileSet.name}, "
                f"store={self.storageTileSet.name}, sharding={self.replicatedTensorSharding.name})")


class TensorLocationSettings:
    """The location of a class of tensors, and how large a tensor must be for it."""

    def __init__(self, location: Union[TensorLocation, TensorStorage] = TensorStorage.OnChip,
                 minElementsForOffChip: int = 2, minElementsForReplicatedTensorSharding: int = 8192, *,
                 storage: Any = None) -> None:
        given = location if storage is None else storage
        self.location = given if isinstance(given, TensorLocation) else TensorLocation(given)
        self.minElementsForOffChip = minElementsForOffChip
        self.minElementsForReplicatedTensorSharding = minElementsForReplicatedTensorSharding

    def _call(self) -> Any:
        """As the argument of an option."""
        at = self.location
        calls = [_core.Call("useOnChipStorage", [at.storage == TensorStorage.OnChip]),
                 _core.Call("useReplicatedTensorSharding",
                            [at.replicatedTensorSharding == ReplicatedTensorSharding.On]),
                 _core.Call("minElementsForOffChip", [int(self.minElementsForOffChip)]),
                 _core.Call("minElementsForReplicatedTensorSharding",
                            [int(self.minElementsForReplicatedTensorSharding)]),
                 _core.Call("useIOTilesToLoad", [at.loadTileSet == TileSet.IO]),
                 _core.Call("useIOTilesToStore", [at.storageTileSet == TileSet.IO])]
        return _core.Call("TensorLocationSettings", [], calls)

    def __repr__(self) -> str:
        return (f"TensorLocationSettings({self.location}, {self.minElementsForOffChip}, "
                f"{self.minElementsForReplicatedTensorSharding})")
