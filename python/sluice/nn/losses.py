"""Losses. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from typing import Any

from .. import _core
from ._tensor import Tensor, as_tensor, as_tensors

__all__ = [
    "bce_loss", "bce_with_logits", "cross_entropy", "identity_loss", "l1_loss", "mse_loss", "nll_loss",
]


def cross_entropy(logits: Any, labels: Any, reduction: str = "mean", ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> Tensor:
    """Of class scores [batch, classes, ...] and labels int32 or int64 [batch, ...]."""
    return _core.functions.cross_entropy(
        as_tensor(logits), as_tensor(labels), reduction, ignore_index, label_smoothing
    )


def nll_loss(log_probabilities: Any, labels: Any, reduction: str = "mean",
             ignore_index: int = -100) -> Tensor:
    return _core.functions.nll_loss(
        as_tensor(log_probabilities), as_tensor(labels), reduction, ignore_index
    )


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    return _core.functions.mse_loss(*as_tensors([x, target]), reduction)


def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    return _core.functions.l1_loss(*as_tensors([x, target]), reduction)


def bce_loss(probabilities: Any, target: Any, reduction: str = "mean") -> Tensor:
    return _core.functions.bce_loss(*as_tensors([probabilities, target]), reduction)


def bce_with_logits(logits: Any, target: Any, reduction: str = "mean") -> Tensor:
    return _core.functions.bce_with_logits(*as_tensors([logits, target]), reduction)


def identity_loss(x: Any, reduction: str = "mean") -> Tensor:
    """Marks the value as the loss."""
    return _core.functions.identity_loss(as_tensor(x), reduction)
