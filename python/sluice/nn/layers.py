"""Products, convolutions, pools, normalizations and what else layers are made of. Conventions are
PyTorch's: images are [batch, channels, height, width]; the default stride of a window is its size."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

from .. import _core
from ._tensor import Tensor, as_tensor, as_tensors, call
from .reductions import mean

Extents = Union[int, Sequence[int]]

__all__ = [
    "attention", "avg_pool2d", "batch_norm", "conv1d", "conv2d", "conv3d", "dropout", "einsum",
    "embedding", "global_avg_pool", "group_norm", "layer_norm", "linear", "log_softmax", "matmul",
    "max_pool2d", "rms_norm", "softmax",
]


def _list(extents: Extents) -> List[int]:
    return [extents] if isinstance(extents, int) else list(extents)


def _maybe(x: Any) -> Optional[Tensor]:
    return None if x is None else as_tensor(x)


# --- products -------------------------------------------------------------------------------------


def matmul(x: Any, y: Any) -> Tensor:
    """Takes any rank and broadcasts the batch axes, like NumPy's matmul."""
    return _core.functions.matmul(*as_tensors([x, y]))


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x weightᵀ + bias; weight is [out, in], bias is [out]."""
    return _core.functions.linear(as_tensor(x), as_tensor(weight), _maybe(bias))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Axes with one letter are multiplied; letters that the result lacks are summed: 'bij,bjk->bik'."""
    return _core.functions.einsum(equation, as_tensors(operands))


def attention(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False,
              scale: Optional[float] = None) -> Tensor:
    """Scaled dot-product attention; q is [..., L, E], k is [..., S, E] and v is [..., S, Ev]. A mask is
    bool (true keeps) or float (added); the default scale is 1 / sqrt(E)."""
    return _core.functions.scaled_dot_product_attention(
        *as_tensors([q, k, v]), mask=_maybe(mask), causal=causal, scale=scale
    )


def _conv(axes: int, x: Any, weight: Any, bias: Any, **options: Any) -> Tensor:
    x = as_tensor(x)
    if len(x.shape) != axes + 2:
        raise _core.InvalidArgument(
            f"conv{axes}d: expected an input of rank {axes + 2}, [batch, channels, ...], got {x.shape}"
        )
    return _core.functions.conv(x, as_tensor(weight), _maybe(bias), **options)


def _conv_options(stride: Extents, padding: Extents, dilation: Extents, groups: int) -> dict:
    return {"stride": _list(stride), "padding": _list(padding), "dilation": _list(dilation),
            "groups": groups}


def conv1d(x: Any, weight: Any, bias: Any = None, stride: Extents = 1, padding: Extents = 0,
           dilation: Extents = 1, groups: int = 1) -> Tensor:
    """weight is [out channels, channels / groups, kernel]."""
    return _conv(1, x, weight, bias, **_conv_options(stride, padding, dilation, groups))


def conv2d(x: Any, weight: Any, bias: Any = None, stride: Extents = 1, padding: Extents = 0,
           dilation: Extents = 1, groups: int = 1) -> Tensor:
    """weight is [out channels, channels / groups, kernel height, kernel width]."""
    return _conv(2, x, weight, bias, **_conv_options(stride, padding, dilation, groups))


def conv3d(x: Any, weight: Any, bias: Any = None, stride: Extents = 1, padding: Extents = 0,
           dilation: Extents = 1, groups: int = 1) -> Tensor:
    """weight is [out channels, channels / groups, kernel depth, height, width]."""
    return _conv(3, x, weight, bias, **_conv_options(stride, padding, dilation, groups))


# --- pools ----------------------------------------------------------------------------------------


def _pair(extents: Extents, what: str) -> List[int]:
    given = _list(extents)
    if len(given) not in (1, 2):
        raise _core.InvalidArgument(f"{what}: expected one number or two, got {extents!r}")
    return given * 2 if len(given) == 1 else given


def _window(name: str, x: Tensor, kernel: Extents, stride: Optional[Extents],
            padding: Extents) -> dict:
    if len(x.shape) != 4:
        raise _core.InvalidArgument(
            f"{name}: expected [batch, channels, height, width], got {x.shape}"
        )
    return {
        "kernel": _pair(kernel, name),
        "strides": _pair(kernel if stride is None else stride, name),
        "pads": _pair(padding, name) * 2,
    }


def max_pool2d(x: Any, kernel: Extents, stride: Optional[Extents] = None,
               padding: Extents = 0) -> Tensor:
    x = as_tensor(x)
    return call("max_pool2d", "max_pool", x, **_window("max_pool2d", x, kernel, stride, padding))


def avg_pool2d(x: Any, kernel: Extents, stride: Optional[Extents] = None,
               padding: Extents = 0) -> Tensor:
    """Padding counts as zeros in the mean."""
    x = as_tensor(x)
    window = _window("avg_pool2d", x, kernel, stride, padding)
    return call("avg_pool2d", "avg_pool", x, countIncludePad=True, **window)


def global_avg_pool(x: Any) -> Tensor:
    """[batch, channels, ...] to [batch, channels]: the mean over all spatial axes."""
    x = as_tensor(x)
    if len(x.shape) < 3:
        raise _core.InvalidArgument(f"global_avg_pool: expected spatial axes, got {x.shape}")
    return mean(x, axis=range(2, len(x.shape)))


# --- normalization --------------------------------------------------------------------------------


def softmax(x: Any, axis: int = -1) -> Tensor:
    return call("softmax", "softmax", x, axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    return call("log_softmax", "log_softmax", x, axis=axis)


def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
    """Normalizes over the last axes; there are as many as `weight` has."""
    axis = -len(as_tensor(weight).shape)
    return call("layer_norm", "layer_norm", x, weight, bias, axis=axis, epsilon=eps)


def rms_norm(x: Any, weight: Any, eps: float = 1e-5) -> Tensor:
    axis = -len(as_tensor(weight).shape)
    return call("rms_norm", "rms_norm", x, weight, axis=axis, epsilon=eps)


def group_norm(x: Any, weight: Any, bias: Any, groups: int, eps: float = 1e-5) -> Tensor:
    """Normalizes groups of channels (axis 1)."""
    return call("group_norm", "group_norm", x, weight, bias, groups=groups, epsilon=eps)


def batch_norm(x: Any, weight: Any, bias: Any, mean: Any = None, variance: Any = None,
               eps: float = 1e-5) -> Union[Tensor, Tuple[Tensor, Tensor, Tensor]]:
    """Normalizes each channel (axis 1). With the batch's own statistics it returns the result, the mean
    and the biased variance; with given ones the result."""
    first = as_tensors([x, weight, bias])
    if (mean is None) != (variance is None):
        raise _core.InvalidArgument("batch_norm: give both the mean and the variance, or neither")
    if mean is None:
        return tuple(_core.functions.batch_norm(*first, eps=eps))
    return _core.functions.batch_norm_inference(*first, as_tensor(mean), as_tensor(variance), eps=eps)


# --- the rest -------------------------------------------------------------------------------------


def embedding(indices: Any, table: Any) -> Tensor:
    """Rows of the table at integer indices."""
    (rows,) = _core.resolve_types("embedding", [as_tensor(table)])
    return _core.op("gather", [rows, as_tensor(indices)], {"axis": 0})[0]


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeroes each element with probability p and scales the others by 1 / (1 - p). Returns x unchanged
    if `training` is false, and where nothing is trained."""
    return _core.functions.dropout(as_tensor(x), float(p), training)
