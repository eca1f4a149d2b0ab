"""The table of rules. A rule is one function that says what a function of torch becomes; its
decorator names the function, for instance `@rule("aten.relu.default")`.

Every rule takes the trace's Capture first and then the arguments of the function:
- `rule`: tensors arrive as tensors of `_core`, and the results are such tensors.
- `raw_rule`: tensors arrive as they are, for rules that write tensors or look at known values.
- `view_rule`: gets the tensor, the result's geometry and the other arguments; returns the steps
  (views.py) from the tensor to the result, or a list of such lists for several results.
- `refuse`: no rule, but a reason why there can be none.

In-place and `out=` forms need no rules: they are the rule of the plain form and a write.
"""

from enum import Enum


class Kind(Enum):
    VALUE = 1
    RAW = 2
    VIEW = 3
    REFUSED = 4


class Rule:
    def __init__(self, name, function, kind, eager=True, reason=None):
        self.name = name
        self.function = function
        self.kind = kind
        self.eager = eager  # computed at once if all operands are known
        self.reason = reason


RULES = {}


def _add(names, kind, **options):
    def decorate(function):
        for name in names:
            name = name if name.count(".") == 2 else name + ".default"
            if name in RULES:
                raise ValueError(f"two rules for {name}")
            RULES[name] = Rule(name, function, kind, **options)
        return function

    return decorate


def rule(*names, eager=True):
    """`eager=False` is for random functions, which give other values each time."""
    return _add(names, Kind.VALUE, eager=eager)


def raw_rule(*names, eager=True):
    return _add(names, Kind.RAW, eager=eager)


def view_rule(*names):
    return _add(names, Kind.VIEW)


def refuse(reason, *names, eager=True):
    """`eager=False` is for functions that known values are refused for, too."""
    _add(names, Kind.REFUSED, eager=eager, reason=reason)(None)
