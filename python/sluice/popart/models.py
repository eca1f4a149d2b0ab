"""Models as bytes and files."""

from __future__ import annotations

import os
from typing import Any, Mapping, Union

from .. import _core


class ModelProto(bytes):
    """The bytes of a model. They also remember the graph that they were made from, with everything that
    the standard has no word for: the names of all tensors, ops that no output needs, tensor locations."""

    graph: Any

    @staticmethod
    def of(graph: Any) -> "ModelProto":
        proto = ModelProto(model_bytes(graph))
        proto.graph = graph
        return proto

    def __reduce__(self) -> Any:
        return bytes, (bytes(self),)


def model_bytes(graph: Any, values: Mapping[str, Any] = {}) -> bytes:
    """A model without outputs would be empty, so that what nothing reads is an output then. The values are those
    of weights that are not the graph's own."""
    if not graph.outputs():
        graph = graph.snapshot(True)
        for name in graph.unused():
            graph.add_output(name)
    try:
        return graph.model_proto(placements=True, values=dict(values))
    except _core.Unsupported as error:
        raise _core.Unsupported(f"{error.message}; a session also takes the Builder itself as fnModel") from error


def graph_of(model: Any, training: bool = True) -> Any:
    """The _core.Builder of a Builder, of the bytes of a model, or of a file."""
    if isinstance(getattr(model, "_core", None), _core.Builder):
        return model._core.snapshot(True)
    if isinstance(model, ModelProto):
        return model.graph.snapshot(True)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _core.Builder.from_model(bytes(model), training)
    if isinstance(model, (str, os.PathLike)):
        return _core.Builder.from_model(os.fspath(model), training)
    raise TypeError(f"expected a Builder, the bytes of a model or the name of a file, got {type(model).__name__}")


def write_file(path: Union[str, os.PathLike], content: bytes) -> None:
    """Writes under another name first, so that nobody sees half a file."""
    path = os.fspath(path)
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)
    except OSError as error:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise _core.FileError(f"'{path}' cannot be written: {error.strerror}") from error
