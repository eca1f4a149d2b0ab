"""Element-wise functions. Operands are broadcast as in NumPy; numbers take the type of the tensor that
they meet; float operands of 16 and 32 bits are cast to one type, by the rules of the options."""

from __future__ import annotations

from typing import Any, Callable, List

from .. import _core
from ._tensor import Tensor, as_tensor, as_tensors, call, dtype_name

__all__: List[str] = ["cast", "clamp", "detach", "elu", "gelu", "leaky_relu", "where"]

_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor hard_swish is_nan "
    "log log1p logical_not mish neg reciprocal relu round rsqrt sigmoid sign silu sin sinh softplus "
    "softsign sqrt square tan tanh"
)
_BINARY = (
    "add atan2 div equal greater greater_equal less less_equal logical_and logical_or logical_xor "
    "maximum minimum mod mul not_equal pow sub"
)


def _export(name: str, function: Callable, doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    globals()[name] = function
    __all__.append(name)


def _unary(name: str) -> Callable[[Any], Tensor]:
    return lambda x: call(name, name, x)


def _binary(name: str) -> Callable[[Any, Any], Tensor]:
    return lambda x, y: call(name, name, x, y)


for _name in _UNARY.split():
    _export(_name, _unary(_name), f"The op '{_name}' of each element.")
for _name in _BINARY.split():
    _export(_name, _binary(_name), f"The op '{_name}' of each pair of elements.")


def cast(x: Any, dtype: Any) -> Tensor:
    """The values in another type."""
    return _core.functions.cast(as_tensor(x), dtype_name(dtype))


def clamp(x: Any, low: float, high: float) -> Tensor:
    """Each element, but at least `low` and at most `high`."""
    return call("clamp", "clamp", x, low=float(low), high=float(high))


def detach(x: Any) -> Tensor:
    """The value itself; no gradient passes through it. TensorFlow's stop_gradient."""
    return _core.op("detach", [as_tensor(x)])[0]


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    return call("elu", "elu", x, alpha=float(alpha))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """`approximate` is "none", which uses erf, or "tanh"."""
    return call("gelu", "gelu", x, approximate=approximate)


def leaky_relu(x: Any, alpha: float = 0.01) -> Tensor:
    return call("leaky_relu", "leaky_relu", x, alpha=float(alpha))


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Elements of x where the condition holds, else of y."""
    chosen = _core.resolve_types("where", as_tensors([x, y]))
    return _core.op("where", [as_tensor(condition), *chosen])[0]
