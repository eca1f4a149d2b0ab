"""Functions of symbolic tensors, for models that are Python functions: no torch is needed.

    from sluice import ipu, nn

    def body(x, labels):
        w = nn.get_variable("w", [10, 784])
        return nn.cross_entropy(nn.linear(x, w), labels)

Such functions are called while a model is traced; `sluice.ipu` runs them. Arguments may be tensors,
variables, numbers and NumPy arrays. Tensors have Python's operators and NumPy's indexing. Any op of the
op table can be called by its name: `nn.op("softmax", x, axis=1)`; `nn.op_help("softmax")` says how.
"""

from . import elementwise, initializers, layers, losses, reductions, shapes
from ._operators import install as _install
from ._tensor import Tensor, as_tensor, op, op_help, op_names
from .elementwise import *  # noqa: F401,F403
from .initializers import *  # noqa: F401,F403
from .layers import *  # noqa: F401,F403
from .losses import *  # noqa: F401,F403
from .reductions import *  # noqa: F401,F403
from .shapes import *  # noqa: F401,F403
from .variables import *  # noqa: F401,F403
from .variables import Variable
from .variables import __all__ as _variables

_install(Tensor)
_install(Variable)


def constant(value, dtype=None) -> Tensor:
    """A constant of the current trace. Python's floats become float32, its integers int32."""
    x = as_tensor(value)
    return x if dtype is None else elementwise.cast(x, dtype)


__all__ = [
    "Tensor",
    "as_tensor",
    "constant",
    "op",
    "op_help",
    "op_names",
    *elementwise.__all__,
    *initializers.__all__,
    *layers.__all__,
    *losses.__all__,
    *reductions.__all__,
    *shapes.__all__,
    *_variables,
]
