"""MapGradientOptimizer."""

from __future__ import annotations

from typing import Callable, List

from ... import _core
from ...nn.variables import Graph
from .base import Optimizer, RuleOptimizer, Wrapper


class MapGradientOptimizer(Wrapper):
    """Applies a function of gradient and variable to every gradient before the update, for instance
    `lambda grad, var: grad + 0.01 * var`. The function is called while the model is compiled."""

    def __init__(self, wrapped_optimizer: Optimizer, gradient_mapping_function: Callable) -> None:
        super().__init__(wrapped_optimizer)
        if not isinstance(wrapped_optimizer, (RuleOptimizer, MapGradientOptimizer)):
            raise TypeError(
                f"MapGradientOptimizer: put {type(wrapped_optimizer).__name__} around it, not inside"
            )
        if not callable(gradient_mapping_function):
            raise TypeError("MapGradientOptimizer: expected a function of gradient and variable")
        self._function = gradient_mapping_function

    def _core_optimizer(self, graph: Graph) -> _core.Optimizer:
        return self._with_functions(graph, [])

    def _with_functions(self, graph: Graph, functions: List[Callable]) -> _core.Optimizer:
        return self.optimizer._with_functions(graph, [self._function, *functions])
