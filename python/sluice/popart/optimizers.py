"""Optimizers in PopART's form: {"defaultLearningRate": (0.1, False)}, where the truth value says whether the
number is fixed when the session is made."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import _core
from . import _warn
from .enums import AdamMode, AdaptiveMode, SGDAccumulatorAndMomentum, WeightDecayMode
from .tensor_info import DataType, data_type, numpy_name


class OptimizerValue:
    """A number of an optimizer, and whether it is fixed."""

    def __init__(self, val: Any = 0.0, isConst: bool = True) -> None:
        if isinstance(val, OptimizerValue):
            val, isConst = val._value, val._const
        elif isinstance(val, (tuple, list)):
            val, isConst = val
        self._value, self._const = float(val), bool(isConst)

    def val(self) -> float:
        return self._value

    def isConst(self) -> bool:
        return self._const

    def __repr__(self) -> str:
        return f"OptimizerValue({self._value}, {self._const})"


class ClipNormSettings:
    """Scales all gradients so that their common norm is at most `maxNorm`."""

    def __init__(self, weightIds: Sequence[str], maxNorm: float) -> None:
        self.weightIds: Optional[List[str]] = list(weightIds)
        self.maxNorm = float(maxNorm)

    @classmethod
    def clipWeights(cls, weightIds: Sequence[str], maxNorm: float) -> "ClipNormSettings":
        return cls(weightIds, maxNorm)

    @classmethod
    def clipAllWeights(cls, maxNorm: float) -> "ClipNormSettings":
        made = cls([], maxNorm)
        made.weightIds = None
        return made


class _Value(NamedTuple):
    """A value of an optimizer: its name in _core and PopART's default."""

    name: str
    default: float


def _type(value: Any) -> Optional[str]:
    return None if data_type(value) == DataType.UNDEFINED else numpy_name(value)


class Optimizer:
    """What all optimizers have."""

    #: PopART's names without "default" and with a small first letter, as in insertSpecific.
    _VALUES: Dict[str, _Value] = {}

    def __init__(self, values: Mapping[str, Any], kind: str, options: Mapping[str, Any],
                 clip: Sequence[ClipNormSettings]) -> None:
        self._values: Dict[str, OptimizerValue] = {}
        given = dict(values)
        for name, (_, default) in self._VALUES.items():
            key = name if name in ("lossScaling", "nesterov") else "default" + name[0].upper() + name[1:]
            self._values[name] = OptimizerValue(given.pop(key, (default, True)))
        if given:
            known = [n if n == "lossScaling" else "default" + n[0].upper() + n[1:] for n in self._VALUES]
            name = next(iter(given))
            raise _core.InvalidArgument(
                f"{type(self).__name__} has no value '{name}'{_warn.did_you_mean(name, known)}; it has "
                f"{', '.join(known)}")
        self._kind = kind
        self._options = {key: value for key, value in options.items() if value is not None}
        self._clip = _max_norm(clip)
        self._specific: Dict[str, Dict[str, OptimizerValue]] = {}

    def insertSpecific(self, name: str, values: Mapping[str, Any]) -> None:
        """Other values for one weight: {"learningRate": (0.01, False)}."""
        for key in values:
            if key not in self._VALUES or key == "lossScaling":
                known = [each for each in self._VALUES if each != "lossScaling"]
                raise _core.InvalidArgument(
                    f"insertSpecific: there is no value '{key}'{_warn.did_you_mean(key, known)}; there are "
                    f"{', '.join(known)}")
        self._specific.setdefault(name, {}).update({key: OptimizerValue(value) for key, value in values.items()})

    def getLossScalingVal(self) -> float:
        return self._values["lossScaling"].val()

    def _core_optimizer(self) -> Any:
        numbers = {self._VALUES[name].name: value.val() for name, value in self._values.items()}
        optimizer = _core.Optimizer(self._kind, **numbers, **self._options)
        if self._clip is not None:
            optimizer.set_max_grad_norm(self._clip)
        specific: Dict[Tuple[Tuple[str, float], ...], List[str]] = {}
        for weight, values in self._specific.items():
            key = tuple((self._VALUES[name].name, value.val()) for name, value in sorted(values.items()))
            specific.setdefault(key, []).append(weight)
        for values, weights in specific.items():
            optimizer.add_group(weights, dict(values))
        for name, value in self._values.items():
            specific_consts = [each[name].isConst() for each in self._specific.values() if name in each]
            constant = value.isConst() and all(specific_consts)
            if name != "learningRate":  # which is never part of the program; _require_same checks it
                (optimizer.mark_constant if constant else optimizer.mark_variable)(self._VALUES[name].name)
        return optimizer

    def _require_same(self, following: "Optimizer") -> None:
        """That a constant learning rate stays as it is; the library sees to the rest."""
        for weight in (None, *self._specific):
            old, new = (each._specific.get(weight, each._values).get("learningRate") for each in (self, following))
            if old is not None and old.isConst() and (new is None or new.val() != old.val()):
                raise _core.InvalidArgument(
                    f"updateOptimizerFromHost: the learning rate{f' of {weight}' if weight else ''} is "
                    f"constant: it was {old.val()} and cannot become {None if new is None else new.val()}; "
                    "make it variable with (value, False)")

    def __getattr__(self, name: str) -> Any:
        """learningRates(), momentums() and so on give the OptimizerValue that weights have by default."""
        singular = {"epss": "eps"}.get(name, name[:-1])
        values = self.__dict__.get("_values", {})
        if name.endswith("s") and singular in values:
            return lambda: values[singular]
        raise AttributeError(f"{type(self).__name__} has no '{name}'")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value.val()}{'' if value.isConst() else ' (variable)'}"
                           for name, value in self._values.items())
        return f"{type(self).__name__}({values})"


