"""The operators of tensors and variables."""

from __future__ import annotations

from typing import Any, Iterator

from .. import _core
from . import elementwise, layers
from ._indexing import getitem
from ._tensor import as_tensor


def _forward(function):
    return lambda self, other: function(self, other)


def _reflected(function):
    return lambda self, other: function(other, self)


def _iterate(self: Any) -> Iterator[_core.Tensor]:
    x = as_tensor(self)
    return (getitem(x, i) for i in range(_length(x)))


def _length(self: Any) -> int:
    shape = as_tensor(self).shape
    if not shape:
        raise TypeError("a scalar tensor has no length")
    return shape[0]


def _truth(self: Any) -> bool:
    raise _core.InvalidArgument(
        "the value of a tensor is known only when the model runs, so it cannot decide an `if`; use "
        "nn.where"
    )


_OPERATORS = {
    "add": elementwise.add,
    "sub": elementwise.sub,
    "mul": elementwise.mul,
    "truediv": elementwise.div,
    "pow": elementwise.pow,
    "mod": elementwise.mod,
    "matmul": layers.matmul,
    "and": elementwise.logical_and,
    "or": elementwise.logical_or,
    "xor": elementwise.logical_xor,
}
_COMPARISONS = {
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}


def install(cls: type) -> None:
    """Gives a class the operators. == compares identities; nn.equal compares elements."""
    for name, function in _OPERATORS.items():
        setattr(cls, f"__{name}__", _forward(function))
        setattr(cls, f"__r{name}__", _reflected(function))
    for name, function in _COMPARISONS.items():
        setattr(cls, f"__{name}__", _forward(function))
    cls.__neg__ = lambda self: elementwise.neg(self)
    cls.__abs__ = lambda self: elementwise.abs(self)
    cls.__invert__ = lambda self: elementwise.logical_not(self)
    cls.__getitem__ = lambda self, key: getitem(as_tensor(self), key)
    cls.__iter__ = _iterate
    cls.__len__ = _length
    cls.__bool__ = _truth
    cls.__array_ufunc__ = None  # so that array + tensor comes here
