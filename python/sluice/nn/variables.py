"""Variables by name: a graph holds them, scopes give them prefixes, and functions of one graph share
them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from .. import _core
from ._tensor import Tensor, as_tensor, dtype_name, to_host, to_numpy
from .initializers import glorot_uniform_initializer

__all__ = [
    "AUTO_REUSE", "Graph", "Variable", "get_default_graph", "get_variable", "global_variables",
    "reset_default_graph", "set_random_seed", "variable_scope",
]


class _AutoReuse:
    def __repr__(self) -> str:
        return "AUTO_REUSE"


#: get_variable makes the variable if there is none and gives the existing one otherwise.
AUTO_REUSE = _AutoReuse()
Reuse = Union[None, bool, _AutoReuse]
Initializer = Union[None, float, np.ndarray, Sequence, Callable[[Sequence[int], str], Any]]


class Variable:
    """A named tensor that keeps its value. While a function is traced it is one of its tensors; outside
    it can be read and set."""

    def __init__(self, name: str, parameter: _core.Parameter, owner: Optional[object]) -> None:
        self.name = name
        self.owner = owner  # stands for the function that made it
        self._parameter = parameter

    @property
    def shape(self) -> tuple:
        return self._parameter.shape

    @property
    def dtype(self) -> str:
        return self._parameter.dtype

    @property
    def trainable(self) -> bool:
        return self._parameter.trainable

    def numpy(self) -> np.ndarray:
        """A copy of its value; bfloat16 as float32."""
        return np.array(to_numpy(self._parameter.value()))

    def assign(self, value: Any) -> Union[Tensor, "Variable"]:
        """Sets the value. In a trace, a variable with trainable=False gets the value of a tensor, which
        is returned."""
        if not _core.tracing():
            host = to_host(np.broadcast_to(value, self.shape), self.dtype)
            self._parameter.set_value(host)
            return self
        tensor = as_tensor(value, self._as_tensor())
        self._parameter.assign(tensor)
        return tensor

    def assign_add(self, value: Any) -> Union[Tensor, "Variable"]:
        return self.assign((self if _core.tracing() else self.numpy()) + value)

    def _as_tensor(self) -> Tensor:
        return self._parameter.use()

    def __repr__(self) -> str:
        return f"Variable('{self.name}', shape={self.shape}, dtype={self.dtype})"


class _Scope(NamedTuple):
    prefix: str
    reuse: Reuse
    initializer: Initializer
    dtype: Optional[str]


_OUTERMOST = _Scope("", None, None, None)


class _Trace:
    """A function that is traced, and the variables that it has asked for so far."""

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.used: set = set()


class _Local(threading.local):
    def __init__(self) -> None:
        self.graphs: List["Graph"] = []
        self.scopes: List[_Scope] = [_OUTERMOST]
        self.trace: Optional[_Trace] = None


_local = _Local()


class Graph:
    """The variables of functions that belong together."""

    def __init__(self, seed: int = 0) -> None:
        self.module = _core.Module(kind="Graph")
        self.module.set_seed(seed)
        self._modules: Dict[str, _core.Module] = {"": self.module}
        self._variables: Dict[str, Variable] = {}
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def as_default(self) -> Iterator["Graph"]:
        """Variables made inside belong to this graph."""
        _local.graphs.append(self)
        try:
            yield self
        finally:
            _local.graphs.pop()

    @contextlib.contextmanager
    def tracing(self, owner: object) -> Iterator[None]:
        """A function is traced inside, which `owner` stands for."""
        before = _local.scopes, _local.trace
        _local.scopes, _local.trace = [_OUTERMOST], _Trace(owner)
        try:
            with self.as_default():
                yield
        finally:
            _local.scopes, _local.trace = before

    def variables(self) -> List[Variable]:
        return list(self._variables.values())

    def variable(self, name: str) -> Variable:
        if name not in self._variables:
            known = ", ".join(self._variables) or "none"
            raise _core.InvalidArgument(f"there is no variable '{name}'; there are: {known}")
        return self._variables[name]

    def _module_of(self, scope: str) -> _core.Module:
        if scope not in self._modules:
            parent, _, name = scope.rpartition("/")
            self._modules[scope] = _core.Module(self._module_of(parent), name, "Scope")
        return self._modules[scope]

    def _make(self, full: str, shape: Sequence[int], dtype: str, values: Any,
              trainable: bool) -> Variable:
        scope, _, name = full.rpartition("/")
        with self._lock:
            module = self._module_of(scope)
            if isinstance(values, tuple):
                parameter = module.add_variable(name, list(shape), dtype, values, not trainable)
            else:
                add = module.add_parameter if trainable else module.add_buffer
                parameter = add(name, to_host(values, dtype))
            owner = _local.trace.owner if _local.trace else None
            variable = self._variables[full] = Variable(full, parameter, owner)
            return variable


_default = Graph()


def get_default_graph() -> Graph:
    return _local.graphs[-1] if _local.graphs else _default


def reset_default_graph() -> None:
    """Begins a new graph. Functions that were compiled keep the variables of the old one."""
    global _default
    if _local.graphs:
        raise _core.InvalidArgument("reset_default_graph cannot be called inside Graph.as_default()")
    _default = Graph()


def set_random_seed(seed: int) -> None:
    """Sets the seed of the graph's random first values."""
    get_default_graph().module.set_seed(seed)


