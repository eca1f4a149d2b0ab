#!/usr/bin/python3
"""Kills and stops processes of a training over MPI, and compares what is left with a run without faults.

    faults.py <sluice> <mpi_worker> [<rounds>]

A round starts `sluice launch --restarts` with two to four processes, waits until one has printed a step drawn by
the number of the round, and sends SIGKILL or SIGSTOP to one of them. The launcher must name the process, the
others must, too, and the processes that it starts again must end with the weights of an undisturbed run. Without
<rounds> there is one round with SIGKILL, and the other ways to fail.
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile

STEPS = 12
LIMIT = 120  # seconds; only a hang takes as long

ENVIRONMENT = dict(os.environ, OMPI_MCA_btl="self,vader", OMPI_MCA_pml="ob1", SLUICE_LOG_LEVEL="ERR",
                   OMPI_MCA_btl_vader_single_copy_mechanism="none", OMPI_MCA_plm_rsh_agent="false")


def launch(sluice, arguments):
    return subprocess.Popen([sluice, "launch", "--timeout", "1", *arguments], env=ENVIRONMENT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process):
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def weights_of(out):
    found = set(re.findall(r"weights (\w+)", out))
    assert len(found) == 1, f"weights {found} in\n{out}"
    return found.pop()


def undisturbed(sluice, worker, count, share):
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(launch(sluice, ["-n", str(count), worker, folder, str(STEPS), *share]))
    assert code == 0, f"exit code {code}\n{err}"
    return weights_of(out)


def disturb(sluice, worker, count, share, sign, victim, step):
    """What a run prints whose process `victim` gets the signal after a step."""
    with tempfile.TemporaryDirectory() as folder:
        process = launch(sluice, ["-n", str(count), "--restarts", "1", worker, folder, str(STEPS), *share])
        seen, ids = "", {}
        for line in process.stdout:
            seen += line
            if match := re.match(r"rank (\d+): process (\d+)", line):
                ids[int(match[1])] = int(match[2])
            if line == f"rank {victim}: step {step}\n":
                break
        os.kill(ids[victim], sign)
        code, out, err = ended(process)
    return code, seen + out, err


def one_round(sluice, worker, number, sign=None):
    draw = random.Random(number)
    count = draw.choice([2, 3, 4])
    share = draw.choice([[], ["share"]])
    sign = sign or draw.choice([signal.SIGKILL, signal.SIGSTOP])
    victim, step = draw.randrange(count), draw.randrange(2, STEPS - 2)
    expected = undisturbed(sluice, worker, count, share)
    code, out, err = disturb(sluice, worker, count, share, sign, victim, step)
    context = f"round {number}: {sign.name} to rank {victim} of {count} {share} after step {step}\n{out}\n{err}"
    assert code == 0, context
    assert "restart 1 of 1" in err, context
    assert re.search(rf"rank \d+: .*rank {victim} \(process \d+ on host .*\) is lost", err), context
    if sign == signal.SIGKILL:
        assert f"rank {victim} was ended by signal 9" in err, context
    assert weights_of(out) == expected, context


def other_failures(sluice):
    """Of programs that are not there or fail, and of hosts that are not there."""
    code, out, err = ended(launch(sluice, ["-n", "2", "sh", "-c", "echo said; exit 3"]))
    assert code == 3 and "rank 1 ended with exit code 3" in err and out.count("said") == 2, (code, out, err)
    code, out, err = ended(launch(sluice, ["-n", "2", "/no/such/program"]))
    assert code == 127 and "cannot start '/no/such/program'" in err, (code, err)
    code, out, err = ended(launch(sluice, ["-n", "2", "--hosts", "no.such.host:2", "true"]))
    assert code != 0 and "sluice launch: failed" in err, (code, err)
    alone = subprocess.run([sluice, "launch", "-n", "2", "true"], env={"PATH": "/nonexistent"}, text=True,
                           capture_output=True, check=False)
    assert alone.returncode == 1 and "install openmpi-bin" in alone.stderr, alone
    usage = subprocess.run([sluice, "launch", "-n", "2"], text=True, capture_output=True, check=False)
    assert usage.returncode == 2 and "a program to start" in usage.stderr, usage


def worker_alone(worker, variables):
    """The error of a process that believes to be one of two."""
    environment = dict(ENVIRONMENT, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", **variables)
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([worker, folder, "1"], env=environment, text=True, capture_output=True,
                             check=False, timeout=LIMIT)
    assert run.returncode == 1, run
    return run.stderr


def bad_environments(worker):
    assert "need Open MPI and libsluice_mpi.so" in worker_alone(worker, {"SLUICE_MPI_LIBRARY": "/no/such.so"})
    assert "SLUICE_PEER_TIMEOUT is 'soon'" in worker_alone(worker, {"SLUICE_PEER_TIMEOUT": "soon"})
    assert "SLUICE_PEER_PATIENCE is '0'" in worker_alone(worker, {"SLUICE_PEER_PATIENCE": "0"})
    # Started without mpirun, MPI knows of one process alone.
    assert "and MPI that it is 0 of 1" in worker_alone(worker, {})


def main():
    sluice, worker = sys.argv[1:3]
    if len(sys.argv) == 3:
        one_round(sluice, worker, 1, signal.SIGKILL)
        other_failures(sluice)
        bad_environments(worker)
        return
    for number in range(int(sys.argv[3])):
        one_round(sluice, worker, number)
    print(f"{sys.argv[3]} rounds")


if __name__ == "__main__":
    main()
