#!/usr/bin/python3
"""Steps over hosts that are network namespaces with slow links, beside what the simulator predicts.

    bench/processes_hosts.py [--hosts 4] [--megabits 200,1000] [--turns 4]

Needs the rights to make namespaces, and bench_processes. The link between two hosts is timed alone, and the kernels in
one process; both go into the prediction.
"""
import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mpi"))
import hosts  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=4, choices=(2, 4), help="hosts, each with one process (4)")
    parser.add_argument("--megabits", default="200,1000", help="of each link, per second (200,1000)")
    parser.add_argument("--turns", type=int, default=4, help="of five steps each (4)")
    given = parser.parse_args()
    if not hosts.can_make_hosts():
        sys.exit("processes_hosts: this system allows no network namespaces: try as root, with iproute2 installed")
    for megabits in map(int, given.megabits.split(",")):
        with hosts.Hosts(given.hosts) as made:
            if not made.limit(megabits, burst="32kb", queue="1s"):
                sys.exit("processes_hosts: tc cannot limit the links: the system needs the tbf queue")
            print(f"{given.hosts} hosts, {megabits} Mbit/s", flush=True)
            run = made.launch(ROOT / "build/bin/sluice", ["-n", str(given.hosts), "--hosts", made.addresses(),
                                                          ROOT / "build/bin/bench_processes", str(given.turns), "apart"], timeout=30)
            out, err = run.communicate()
            print(out, end="")
            if run.returncode != 0:
                sys.exit(err)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}: {error.stderr}")
