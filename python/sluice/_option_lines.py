"""Lines of option files that are Python's: PopTorch runs them as such.

    setAvailableMemoryProportion({"IPU0": 0.2})
    Precision.setPartialsType(torch.half)
    _Popart.setPatterns({"InPlace": False}, level=1)

The core reads all others. Only setters with literals, enumerators and types are read; nothing is run.
"""

from __future__ import annotations

import ast
import enum
import sys
from typing import Any, Callable, List, NamedTuple, Optional

#: Setters that the core does not have.
_OURS = {
    "sourceLocationExcludes", "appendToLocationExcludes",
    "_Popart.set", "_Popart.setEngineOptions", "_Popart.setPatterns",
}


class Call(NamedTuple):
    """A setter and what it is called with."""

    path: List[str]
    node: ast.Call

    def apply(self, options: Any) -> None:
        """Calls the setter. Raises ValueError for what is no value of an option."""
        setter: Callable[..., Any] = options
        for name in self.path:
            setter = getattr(setter, name)
        setter(*map(_value, self.node.args), **{each.arg: _value(each.value) for each in self.node.keywords})


def python_call(line: str) -> Optional[Call]:
    """The call of a line that the core cannot read; None for all others, right and wrong."""
    try:
        node = ast.parse(line.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Call):
        return None
    path = _path(node.func)
    if path and path[0] == "options":
        path = path[1:]
    if not path or any(each.arg is None for each in node.keywords):
        return None
    inside = [each for value in (*node.args, *node.keywords) for each in ast.walk(value)]
    ours = bool(node.keywords) or ".".join(path) in _OURS
    ours = ours or any(isinstance(each, ast.Dict) or _root(each) == "torch" for each in inside)
    return Call(path, node) if ours else None


def _path(node: ast.AST) -> List[str]:
    """The names of a.b.c; empty for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if not isinstance(node, ast.Attribute):
        return []
    above = _path(node.value)
    return [*above, node.attr] if above else []


def _root(node: ast.AST) -> Optional[str]:
    return next(iter(_path(node)), None)


def _value(node: ast.AST) -> Any:
    path = _path(node)
    if not path:
        return ast.literal_eval(node) if not _has_names(node) else _container(node)
    if path[0] == "torch":
        import torch

        kind = getattr(torch, path[-1], None)
        if len(path) == 2 and isinstance(kind, torch.dtype):
            return kind
    elif len(path) >= 2:
        kind = getattr(sys.modules["sluice"], path[-2], None)
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and path[-1] in kind.__members__:
            return kind[path[-1]]
    raise ValueError(f"'{'.'.join(path)}' is no value of an option")


def _has_names(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) for each in ast.walk(node))


def _container(node: ast.AST) -> Any:
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values)}  # type: ignore[arg-type]
    raise ValueError(f"'{ast.unparse(node)}' is no value of an option")
