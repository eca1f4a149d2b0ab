"""Optimizers and their wrappers."""

from .base import (
    AdamOptimizer,
    AdamWOptimizer,
    GradientDescentOptimizer,
    LAMBOptimizer,
    MomentumOptimizer,
    Optimizer,
    RMSPropOptimizer,
)
from .cross_replica_optimizer import CrossReplicaOptimizer
from .gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizer,
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizer,
    GradientAccumulationOptimizerV2,
    GradientAccumulationReductionMethod,
    accumulation_dtype,
)
from .map_gradient_optimizer import MapGradientOptimizer

__all__ = [
    "AdamOptimizer",
    "AdamWOptimizer",
    "CrossReplicaGradientAccumulationOptimizer",
    "CrossReplicaGradientAccumulationOptimizerV2",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "GradientAccumulationOptimizerV2",
    "GradientAccumulationReductionMethod",
    "GradientDescentOptimizer",
    "LAMBOptimizer",
    "MapGradientOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
    "accumulation_dtype",
]
