"""compile: a function with its loop or pipeline becomes one callable."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any, Callable, ContextManager, List, Optional, Sequence, Set

import numpy as np

from .. import _core, _forks
from ..nn._tensor import to_host, to_numpy
from ..nn.variables import Graph, get_default_graph
from . import config as _config
from ._structure import body_of


class _Current(threading.local):
    function: Optional["CompiledFunction"] = None


_current = _Current()


class _OtherDevices(Exception):
    """The function uses other devices than was assumed: it has to be traced again."""


class CompiledFunction(_forks.Watched):
    """A function that runs on the devices as a whole. Call it with its inputs, or without any to use
    those given to compile(). The first call traces and compiles."""

    def __init__(
        self,
        computation: Callable,
        inputs: Sequence[Any] = (),
        options: Optional[Any] = None,
        graph: Optional[Graph] = None,
    ) -> None:
        self.graph = graph if graph is not None else get_default_graph()
        # What the graph knows this function by. The library keeps objects that know the graph, so a
        # reference from there to here would be a cycle that nobody can see.
        self._owner = object()
        self._body = body_of(computation, "compile")
        self._inputs = tuple(inputs)
        self._options = _config.options_for(options)
        self._devices = 1  # of a replica
        self._shards: Set[int] = set()  # that the trace has used so far
        self._sharding: List[int] = []  # those that the options provide for
        self._kept: List[Any] = []  # what the program uses: queues
        self._trees: List[Any] = []  # the weights of torch modules among the stages
        self._core: Optional[_core.CompiledFunction] = None
        self._lost = False  # compiled by the parent of this forked process
        self._lock = threading.Lock()
        _forks.watch(self)

    def _state_trees(self) -> List[Any]:
        return self._trees

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread that is not here may have had it
        if self._core is None:
            return
        _forks.lose(self._core, *self._kept)
        self._core, self._kept, self._lost = None, [], True
        for tree in self._trees:
            tree.lose()

    def _trace(self, tensors: List[_core.Tensor]) -> List[_core.Tensor]:
        outer, _current.function = _current.function, self
        self._shards = set()
        try:
            with self.graph.tracing(self._owner):
                return self._body(tensors)
        finally:
            _current.function = outer

    def _make(self) -> _core.CompiledFunction:
        options = self._options.for_devices(self._devices)
        if self._sharding:
            options.apply("setExecutionStrategy", _sharded(self._sharding))
        self_ref = weakref.ref(self)
        return _core.CompiledFunction(
            self.graph.module, options, lambda tensors: self_ref()._trace(tensors)
        )

    def compile(self, *inputs: Any) -> "CompiledFunction":
        """Traces and compiles for such inputs, which the first call does otherwise."""
        self._compiled(self._hosts(inputs))
        return self

    def _compiled(self, inputs: List[_core.HostTensor]) -> _core.CompiledFunction:
        if _core.tracing():
            raise _core.InvalidArgument("a compiled function cannot be called while another is traced")
        if self._lost:
            raise _forks.lost_error("function")
        with self._lock:
            made = self._core if self._core is not None else self._make()
            try:
                made.compile(inputs)
            except _OtherDevices:
                made = self._make()
                made.compile(inputs)
            self._core = made
        return made

    def _hosts(self, inputs: Sequence[Any]) -> List[_core.HostTensor]:
        return [to_host(value) for value in (inputs if inputs else self._inputs)]

    def __call__(self, *inputs: Any) -> List[np.ndarray]:
        """Runs the function and returns the values that it returns, as arrays; those of the first
        replica if there are several."""
        hosts = self._hosts(inputs)
        compiled = self._compiled(hosts)
        for tree in self._trees:
            tree.push()
        self._running = True
        try:
            return [to_numpy(result) for result in compiled.run(hosts)]
        finally:
            self._running = False
            for tree in self._trees:
                tree.note_step()

    run = __call__

    def cancel(self) -> bool:
        """Ends a call that runs in another thread, which raises Cancelled. Returns whether there was
        one."""
        return self._core is not None and self._core.cancel()

    def destroy(self) -> None:
        """Frees what was compiled; variables keep their values. Another call compiles again. A graph
        has one function that trains at a time: destroy it before another one is compiled."""
        with self._lock:
            self._core = None
            self._kept.clear()

    def set_optimizer(self, optimizer: Any) -> None:
        """Uses another learning rate or other attributes of the optimizer in later calls."""
        self._model().set_optimizer(optimizer._core_optimizer(self.graph))

    def summary(self) -> str:
        return self._model().summary()

    def explain(self) -> str:
        """Where the time of a call goes, by the plan of the compiler."""
        return self._model().explain()

    @property
    def updates(self) -> int:
        """The number of weight updates so far."""
        return self._model().updates

    def _model(self) -> _core.Model:
        if self._lost:
            raise _forks.lost_error("function")
        if self._core is None:
            raise _core.InvalidArgument("the function was not compiled yet: call it first")
        return self._core.model

    # --- what loops and pipelines report while they are traced ------------------------------------

    def _keep(self, *objects: Any) -> None:
        self._kept.extend(each for each in objects if each is not None)

    def _uses(self, tree: Any) -> None:
        if all(tree is not each for each in self._trees):
            self._trees.append(tree)

    def _needs_devices(self, devices: int) -> None:
        """Begins again if the number of replicas depends on this and another one was assumed."""
        if devices != self._devices and self._options.selects_devices:
            self._devices = devices
            raise _OtherDevices

    def _use_shard(self, index: int) -> None:
        self._shards.add(index)

    def _default_shard(self) -> ContextManager:
        """The place of what a loop computes outside of shards, if it has any."""
        return _core.Block("shard0", 0) if self._sharding else contextlib.nullcontext()

    def _end_loop(self) -> None:
        """Begins again if the loop has shards that the options do not provide for."""
        shards = sorted(self._shards | {0}) if self._shards else []
        if shards != self._sharding:
            self._sharding, self._devices = shards, max(shards, default=0) + 1
            raise _OtherDevices


def _sharded(shards: List[int]) -> _core.Call:
    stages = [
        _core.Call("Stage", [f"shard{shard}"], [_core.Call("device", [shard])]) for shard in shards
    ]
    return _core.Call("ShardedExecution", stages)


def current(caller: str) -> CompiledFunction:
    """The function that is traced."""
    if _current.function is None:
        raise _core.InvalidArgument(
            f"{caller} can be called only inside a function that is given to ipu.compile()"
        )
    return _current.function


def compile(
    computation: Callable,
    inputs: Optional[Sequence[Any]] = None,
    options: Optional[Any] = None,
    graph: Optional[Graph] = None,
) -> CompiledFunction:
    """Makes a callable of a function that contains one loops.repeat or pipelining_ops.pipeline. What it
    computes before and after is computed once per call. `options` (sluice.Options) replace what
    IPUConfig has set; variables belong to `graph`, by default the default graph."""
    return CompiledFunction(computation, inputs or (), options, graph)
