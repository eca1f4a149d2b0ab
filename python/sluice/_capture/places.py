"""Where an error happened: the function of torch, the module and the user's line."""

import os
import sys

import torch

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_LIBRARIES = (_TORCH + os.sep, _OWN + os.sep)


def user_line(skip=_LIBRARIES):
    """`file:line` of the innermost frame that is neither torch's nor Sluice's."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith("<") and not os.path.abspath(path).startswith(skip):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def is_located(error):
    return getattr(error, "located", False)


def located(error, what, modules):
    """An error of the same type that also says what was called, and where."""
    module = f"module '{modules[-1]}'" if modules and modules[-1] else "the outermost module"
    line = user_line()
    text = getattr(error, "message", None) or str(error)
    message = f"{what}: {text} (in {module}" + (f", {line})" if line else ")")
    result = type(error)(message)
    result.message, result.type, result.location = message, type(error).__name__, line
    result.located = True
    return result
