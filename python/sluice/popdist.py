"""PopDist's names: which of several processes (instances) this one is, and which replicas it has.

Under `mpirun` or `sluice launch` every process has the same number of replicas, and models sum their
gradients over the replicas of all processes; see docs/distributed.md. Without them there is one process.

    import sluice
    from sluice import popdist

    popdist.init()
    options = popdist.Options()        # with the replicas of this process
    model = sluice.trainingModel(module, options, optimizer)
"""

from __future__ import annotations

import os
from .options import Options as _Options

__all__ = [
    "Options",
    "getInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "isPopdistEnvSet",
]


def _number(*names: str) -> int:
    """A count of the environment, under the first name that is set; 0: none is."""
    for name in names:
        text = os.environ.get(name, "")
        if text and (not text.isdecimal() or int(text) < 1):
            raise ValueError(f"{name} is '{text}', expected a number above 0")
        if text:
            return int(text)
    return 0


def init() -> None:
    """Checks that the replicas of the environment fit the processes; communication begins with the
    first model."""
    getNumLocalReplicas()


def isPopdistEnvSet() -> bool:
    """Whether the environment says which of several processes this one is."""
    return "OMPI_COMM_WORLD_SIZE" in os.environ


def getNumInstances() -> int:
    """The number of processes."""
    return _Options().Distributed.numProcesses


def getInstanceIndex() -> int:
    """The number of this process, from 0 on."""
    return _Options().Distributed.processId


def getNumTotalReplicas() -> int:
    """The replicas of all processes: `sluice launch --replicas`, else one per process."""
    return _number("SLUICE_REPLICAS", "POPDIST_NUM_TOTAL_REPLICAS") or getNumInstances()


def getNumLocalReplicas() -> int:
    """The replicas of this process."""
    total, instances = getNumTotalReplicas(), getNumInstances()
    if total % instances != 0:
        raise ValueError(f"{total} replicas cannot be divided among {instances} processes")
    return total // instances


def getReplicaIndexOffset() -> int:
    """The number of the first replica of this process."""
    return getInstanceIndex() * getNumLocalReplicas()


def getNumIpusPerReplica() -> int:
    """What the environment says of the devices of a replica, else 1; blocks and strategies decide."""
    return _number("POPDIST_NUM_IPUS_PER_REPLICA") or 1


def Options() -> _Options:
    """Options with the replicas of this process. The devices of a replica are up to the strategy."""
    return _Options().replicationFactor(getNumLocalReplicas())
