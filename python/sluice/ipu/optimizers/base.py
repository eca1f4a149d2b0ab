"""The optimizers themselves."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, Union

from ... import _core
from ...nn._tensor import as_tensor
from ...nn.variables import Graph, Variable
from .. import ipu_compiler
from .._operation import Operation

GradientsAndVariables = Sequence[Tuple[Any, Any]]


class _Weight(NamedTuple):
    """A weight that is no variable of the graph, such as one of a torch module."""

    name: str
    shape: tuple
    dtype: str


def weight_named(graph: Graph, name: str, shape: tuple, dtype: str) -> Union[Variable, _Weight]:
    """The variable that has this name in the library, or a description if it is another weight."""
    for variable in graph.variables():
        if variable._parameter.full_name == name:
            return variable
    return _Weight(name, shape, dtype)


class _Applied(Operation):
    """What apply_gradients returns."""

    def __init__(self, grads_and_vars: GradientsAndVariables) -> None:
        super().__init__("apply_gradients")
        self.grads_and_vars = list(grads_and_vars)


class Optimizer:
    """An update rule. A subclass may change gradients before they are applied, by overriding
    apply_gradients: it is called once, while the function is compiled."""

    def minimize(self, loss: Any, name: str = "minimize") -> Operation:
        """Trains the variables that the loss, a float scalar, depends on. The body of loops.repeat
        calls this once; in a pipeline, return the optimizer from the optimizer_function instead."""
        function = ipu_compiler.current("minimize")
        _core.minimize(self._rule(function.graph), as_tensor(loss))
        return Operation(name)

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, name: Any = None) -> Operation:
        """Applies these gradients."""
        return _Applied(grads_and_vars)

    def _core_optimizer(self, graph: Graph) -> _core.Optimizer:
        raise NotImplementedError(f"{type(self).__name__} has no update rule: derive from one that has")

    def _rule(self, graph: Graph) -> _core.UpdateRule:
        return _core.UpdateRule(self._core_optimizer(graph))


class RuleOptimizer(Optimizer):
    """An optimizer with a rule of the library."""

    _kind = ""

    def __init__(self, learning_rate: float, **options: Any) -> None:
        self._options: Dict[str, Any] = options
        self.learning_rate = learning_rate

    @property
    def learning_rate(self) -> float:
        return self._options["lr"]

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        """CompiledFunction.set_optimizer puts it into effect."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(
                f"the learning rate is a number, got {type(value).__name__}; to change it, set it and "
                "call set_optimizer of the compiled function"
            )
        self._options["lr"] = float(value)

    def _core_optimizer(self, graph: Graph) -> _core.Optimizer:
        return self._with_functions(graph, [])

    def _with_functions(self, graph: Graph, functions: List[Callable]) -> _core.Optimizer:
        """Gradients pass through these functions of gradient and variable first, in order."""
        optimizer = _core.Optimizer(self._kind, **self._options)
        casts = type(self).apply_gradients is not Optimizer.apply_gradients
        if casts or functions:
            optimizer = optimizer.mapped(
                lambda names, gradients: self._mapped(_weights(graph, names, gradients), functions)
            )
        optimizer.cast_gradients(casts)
        return optimizer

    def _mapped(self, pairs: List[tuple], functions: List[Callable]) -> List[_core.Tensor]:
        """The gradients as the functions and then apply_gradients of a subclass make them."""
        for function in functions:
            pairs = [(function(gradient, weight), weight) for gradient, weight in pairs]
        applied = self.apply_gradients(pairs)
        if not isinstance(applied, _Applied):
            raise TypeError(
                f"{type(self).__name__}.apply_gradients must return what apply_gradients of its base "
                f"class returns, got {type(applied).__name__}"
            )
        by_name = {weight.name: gradient for gradient, weight in applied.grads_and_vars}
        for _, weight in pairs:
            if by_name.get(weight.name) is None:
                raise _core.InvalidArgument(f"there is no gradient for the variable '{weight.name}'")
        return [as_tensor(by_name[weight.name]) for _, weight in pairs]


def _weights(graph: Any, names: List[str], gradients: List[_core.Tensor]) -> List[tuple]:
    """Gradients with their variables."""
    return [
        (gradient, weight_named(graph, name, gradient.shape, gradient.dtype))
        for name, gradient in zip(names, gradients)
    ]


class GradientDescentOptimizer(RuleOptimizer):
    """variable -= learning_rate * gradient"""

    _kind = "SGD"

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)


class MomentumOptimizer(RuleOptimizer):
    """velocity = momentum * velocity + gradient; variable -= learning_rate * velocity"""

    _kind = "SGD"

    def __init__(self, learning_rate: float, momentum: float, use_nesterov: bool = False) -> None:
        super().__init__(learning_rate, momentum=momentum, nesterov=use_nesterov)


class AdamOptimizer(RuleOptimizer):
    _kind = "Adam"

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, beta1=beta1, beta2=beta2, eps=epsilon)


class AdamWOptimizer(RuleOptimizer):
    """Adam with a weight decay of its own."""

    _kind = "AdamW"

    def __init__(
        self,
        weight_decay: float,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(
            learning_rate, weight_decay=weight_decay, beta1=beta1, beta2=beta2, eps=epsilon
        )


class LAMBOptimizer(RuleOptimizer):
    _kind = "LAMB"

    def __init__(
        self,
        learning_rate: float = 0.001,
        weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
    ) -> None:
        super().__init__(
            learning_rate, weight_decay=weight_decay, beta1=beta1, beta2=beta2, eps=epsilon
        )


class RMSPropOptimizer(RuleOptimizer):
    """TensorFlow's form: the mean square begins at 1, epsilon is inside the root, and the velocity
    has the learning rate."""

    _kind = "RMSprop"

    def __init__(
        self,
        learning_rate: float,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        centered: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            alpha=decay,
            momentum=momentum,
            eps=epsilon,
            centered=centered,
            use_tf_variant=True,
        )


class Wrapper(Optimizer):
    """An optimizer around another one."""

    def __init__(self, opt: Optimizer) -> None:
        if not isinstance(opt, Optimizer):
            raise TypeError(f"{type(self).__name__}: expected an optimizer, got {type(opt).__name__}")
        self.optimizer = opt

    def _core_optimizer(self, graph: Graph) -> _core.Optimizer:
        return self.optimizer._core_optimizer(graph)
