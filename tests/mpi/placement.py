#!/usr/bin/python3
"""Where mpirun would put the ranks of `sluice launch --bind`, on machines that it is told about and that are not there.

    placement.py <sluice>

Neighbouring ranks, which run neighbouring stages of a pipeline, must be near: on one host as long as it has places, and
there on one socket as long as it has its share. All sockets of a host must be used evenly.
"""
import os
import re
import subprocess
import sys


def placed(sluice, count, topology, bind, hosts=None):
    """(host, first core) by rank, of what the launcher would start."""
    options = ["-n", str(count), "--bind", bind] + (["--hosts", ",".join(hosts)] if hosts else [])
    dry = subprocess.run([sluice, "launch", *options, "--dry-run", "true"], check=True, capture_output=True, text=True)
    command = dry.stdout.split()
    shown = ["--display-map", "--do-not-launch"]
    if hosts:
        ones = ",".join("1" for _ in hosts)
        for name in ["num_nodes", "slots", "max_slots"]:
            shown += ["--mca", f"ras_simulator_{name}", ones]
    environment = dict(os.environ, HWLOC_SYNTHETIC=topology, HWLOC_THISSYSTEM="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm_rsh_agent="false")
    text = subprocess.run([command[0], *shown, *command[1:]], env=environment, capture_output=True, text=True).stdout
    ranks, host = {}, None
    for line in text.splitlines():
        if found := re.search(r"Data for node: (\S+)", line):
            host = found[1]
        elif found := re.search(r"Process rank: (\d+) Bound: socket \d+\[core (\d+)", line):
            ranks[int(found[1])] = host, int(found[2])
    assert sorted(ranks) == list(range(count)), text
    return [ranks[r] for r in range(count)]


def check_mark(sluice):
    """-- may stand before the program, and stays where it is one of the program's own arguments."""

    def dry(*arguments):
        command = [sluice, "launch", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    options = ["-n", "2", "--bind", "core", "--dry-run"]
    plain = dry(*options, "program", "--flag", "value")
    assert plain.split()[-3:] == ["program", "--flag", "value"], plain
    assert dry(*options, "--", "program", "--flag", "value") == plain
    assert dry("-n2", "--bind=core", "--dry-run", "--", "program", "--flag", "value") == plain
    assert dry(*options, "program", "--", "value").split()[-3:] == ["program", "--", "value"]
    assert dry(*options, "--", "program", "--", "value").split()[-3:] == ["program", "--", "value"]
    empty = subprocess.run([sluice, "launch", "-n", "2", "--"], capture_output=True, text=True)
    assert empty.returncode == 2 and "a program to start" in empty.stderr, empty


def main():
    sluice = os.path.abspath(sys.argv[1])
    check_mark(sluice)

    def cores(*arguments):
        return [core for _, core in placed(sluice, *arguments)]

    assert cores(4, "pack:2 core:4 pu:1", "core") == [0, 1, 4, 5]
    assert cores(5, "pack:2 core:4 pu:1", "core") == [0, 1, 2, 4, 5]
    assert cores(8, "pack:2 core:4 pu:1", "core") == list(range(8))
    assert cores(8, "pack:2 numa:2 core:2 pu:2", "core") == list(range(8))
    assert cores(3, "pack:1 core:4 pu:1", "core") == [0, 1, 2]
    # Bound to a whole socket, whose first core is named.
    assert cores(4, "pack:2 core:4 pu:1", "socket") == [0, 0, 4, 4]
    # Simulated hosts have their names from mpirun.
    two = placed(sluice, 7, "pack:2 core:2 pu:1", "core", ["nodeA0:4", "nodeB0:3"])
    assert two == [("nodeA0", c) for c in (0, 1, 2, 3)] + [("nodeB0", c) for c in (0, 1, 2)], two


if __name__ == "__main__":
    main()
