"""The values of a model and where they are: a base class of Executor."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from . import _core
from ._state import Tree


class Values:
    """Weights, buffers and random numbers of a model, on the host and on the devices; `_compiled` gives the
    compiled model or says why there is none."""

    _user_model: torch.nn.Module
    _tree: Optional[Tree]
    _core: Optional[_core.Model]

    def _compiled(self, what: str) -> _core.Model:
        raise NotImplementedError

    def copyWeightsToHost(self) -> None:
        """Copies the newest values into the module's tensors; reading one does so by itself."""
        if self._tree is not None:
            self._tree.fetch()

    copyWeightsToHostIfNeeded = copyWeightsToHost

    def copyWeightsToDevice(self) -> None:
        """Copies the module's tensors to the devices; the next step does so with those that changed."""
        self._compiled("copyWeightsToDevice")
        self._tree.push_all()

    def copyNamedBuffersToDevice(self) -> None:
        """Copies the buffers named by Options.updatableNamedBuffers to the devices."""
        core = self._compiled("copyNamedBuffersToDevice")
        self._tree.push()
        core.copy_named_buffers()

    def state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, torch.Tensor]:
        """The module's state_dict with the newest values."""
        return self._user_model.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Dict[str, torch.Tensor], strict: bool = True):
        """Loads into the module; the next step uses the values."""
        return self._user_model.load_state_dict(state_dict, strict=strict)

    @property
    def rng_state(self) -> List[int]:
        """The seed and the number of the next micro-batch: all that random ops depend on."""
        return list(self._compiled("rng_state").rng_state)

    @rng_state.setter
    def rng_state(self, state: List[int]) -> None:
        self._compiled("rng_state").rng_state = tuple(state)

    def attachToDevice(self) -> None:
        """Takes the devices again after detachFromDevice."""
        self._compiled("attachToDevice").attach()

    def detachFromDevice(self) -> None:
        """Gives the devices back and keeps the state on the host."""
        self._compiled("detachFromDevice").detach()

    def isAttachedToDevice(self) -> bool:
        """Whether the model has its devices."""
        return self._core is not None and self._core.is_attached