def _max_norm(settings: Sequence[ClipNormSettings]) -> Optional[float]:
    if not settings:
        return None
    if len(settings) > 1 or settings[0].weightIds is not None:
        raise _core.Unsupported(
            "clip_norm_settings: gradients are clipped by their common norm, that of some weights alone is not "
            "supported; use one ClipNormSettings.clipAllWeights")
    return settings[0].maxNorm


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if it is not 0."""

    _VALUES = {"learningRate": _Value("lr", 0.1), "weightDecay": _Value("weight_decay", 0.0),
               "momentum": _Value("momentum", 0.0), "dampening": _Value("dampening", 0.0),
               "velocityScaling": _Value("velocity_scaling", 1.0), "lossScaling": _Value("loss_scaling", 1.0)}

    def __init__(self, values: Optional[Mapping[str, Any]] = None,
                 clip_norm_settings: Sequence[ClipNormSettings] = (),
                 accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum.Combined,
                 accumType: Any = DataType.UNDEFINED, accl1Type: Any = DataType.UNDEFINED) -> None:
        given = dict(values or {})
        nesterov = bool(OptimizerValue(given.pop("nesterov", (0.0, True))).val())
        # Gradients that are clipped must be whole before they join the momentum; the numbers are the same.
        combined = accumulatorAndMomentum == SGDAccumulatorAndMomentum.Combined and not clip_norm_settings
        super().__init__(given, "SGD", {"use_combined_accum": combined, "nesterov": nesterov,
                                        "accum_type": _type(accumType), "velocity_accum_type": _type(accl1Type)},
                         clip_norm_settings)


class ConstSGD(SGD):
    """SGD whose numbers are all fixed."""

    def __init__(self, learning_rate: float, weight_decay: float = 0.0, loss_scaling: float = 1.0,
                 clip_norm_settings: Sequence[ClipNormSettings] = ()) -> None:
        super().__init__({"defaultLearningRate": (learning_rate, True), "defaultWeightDecay": (weight_decay, True),
                          "lossScaling": (loss_scaling, True)}, clip_norm_settings)


class Adam(Optimizer):
    """Adam, AdamW (mode Adam with weight decay that is not L2) and LAMB."""

    _VALUES = {"learningRate": _Value("lr", 0.1), "weightDecay": _Value("weight_decay", 0.0),
               "beta1": _Value("beta1", 0.9), "beta2": _Value("beta2", 0.999), "eps": _Value("eps", 1e-6),
               "lossScaling": _Value("loss_scaling", 1.0), "maxWeightNorm": _Value("max_weight_norm", 10.0)}

    def __init__(self, values: Optional[Mapping[str, Any]] = None, mode: AdamMode = AdamMode.Adam,
                 weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay, accum_type: Any = DataType.UNDEFINED,
                 accl1_type: Any = DataType.FLOAT, accl2_type: Any = DataType.FLOAT,
                 clip_norm_settings: Sequence[ClipNormSettings] = (), scaled_optimizer_state: bool = False) -> None:
        lamb = mode in (AdamMode.Lamb, AdamMode.LambNoBias)
        decoupled = weight_decay_mode == WeightDecayMode.Decay
        if mode == AdamMode.AdaMax:
            raise _core.Unsupported(
                "Adam: the mode AdaMax is not supported; there are Adam, AdamNoBias, Lamb and LambNoBias")
        if lamb and not decoupled:
            raise _core.Unsupported("Adam: LAMB with L2 regularization is not supported; use WeightDecayMode.Decay")
        if scaled_optimizer_state:
            raise _core.Unsupported("Adam: scaled_optimizer_state is not supported")
        given = dict(values or {})
        if not lamb:  # only LAMB has it
            given.pop("defaultMaxWeightNorm", None)
            self._VALUES = {name: value for name, value in Adam._VALUES.items() if name != "maxWeightNorm"}
        super().__init__(given, "LAMB" if lamb else "AdamW" if decoupled else "Adam",
                         {"bias_correction": mode in (AdamMode.Adam, AdamMode.Lamb), "accum_type": _type(accum_type),
                          "first_order_momentum_accum_type": _type(accl1_type),
                          "second_order_momentum_accum_type": _type(accl2_type)}, clip_norm_settings)


class Adaptive(Optimizer):
    """RMSProp, centred or not."""

    _VALUES = {"learningRate": _Value("lr", 0.01), "weightDecay": _Value("weight_decay", 0.0),
               "alpha": _Value("alpha", 0.99), "momentum": _Value("momentum", 0.0), "eps": _Value("eps", 1e-6),
               "lossScaling": _Value("loss_scaling", 1.0)}

    def __init__(self, values: Optional[Mapping[str, Any]] = None, mode: AdaptiveMode = AdaptiveMode.RMSProp,
                 weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay, accum_type: Any = DataType.UNDEFINED,
                 accl1_type: Any = DataType.FLOAT, accl2_type: Any = DataType.FLOAT,
                 accl3_type: Any = DataType.UNDEFINED, rmsprop_tf_variant: bool = False) -> None:
        if mode not in (AdaptiveMode.RMSProp, AdaptiveMode.CenteredRMSProp):
            raise _core.Unsupported(f"Adaptive: the mode {AdaptiveMode(mode).name} is not supported; there are RMSProp "
                                    "and CenteredRMSProp")
        super().__init__(values or {}, "RMSprop",
                         {"centered": mode == AdaptiveMode.CenteredRMSProp, "use_tf_variant": rmsprop_tf_variant,
                          "accum_type": _type(accum_type), "second_order_momentum_accum_type": _type(accl1_type),
                          "first_order_momentum_accum_type": _type(accl2_type)}, ())
        decay = self._values["weightDecay"].val()
        if decay != 0 and weight_decay_mode == WeightDecayMode.Decay:
            raise _core.Unsupported(
                "Adaptive: weight decay is added to the gradient; use WeightDecayMode.L2Regularization")
