"""Types of tensors, in all spellings: "FLOAT", "float32", numpy.float32, DataType.FLOAT."""

from __future__ import annotations

import enum
from typing import Any, List, Sequence, Tuple

import numpy as np

from .. import _core


class DataType(enum.IntEnum):
    """Element types, with the numbers that ONNX gives them."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    BFLOAT16 = 16


_NUMPY = {
    DataType.FLOAT: "float32",
    DataType.DOUBLE: "float64",
    **{each: each.name.lower() for each in DataType
       if each not in (DataType.FLOAT, DataType.DOUBLE, DataType.UNDEFINED)},
}
_FROM_NUMPY = {name: each for each, name in _NUMPY.items()}


def data_type(value: Any) -> DataType:
    """The type that any spelling means. Raises sluice.InvalidArgument for others."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, str) and value.upper() in DataType.__members__:
        return DataType[value.upper()]
    try:
        name = np.dtype(value.lower() if isinstance(value, str) else value).name
    except TypeError:
        name = ""
    if name not in _FROM_NUMPY:
        raise _core.InvalidArgument(
            f"there is no element type {value!r}; there are {', '.join(DataType.__members__)}")
    return _FROM_NUMPY[name]


def numpy_name(value: Any) -> str:
    """'float32' and so on, as _core spells types."""
    found = data_type(value)
    if found == DataType.UNDEFINED:
        raise _core.InvalidArgument("expected an element type, got UNDEFINED")
    return _NUMPY[found]


class TensorInfo:
    """The element type and the shape of a tensor.

    TensorInfo("FLOAT", [2, 3]); TensorInfo(numpy.float16, (4,)); TensorInfo(an_array)
    """

    def __init__(self, *args: Any) -> None:
        if len(args) == 1 and isinstance(args[0], np.ndarray):
            args = (args[0].dtype, args[0].shape)
        if len(args) != 2:
            raise TypeError(f"TensorInfo takes an element type and a shape, or an array; got {args}")
        self._type = data_type(args[0])
        self._shape = [int(extent) for extent in args[1]]
        if any(extent < 0 for extent in self._shape):
            raise _core.InvalidArgument(f"TensorInfo: a shape has no negative extents: {self._shape}")

    def shape(self) -> List[int]:
        return list(self._shape)

    def rank(self) -> int:
        return len(self._shape)

    def nelms(self) -> int:
        return int(np.prod(self._shape, dtype=np.int64))

    def dataType(self) -> DataType:
        return self._type

    def data_type(self) -> str:
        return self._type.name

    def data_type_lcase(self) -> str:
        return numpy_name(self._type)

    def set(self, dtype: Any, shape: Sequence[int]) -> None:
        self.__init__(dtype, shape)

    def _key(self) -> Tuple[Any, ...]:
        return self._type, tuple(self._shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorInfo) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"TensorInfo({self._type.name!r}, {self._shape})"
