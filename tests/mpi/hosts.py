#!/usr/bin/python3
"""Models over hosts that are network namespaces of this machine.

    hosts.py <sluice> <mpi_worker>

Makes namespaces that reach each other over a bridge and nothing else, starts pipelines and replicas in them over
TCP, and compares the weights with those of one process. Then takes a host off the network in the middle of a
training: it must be named, and the training goes on without it, to the same weights. Where the system allows no
namespaces it says so and passes.
"""
import os
import re
import subprocess
import sys
import tempfile

import faults

# Stands in for ssh: <agent> <address> <command>
AGENT = """#!/bin/sh
case $1 in
{cases}
esac
shift
exec ip netns exec "$host" env TMPDIR="{folder}/$host" sh -c "$*"
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Hosts:
    """Namespaces with the addresses 10.77.0.1 and so on, and a bridge in one more."""

    def __init__(self, count):
        self.names = [f"slu{os.getpid() % 10000}h{i}" for i in range(count)]
        self.bridge = f"slu{os.getpid() % 10000}b"
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self):
        try:
            ip("netns", "add", self.bridge)
            ip("-n", self.bridge, "link", "add", "bridge0", "type", "bridge")
            ip("-n", self.bridge, "link", "set", "bridge0", "up")
            for i, name in enumerate(self.names):
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{i}", "netns", self.bridge)
                ip("-n", name, "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", self.bridge, "link", "set", f"p{i}", "master", "bridge0")
                ip("-n", self.bridge, "link", "set", f"p{i}", "up")
        except BaseException:
            self.__exit__()
            raise
        agent = os.path.join(self.folder.name, "agent")
        with open(agent, "w", encoding="utf-8") as script:
            cases = "\n".join(f"10.77.0.{i + 1}) host={name} ;;" for i, name in enumerate(self.names))
            script.write(AGENT.format(folder=self.folder.name, cases=cases))
        os.chmod(agent, 0o755)
        for name in self.names:  # hosts do not share what mpirun keeps in /tmp
            os.mkdir(os.path.join(self.folder.name, name))
        self.environment = dict(
            os.environ, SLUICE_LOG_LEVEL="ERR", OMPI_MCA_btl="self,tcp", OMPI_MCA_pml="ob1",
            OMPI_MCA_plm_rsh_agent=agent, OMPI_MCA_btl_tcp_if_include="10.77.0.0/24",
            OMPI_MCA_oob_tcp_if_include="10.77.0.0/24", OMPI_MCA_plm_rsh_no_tree_spawn="1",
            OMPI_MCA_routed="direct")
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.bridge]:
            pids = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True).stdout
            for pid in pids.split():  # only what was started here runs there
                subprocess.run(["kill", "-9", pid], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        self.folder.cleanup()

    def limit(self, megabits, burst="256kb", queue="50ms"):
        """Whether the links could be made that slow."""
        for name in self.names:
            done = subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                                   f"{megabits}mbit", "burst", burst, "latency", queue],
                                  check=False, capture_output=True)
            if done.returncode != 0:
                return False
        return True

    def cut(self, i):
        ip("-n", self.bridge, "link", "set", f"p{i}", "down")

    def addresses(self, each=1):
        return ",".join(f"10.77.0.{i + 1}:{each}" for i in range(len(self.names)))

    def launch(self, sluice, arguments, timeout=2):
        environment = dict(self.environment, TMPDIR=os.path.join(self.folder.name, self.names[0]))
        return subprocess.Popen(["ip", "netns", "exec", self.names[0], sluice, "launch", "--timeout", str(timeout), *arguments],
                                env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def can_make_hosts():
    try:
        with Hosts(1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def same_bits(sluice, worker, count, share, expected, megabits=0):
    with Hosts(count) as hosts, tempfile.TemporaryDirectory() as folder:
        limited = megabits > 0 and hosts.limit(megabits)
        code, out, err = faults.ended(hosts.launch(sluice, ["-n", str(count), "--hosts", hosts.addresses(), worker,
                                                            folder, str(faults.STEPS), *share]))
        context = f"{count} hosts {share}\n{out}\n{err}"
        assert code == 0, context
        assert faults.weights_of(out) == expected, context
        print(f"{count} hosts, {'one model' if share else 'own replicas'}: same bits"
              + (f" over {megabits} Mbit/s" if limited else ""))


def cut_a_host(sluice, worker, count, share, step, expected):
    """Takes the last host off the network after a step."""
    with Hosts(count) as hosts, tempfile.TemporaryDirectory() as folder:
        process = hosts.launch(sluice, ["-n", str(count), "--hosts", hosts.addresses(), "--restarts", "1", "--fewer",
                                        "2,1", worker, folder, str(faults.STEPS), *share])
        seen = ""
        for line in process.stdout:
            seen += line
            if line == f"rank 0: step {step}\n":
                break
        hosts.cut(count - 1)
        code, out, err = faults.ended(process)
        context = f"{count} hosts, cut after step {step}\n{seen + out}\n{err}"
        assert code == 0, context
        assert re.search(faults.lost_line(count - 1), err), context
        assert f"host 10.77.0.{count} does not answer" in err, context
        assert faults.weights_of(seen + out) == expected, context
        print(f"{count} hosts, one cut off after step {step}: named, and the others went on")


def never_starts(sluice):
    """Hosts that can be reached and then say nothing: mpirun would wait for ever."""
    environment = dict(os.environ, OMPI_MCA_plm_rsh_agent="true")
    run = subprocess.run([sluice, "launch", "--timeout", "0.5", "-n", "2", "--hosts", "10.99.0.1:1,10.99.0.2:1", "true"],
                         env=environment, text=True, capture_output=True, check=False, timeout=faults.LIMIT)
    assert run.returncode == 1 and "0 of 2 ranks have started within" in run.stderr, run


def main():
    sluice, worker = map(os.path.abspath, sys.argv[1:3])
    never_starts(sluice)
    if not can_make_hosts():
        print("skipped: this system allows no network namespaces")
        return
    one = faults.undisturbed(sluice, worker, 1, ["share"])
    same_bits(sluice, worker, 2, ["share"], one, megabits=1000)
    same_bits(sluice, worker, 4, ["share"], one)
    same_bits(sluice, worker, 2, [], faults.undisturbed(sluice, worker, 2, []))
    cut_a_host(sluice, worker, 3, ["share"], 5, one)


if __name__ == "__main__":
    main()
