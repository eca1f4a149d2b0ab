"""Where an error happened: the function of torch, the module and the user's line."""

import os
import sys
import weakref

import torch

from .. import _core

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_LIBRARIES = (_TORCH + os.sep, _OWN + os.sep)


def user_line(skip=_LIBRARIES):
    """`file:line` of the innermost frame that is neither torch's nor Sluice's."""
    frame = sys._getframe(1)
    while frame is not None:
        if _is_user_code(frame, skip):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def user_line_of(error):
    """The same for an exception that was raised below."""
    line, step = None, error.__traceback__
    while step is not None:
        if _is_user_code(step.tb_frame, _LIBRARIES):
            line = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return line


def _is_user_code(frame, skip):
    path = frame.f_code.co_filename
    return not path.startswith("<") and not os.path.abspath(path).startswith(skip)


def _version(tensor):
    """How often the tensor was written; torch does not count it for tensors of inference_mode."""
    return 0 if tensor.is_inference() else tensor._version


def _kind(tensor):
    return tensor.dtype, tensor.shape, tensor.layout, tensor.device


class Constant:
    """A tensor from outside of the model that a capture has read, and the line that used it first. The attribute
    is the module that has it, and its name there."""

    def __init__(self, tensor, attribute=None):
        self.tensor = tensor
        self.line = user_line()
        self._version = _version(tensor)
        self._module, self._name = (weakref.ref(attribute[0]), attribute[1]) if attribute else (None, None)

    def require_unchanged(self):
        """An error if the tensor was written since: the compiled model has its old value."""
        if _version(self.tensor) == self._version:
            return
        where = f", used at {self.line}," if self.line else ""
        raise _core.InvalidArgument(
            f"a tensor {list(self.tensor.shape)} that is neither an argument nor a parameter or buffer of "
            f"the module{where} was changed after the model was compiled, which has its old value as a constant: "
            "register_buffer() it, or make it an argument of forward; after destroy() a new model has the new value"
        )

    def is_replaced(self):
        """Whether the attribute of the module has another value now, which a new capture would see."""
        module = self._module() if self._module else None
        if module is None:
            return False
        now, then = vars(module).get(self._name), self.tensor
        if now is then:
            return False
        if not isinstance(now, torch.Tensor) or _kind(now) != _kind(then):
            return True
        return not torch.equal(now, then) and not bool(((now == then) | ((now != now) & (then != then))).all())


def is_located(error):
    return getattr(error, "located", False)


def located(error, what, modules, line=None):
    """An error of the same type that also says what was called, and where."""
    module = f"module '{modules[-1]}'" if modules and modules[-1] else "the outermost module"
    line = line or user_line()
    text = getattr(error, "message", None) or str(error)
    message = f"{what}: {text} (in {module}" + (f", {line})" if line else ")")
    result = type(error)(message)
    result.message, result.type, result.location = message, type(error).__name__, line
    result.located = True
    return result
