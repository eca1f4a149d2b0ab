"""Models that were loaded from executables: files with compiled programs (docs/executable.md)."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch

from . import _core
from ._convert import to_core, to_torch
from ._model_reports import Reports
from .options import Options

__all__ = ["LoadedModel", "load"]


class LoadedModel(Reports):
    """A model of an executable, with the reports of other models. It is called with the tensors of a whole step, by position or by name, and
    returns the tensors of the result: the tensor itself if there is only one, else a tuple of all, in the
    order in which forward returned them."""

    def __init__(self, core: _core.Model, options: Options) -> None:
        self._core = core
        self._options = options

    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Union[torch.Tensor, Tuple[torch.Tensor, ...]]:
        """Runs one step."""
        results = self._core.run(self._inputs(args, kwargs))
        outputs = tuple(to_torch(each) for each in results)
        return outputs[0] if len(outputs) == 1 else outputs

    def _compiled(self, what: str) -> _core.Model:
        return self._core

    def _inputs(self, args: tuple, kwargs: Dict[str, Any]) -> List[_core.HostTensor]:
        names = self._core.input_names
        given = dict(zip(names, args))
        if len(args) > len(names):
            raise _core.InvalidArgument(f"the model takes {len(names)} inputs, {', '.join(names)}; got {len(args)}")
        for name, value in kwargs.items():
            if name not in names or name in given:
                what = "was given twice" if name in given else f"is not one of {', '.join(names)}"
                raise _core.InvalidArgument(f"input '{name}' {what}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise _core.InvalidArgument(f"input '{missing[0]}' is missing")
        return [to_core(given[name], f"input '{name}'") for name in names]

    @property
    def options(self) -> Options:
        """The options that the model runs with; they are frozen."""
        return self._options

    @property
    def training(self) -> bool:
        """Whether calls update the weights."""
        return self._core.training

    @property
    def compilationTime(self) -> float:
        """Seconds spent compiling: 0 unless the file was for another target."""
        return self._core.compilation_time

    @property
    def updates(self) -> int:
        """Weight updates made so far, also before the file was saved."""
        return self._core.updates

    def inputNames(self) -> List[str]:
        """The names of the inputs, in their order."""
        return self._core.input_names

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """The values of weights and buffers by their names."""
        return {name: to_torch(value) for name, value in self._core.state_dict().items()}

    def load_state_dict(self, state_dict: Dict[str, torch.Tensor]) -> None:
        """Replaces the values of weights and buffers."""
        self._core.load_state_dict({name: to_core(value, name) for name, value in state_dict.items()})

    def save(
        self, filename: "str | os.PathLike[str]", export_model: bool = True, save_rng_state: bool = True
    ) -> None:
        """Writes an executable with the values that the model has now."""
        self._core.save(os.fspath(filename), export_model, save_rng_state)

    def destroy(self) -> None:
        """Frees the devices."""
        self._core.destroy()

    def __enter__(self) -> "LoadedModel":
        return self

    def __exit__(self, *error: Any) -> None:
        self.destroy()

    def __repr__(self) -> str:
        kind = "training" if self.training else "inference"
        return f"LoadedModel({kind}, inputs {', '.join(self.inputNames())})"


def load(
    filename: "str | os.PathLike[str]",
    edit_opts_fn: Optional[Callable[[Options], None]] = None,
    refuse_other_target: bool = False,
) -> LoadedModel:
    """Makes a model of a file that `save` or `compileAndExport` has written, in any process. The function may
    change options that matter only while a model runs, such as the number of threads. A file for other devices
    or of another version is compiled again from its graph, with a warning, or refused if that is asked for."""
    made: List[Options] = []

    def edit(core: _core.Options) -> _core.Options:
        options = Options()
        options._raw = core
        if edit_opts_fn is not None:
            edit_opts_fn(options)
        made.append(options)
        return options._raw

    core = _core.load(os.fspath(filename), edit, refuse_other_target)
    made[0].freeze()
    return LoadedModel(core, made[0])
