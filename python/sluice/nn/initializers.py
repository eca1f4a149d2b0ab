"""First values of variables. An initializer is called with the shape and the name of the type. It
returns an array, or a triple for the library: ('constant', value, 0), ('uniform', low, high) or
('normal', mean, deviation). The library's random values depend only on the seed of the graph and the
name of the variable."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

Values = Union[np.ndarray, Tuple[str, float, float]]

__all__ = [
    "constant_initializer", "glorot_normal_initializer", "glorot_uniform_initializer",
    "ones_initializer", "random_normal_initializer", "random_uniform_initializer",
    "truncated_normal_initializer", "zeros_initializer",
]


class constant_initializer:
    """One number for all elements, or an array."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def __call__(self, shape: Sequence[int], dtype: str) -> Values:
        if np.ndim(self.value) == 0:
            return ("constant", float(self.value), 0.0)
        return np.asarray(self.value)


class zeros_initializer(constant_initializer):
    def __init__(self) -> None:
        super().__init__(0)


class ones_initializer(constant_initializer):
    def __init__(self) -> None:
        super().__init__(1)


class random_uniform_initializer:
    """Between two numbers. With a seed of its own it does not depend on the graph's."""

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: Optional[int] = None) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Sequence[int], dtype: str) -> Values:
        if self.seed is None:
            return ("uniform", float(self.minval), float(self.maxval))
        return np.random.default_rng(self.seed).uniform(self.minval, self.maxval, shape)


class random_normal_initializer:
    """With a seed of its own it does not depend on the graph's."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Optional[int] = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Sequence[int], dtype: str) -> Values:
        if self.seed is None:
            return ("normal", float(self.mean), float(self.stddev))
        return np.random.default_rng(self.seed).normal(self.mean, self.stddev, shape)


class truncated_normal_initializer:
    """Values more than two deviations from the mean are drawn again."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int = 0) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Sequence[int], dtype: str) -> Values:
        random = np.random.default_rng(self.seed)
        values = random.standard_normal(shape)
        far = np.abs(values) > 2
        while far.any():
            values = np.where(far, random.standard_normal(shape), values)
            far = np.abs(values) > 2
        return self.mean + self.stddev * values


def _fans(shape: Sequence[int]) -> Tuple[float, float]:
    """Of weights [out, in, kernel...]."""
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    window = float(np.prod(shape[2:]))
    return shape[1] * window, shape[0] * window


class glorot_uniform_initializer:
    """Uniform within sqrt(6 / (fan in + fan out))."""

    def __init__(self, seed: Optional[int] = None) -> None:
        self.seed = seed

    def __call__(self, shape: Sequence[int], dtype: str) -> Values:
        limit = math.sqrt(6.0 / max(1.0, sum(_fans(shape))))
        return random_uniform_initializer(-limit, limit, self.seed)(shape, dtype)


class glorot_normal_initializer:
    """Normal with the deviation sqrt(2 / (fan in + fan out))."""

    def __init__(self, seed: Optional[int] = None) -> None:
        self.seed = seed

    def __call__(self, shape: Sequence[int], dtype: str) -> Values:
        deviation = math.sqrt(2.0 / max(1.0, sum(_fans(shape))))
        return random_normal_initializer(0.0, deviation, self.seed)(shape, dtype)
