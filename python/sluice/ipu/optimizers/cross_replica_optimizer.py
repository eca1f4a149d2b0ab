"""CrossReplicaOptimizer."""

from ... import _core
from ...nn.variables import Graph
from .base import Optimizer, Wrapper


class CrossReplicaOptimizer(Wrapper):
    """Averages the gradients of replicas, once per update. Needed as soon as there are replicas."""

    def __init__(self, opt: Optimizer) -> None:
        super().__init__(opt)

    def _rule(self, graph: Graph) -> _core.UpdateRule:
        return _core.cross_replica(self.optimizer._rule(graph))
