"""Blocks: annotations that say where a model may be cut.

    with sluice.Block("B1"):                       # lines of code
        x = self.layer1(x)
    model.layer2 = sluice.BeginBlock(model.layer2, "B2")     # a layer and all that follows it
    @sluice.BlockFunction("B3")                    # a function

The three forms can be mixed. Outside of a model's trace they do nothing, so a module also runs in
plain torch. Blocks without an id are numbered "0", "1", ... in the order of their use.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, List, Optional, Tuple, TypeVar

import torch

from ._option_base import warn_no_effect

__all__ = ["Attribute", "BeginBlock", "Block", "BlockFunction", "LegacyBeginBlockFn", "NameScope", "removeBlocks"]

_F = TypeVar("_F", bound=Callable[..., Any])

#: The attribute of a module that begins a block: (id or None, device or None).
MARK = "_sluice_block"


def _place(user_id: Any, ipu_id: Any) -> Tuple[Optional[str], Optional[int]]:
    if user_id is not None and (isinstance(user_id, bool) or not isinstance(user_id, (str, int))):
        raise TypeError(f"a block's id is text, got {user_id!r}")
    if ipu_id is not None and (isinstance(ipu_id, bool) or not hasattr(ipu_id, "__index__")):
        raise TypeError(f"a block's device is a whole number, got {ipu_id!r}")
    return None if user_id is None else str(user_id), None if ipu_id is None else int(ipu_id)


class _Scope:
    """A context manager that opens a scope of the core inside a trace, and does nothing outside.

    It may be entered several times, also while it is open.
    """

    def __init__(self) -> None:
        self._open: List[Any] = []

    def _make(self) -> Any:
        raise NotImplementedError

    def __enter__(self) -> "_Scope":
        from . import _core

        scope = self._make() if _core.tracing() else None
        if scope is not None:
            scope.__enter__()
        self._open.append(scope)
        return self

    def __exit__(self, *error: Any) -> None:
        scope = self._open.pop()
        if scope is not None:
            scope.__exit__(*error)

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_open": []}


class Block(_Scope):
    """Puts the ops made inside into a block, optionally on a device: ``with Block("B1", 0):``.

    If blocks are nested, the innermost one counts. The same id always means the same block.
    """

    def __init__(self, user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        super().__init__()
        self._id, self._device = _place(user_id, ipu_id)

    @staticmethod
    def useAutoId() -> None:
        """Numbers the blocks without an id; call it at the start of forward. They always are."""
        from . import _core

        if _core.tracing():
            _core.use_auto_id()

    @staticmethod
    def start(user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        """Puts all ops from here to the next ``start`` or ``BeginBlock`` into a block."""
        from . import _core

        name, device = _place(user_id, ipu_id)
        if _core.tracing():
            if name is None:
                _core.use_auto_id()
            layer = _core.Module(kind="Block")
            layer.set_block_mark(name, device)
            _begun().append(layer)
            with _core.ModuleScope(layer):  # the block goes on after a marked layer
                pass

    def _make(self) -> Any:
        from . import _core

        if self._id is None:
            _core.use_auto_id()
        return _core.Block(self._id, self._device)


#: The layers that ``start`` made, by capture: a trace knows layers by their addresses.
_layers: "weakref.WeakKeyDictionary[Any, List[Any]]" = weakref.WeakKeyDictionary()


def _begun() -> List[Any]:
    from . import _capture

    return _layers.setdefault(_capture.current(), [])


class NameScope(_Scope):
    """Prefixes the names of the ops made inside: ``with NameScope("encoder"):``."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if not isinstance(name, str) or not name:
            raise ValueError(f"NameScope: expected a name, got {name!r}")
        self._name = name

    def _make(self) -> Any:
        from . import _core

        return _core.NameScope(self._name)


class Attribute:
    """PopTorch's note for PopART on the ops made inside, ``with Attribute(__outline={"layer": "a"}):``. It is
    accepted without effect."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes

    def __enter__(self) -> "Attribute":
        warn_no_effect("Attribute")
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class LegacyBeginBlockFn:
    """A function that begins a block and then does what it did before."""

    def __init__(
        self,
        layer_to_call: Callable[..., Any],
        user_id: Optional[str] = None,
        ipu_id: Optional[int] = None,
    ) -> None:
        _place(user_id, ipu_id)
        functools.update_wrapper(self, layer_to_call, updated=())
        self._function, self._user_id, self._ipu_id = layer_to_call, user_id, ipu_id

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        Block.start(self._user_id, self._ipu_id)
        return self._function(*input, **kwargs)


def BeginBlock(
    layer_to_call: Any, user_id: Optional[str] = None, ipu_id: Optional[int] = None
) -> Any:
    """Marks a layer: all ops from its call to the next marked layer belong to the block.

    Returns the layer, which stays what it is: it can be copied, pickled and saved, and the names of
    its parameters do not change. A function is wrapped.
    """
    if not callable(layer_to_call):
        raise TypeError(f"BeginBlock: expected a module or a function, got {layer_to_call!r}")
    if not isinstance(layer_to_call, torch.nn.Module):
        return LegacyBeginBlockFn(layer_to_call, user_id, ipu_id)
    if getattr(layer_to_call, MARK, None) is not None:
        raise RuntimeError(
            f"BeginBlock: the layer already begins the block {getattr(layer_to_call, MARK)[0]!r}; "
            "removeBlocks removes the marks of a module"
        )
    setattr(layer_to_call, MARK, _place(user_id, ipu_id))
    return layer_to_call


def removeBlocks(module: torch.nn.Module) -> None:
    """Removes the marks of BeginBlock from a module and all modules below it."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"removeBlocks: expected a module, got {module!r}")
    for each in module.modules():
        if MARK in vars(each):
            delattr(each, MARK)


def BlockFunction(
    user_id: Optional[str] = None, ipu_id: Optional[int] = None
) -> Callable[[_F], _F]:
    """A decorator: the ops of the function belong to a block."""
    if callable(user_id):
        raise TypeError("BlockFunction is a decorator with arguments: @BlockFunction('B1')")
    _place(user_id, ipu_id)

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

    return decorate
