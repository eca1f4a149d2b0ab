"""Optimizers that update once for several mini-batches. They are for loops.repeat: a pipeline does this
by itself."""

from __future__ import annotations

import enum
from typing import Any, Optional

from ... import _core
from ...nn._tensor import dtype_name
from ...nn.variables import Graph
from .base import Optimizer, Wrapper, weight_named


class GradientAccumulationReductionMethod(enum.Enum):
    SUM = "sum"
    MEAN = "mean"

    @classmethod
    def parse(cls, value: Any) -> "GradientAccumulationReductionMethod":
        try:
            return cls(value.lower() if isinstance(value, str) else value)
        except ValueError:
            raise _core.InvalidArgument(f"reduction_method is SUM or MEAN, got {value!r}") from None


def accumulation_dtype(dtype: Any, graph: Graph) -> Any:
    """The type of accumulators for the library: None, a name, or a function of name, shape and type."""
    if dtype is None or isinstance(dtype, str):
        return None if dtype is None else dtype_name(dtype)
    if isinstance(dtype, type) or not callable(dtype):
        return dtype_name(dtype)

    def choose(name: str, shape: tuple, own: str) -> Optional[str]:
        chosen = dtype(weight_named(graph, name, shape, own))
        return None if chosen is None else dtype_name(chosen)

    return choose


class GradientAccumulationOptimizerV2(Wrapper):
    """An update every num_mini_batches iterations, with any optimizer. `dtype` is the type of the
    accumulators, or a function of the variable that gives it; by default it is the variable's. If it is
    another one, the optimizer has to cast (override apply_gradients). The optimizer's state is in
    remote memory between updates unless offload_weight_update_variables is False."""

    _make = staticmethod(_core.gradient_accumulation_v2)

    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: Optional[bool] = None,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
    ) -> None:
        super().__init__(opt)
        self._num_mini_batches = num_mini_batches
        self._offload = offload_weight_update_variables
        self._dtype = dtype
        self._reduction = GradientAccumulationReductionMethod.parse(reduction_method)

    def _rule(self, graph: Graph) -> _core.UpdateRule:
        return self._make(
            self.optimizer._rule(graph),
            self._num_mini_batches,
            self._offload,
            accumulation_dtype(self._dtype, graph),
            self._reduction.value,
        )


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """The same, and the gradients of replicas are averaged."""

    _make = staticmethod(_core.cross_replica_gradient_accumulation_v2)


class GradientAccumulationOptimizer(Wrapper):
    """An update every num_mini_batches iterations, for gradient descent with or without momentum. Its
    state stays on the devices."""

    _make = staticmethod(_core.gradient_accumulation)

    def __init__(self, opt: Optimizer, num_mini_batches: int) -> None:
        super().__init__(opt)
        self._num_mini_batches = num_mini_batches

    def _rule(self, graph: Graph) -> _core.UpdateRule:
        return self._make(self.optimizer._rule(graph), self._num_mini_batches)


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """The same, and the gradients of replicas are averaged."""

    _make = staticmethod(_core.cross_replica_gradient_accumulation)
