"""The older names of the configuration."""

from __future__ import annotations

from typing import Sequence, Union

from .config import IPUConfig, reset_ipu_configuration

__all__ = [
    "IPUConfig", "auto_select_ipus", "configure_ipu_system", "create_ipu_config",
    "reset_ipu_configuration", "select_ipus", "set_recomputation_options",
]


def create_ipu_config() -> IPUConfig:
    return IPUConfig()


def auto_select_ipus(opts: IPUConfig, num_ipus: Union[int, Sequence[int]]) -> IPUConfig:
    opts.auto_select_ipus = num_ipus
    return opts


def select_ipus(opts: IPUConfig, indices: Union[int, Sequence[int]]) -> IPUConfig:
    opts.select_ipus = indices
    return opts


def set_recomputation_options(opts: IPUConfig, allow_recompute: bool = True) -> IPUConfig:
    opts.allow_recompute = allow_recompute
    return opts


def configure_ipu_system(config: IPUConfig) -> None:
    config.configure_ipu_system()
