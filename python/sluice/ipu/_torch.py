"""Torch modules as bodies and stages: their weights belong to the graph of the function."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, List

import torch

from .. import _capture, _core, _state, args
from ..nn.variables import Graph
from . import ipu_compiler

#: The trees of modules by graph. A tree knows its module, so that no id() is used again.
_trees: "weakref.WeakKeyDictionary[Graph, List[_state.Tree]]" = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def as_function(module: torch.nn.Module) -> Callable[..., Any]:
    """A function of tensors that does what the module does."""

    def call(*tensors: _core.Tensor, **named: _core.Tensor) -> Any:
        function = ipu_compiler.current(type(module).__name__)
        tree = _tree_of(function.graph, module)
        function._uses(tree)
        places = tuple(torch.empty(0) for _ in tensors), {name: torch.empty(0) for name in named}
        _, spec = args.flatten(places)
        tree.fetch()
        with tree.plain() as captured:
            traced = _capture.trace(
                module,
                spec,
                [*tensors, *named.values()],
                parameters=tree.parameters,
                modules=tree.modules,
                training=_core.traces_training(),
            )
            captured += traced.assigned
        if traced.changed_inputs:
            raise _core.Unsupported(
                f"{type(module).__name__} writes its arguments; as a stage it may only return results"
            )
        if traced.spec.kind == "mapping" and all(each.kind == "tensor" for each in traced.spec.children):
            return dict(zip(traced.spec.keys, traced.outputs))
        return traced.outputs

    return call


def _tree_of(graph: Graph, module: torch.nn.Module) -> _state.Tree:
    """The tree of a module in a graph, made at the first use."""
    with _lock:
        trees = _trees.get(graph)
        if trees is None:
            trees = _trees[graph] = []
            weakref.finalize(graph, _release, trees)
        for tree in trees:
            if tree.covers(module):
                return tree
        _require_free(module)
        kind = type(module).__name__
        taken = {each.core.path for each in trees}
        number = next(i for i in range(len(trees) + 1) if f"{kind}{i}" not in taken)
        tree = _state.Tree(module, _core.Module(graph.module, f"{kind}{number}", kind))
        trees.append(tree)
        return tree


def _release(trees: List[_state.Tree]) -> None:
    """Gives the modules back with their newest values, once their graph is gone."""
    for tree in trees:
        tree.release()


def _require_free(module: torch.nn.Module) -> None:
    """A module that another model holds has its values elsewhere."""
    if any(id(t) in _state._holders for t in (*module.parameters(), *module.buffers())):
        raise _core.InvalidArgument(
            f"{type(module).__name__} belongs to another model or graph: destroy() that model first, "
            "or use a copy of the module"
        )