def global_variables() -> List[Variable]:
    """All variables of the graph."""
    return get_default_graph().variables()


@contextlib.contextmanager
def variable_scope(name: str, reuse: Reuse = None, initializer: Initializer = None,
                   dtype: Any = None, use_resource: Optional[bool] = None) -> Iterator[str]:
    """Prefixes the names of variables made inside with `name/`, and gives them defaults. reuse=True
    takes existing variables, AUTO_REUSE existing or new ones. Gives the whole prefix."""
    _require_resource(use_resource)
    outer = _local.scopes[-1]
    _require_name(name)
    scope = _Scope(
        f"{outer.prefix}{name}/",
        reuse if reuse is not None else outer.reuse,
        initializer if initializer is not None else outer.initializer,
        dtype_name(dtype) if dtype is not None else outer.dtype,
    )
    _local.scopes.append(scope)
    try:
        with _core.NameScope(name) if _core.tracing() else contextlib.nullcontext():
            yield scope.prefix
    finally:
        _local.scopes.pop()


def _require_resource(use_resource: Optional[bool]) -> None:
    """TensorFlow's scripts ask for resource variables, which are the only ones here."""
    if use_resource not in (None, True):
        raise _core.InvalidArgument(
            f"use_resource: all variables are resources, so it is True or left out, got {use_resource!r}"
        )


def _require_name(name: str) -> None:
    if not isinstance(name, str) or not all(name.split("/")) or "." in name:
        raise _core.InvalidArgument(
            f"expected a name without dots and empty parts, such as 'encoder/w', got {name!r}"
        )


def _require_use(variable: Variable, reuse: Reuse) -> None:
    """A variable that exists already is given only to those who know it."""
    trace = _local.trace
    again = trace is not None and variable.owner is trace.owner and variable.name not in trace.used
    if not again and reuse is not True and reuse is not AUTO_REUSE:
        raise _core.InvalidArgument(
            f"the variable '{variable.name}' exists already; share it with reuse=True or AUTO_REUSE in "
            "get_variable or variable_scope, or use another name, scope or Graph"
        )


def _values(name: str, shape: Optional[Sequence[int]], dtype: str, initializer: Initializer) -> Any:
    """A triple for the library or an array, which has the shape."""
    if callable(initializer):
        if shape is None:
            raise _core.InvalidArgument(f"the variable '{name}' needs a shape")
        initializer = initializer(tuple(shape), dtype)
        if isinstance(initializer, tuple) and initializer and isinstance(initializer[0], str):
            return initializer
    values = np.asarray(initializer)
    if shape is None or values.shape == tuple(shape):
        return values
    if values.ndim == 0:
        return ("constant", float(values), 0.0)
    raise _core.InvalidArgument(
        f"the variable '{name}' has the shape {tuple(shape)}, its first value {values.shape}"
    )


def get_variable(name: str, shape: Optional[Sequence[int]] = None, dtype: Any = None,
                 initializer: Initializer = None, trainable: bool = True,
                 reuse: Reuse = None, use_resource: Optional[bool] = None) -> Variable:
    """The variable of this name in the current scope, made if there is none. The initializer is a
    number, an array, or a function of shape and type (see initializers); by default values are
    uniform as Glorot's. trainable=False makes a variable that no optimizer changes and that a function
    may assign."""
    _require_name(name)
    _require_resource(use_resource)
    scope, graph = _local.scopes[-1], get_default_graph()
    full = scope.prefix + name
    reuse = reuse if reuse is not None else scope.reuse
    wanted = dtype_name(dtype) if dtype is not None else scope.dtype or "float32"
    variable = graph._variables.get(full)
    if variable is None:
        if reuse is True:
            raise _core.InvalidArgument(f"there is no variable '{full}' to reuse")
        chosen = initializer if initializer is not None else scope.initializer
        chosen = chosen if chosen is not None else glorot_uniform_initializer()
        values = _values(full, shape, wanted, chosen)
        variable = graph._make(full, shape, wanted, values, trainable)
    else:
        _require_use(variable, reuse)
        _require_same(variable, shape, wanted if dtype is not None else variable.dtype)
    if _local.trace is not None:
        _local.trace.used.add(full)
    return variable


def _require_same(variable: Variable, shape: Optional[Sequence[int]], dtype: str) -> None:
    if (shape is not None and tuple(shape) != variable.shape) or dtype != variable.dtype:
        raise _core.InvalidArgument(
            f"the variable '{variable.name}' is {variable.dtype} of shape {variable.shape}, asked for "
            f"is {dtype} of shape {tuple(shape) if shape is not None else variable.shape}"
        )
