#!/usr/bin/python3
"""Kills and stops processes of a training over MPI, and compares what is left with a run without faults.

    faults.py <sluice> <mpi_worker> [<rounds>]

A round starts `sluice launch --restarts` with two to four processes, waits until one has printed a step drawn by
the number of the round, and sends SIGKILL or SIGSTOP to one of them. The launcher must name the process, the
others must, too, and the processes that it starts again, as many or fewer, must end with the weights of an
undisturbed run. Without <rounds> there is one round with SIGKILL, one that goes on with fewer processes, and the
other ways to fail. tests/soak/ranks.py runs many rounds at any moment.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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


def lost_line(victim):
    """What the others say: one line of all of them, as long as they say the same."""
    return rf"ranks? [\d, to]+: .*rank {victim} \(process \d+ on host .*\) is lost"


def undisturbed(sluice, worker, count, share):
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(launch(sluice, ["-n", str(count), worker, folder, str(STEPS), *share]))
    assert code == 0, f"exit code {code}\n{err}"
    return weights_of(out)


def disturb(sluice, worker, count, share, sign, victim, step, options=(), delay=0):
    """What a run prints whose process `victim` gets the signal after a step."""
    with tempfile.TemporaryDirectory() as folder:
        process = launch(sluice, ["-n", str(count), "--restarts", "1", *options, worker, folder, str(STEPS), *share])
        seen, ids = "", {}
        for line in process.stdout:
            seen += line
            if match := re.match(r"rank (\d+): process (\d+)", line):
                ids[int(match[1])] = int(match[2])
            if line == f"rank {victim}: step {step}\n":
                break
        time.sleep(delay)
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
    assert re.search(lost_line(victim), err), context
    if sign == signal.SIGKILL:
        assert f"rank {victim} was ended by signal 9" in err, context
    assert weights_of(out) == expected, context


def goes_on_with_fewer(sluice, worker):
    """One model over four processes, then over two: the same batches and the same bits."""
    expected = undisturbed(sluice, worker, 1, ["share"])
    code, out, err = disturb(sluice, worker, 4, ["share"], signal.SIGKILL, 3, 7, ["--fewer", "2,1"])
    assert code == 0 and "restart 1 of 1 with 2 processes" in err, (code, out, err)
    # The others may have saved once more before they noticed the kill.
    assert re.search("rank 1: resumed at [69]", out) and "rank 2: resumed" not in out, out
    assert weights_of(out) == expected, (out, expected)
    code, out, err = disturb(sluice, worker, 2, ["share"], signal.SIGKILL, 1, 7, ["--fewer", "2"])
    assert code == 1 and "1 processes are left, and --fewer names none so small" in err, (code, out, err)


def one_report(sluice, worker):
    """Traces of all ranks in one page and one timeline."""
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "profile")
        code, out, err = ended(launch(sluice, ["-n", "2", "--profile", profile, worker, folder, "3", "share"]))
        assert code == 0 and "report.html" in out, (code, out, err)
        with open(os.path.join(profile, "report.html"), encoding="utf-8") as page:
            text = page.read()
        assert "rank0" in text and "rank1" in text, text[:2000]
        with open(os.path.join(profile, "ranks.json"), encoding="utf-8") as timeline:
            events = json.load(timeline)["traceEvents"]
        own = [json.loads(subprocess.run([sluice, "report", f"{profile}/rank{rank}/training/run.slt", "--format",
                                          "perfetto"], check=True, capture_output=True, text=True).stdout)
               for rank in range(2)]
        tasks = [sum(1 for event in each if event["ph"] == "X") for each in [events, *(t["traceEvents"] for t in own)]]
        assert tasks[0] == tasks[1] + tasks[2] and tasks[1] > 0 and tasks[2] > 0, tasks
        code, out, err = ended(launch(sluice, ["-n", "2", "--profile", profile, "true"]))
        assert code == 1 and "no process has left a trace" in err, (code, out, err)


def says_it_once(sluice, worker):
    """An error of all ranks is one line."""
    code, out, err = ended(launch(sluice, ["-n", "4", worker, "/dev/null/folder", "3", "share"]))
    assert code == 1, (code, out, err)
    assert len(re.findall("failed: ", err)) == 1 and "ranks 0 to 3: failed: " in err, err


def waits_are_cancelled(sluice, worker):
    """A call that waits for a process that does other work ends when it is cancelled, and the others hear so."""
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(launch(sluice, ["-n", "2", worker, folder, "0", "cancel"]))
    assert "rank 0: error: Cancelled: the call was cancelled" in out, (code, out, err)
    assert re.search("rank 1: error: .*rank 0, at a number, has ended: .*cancelled", out), (code, out, err)


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


def with_mpirun(sluice, folder, script):
    """A launch of two ranks by a program that stands in for mpirun."""
    mpirun = os.path.join(folder, "mpirun")
    with open(mpirun, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + script)
    os.chmod(mpirun, 0o755)
    environment = dict(ENVIRONMENT, PATH=folder + ":" + os.environ["PATH"])
    return subprocess.Popen([sluice, "launch", "--timeout", "0.5", "-n", "2", "true"], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def side_by_side(parts):
    """Runs what mostly waits, and throws the first error."""
    with ThreadPoolExecutor(len(parts)) as pool:
        for result in [pool.submit(part) for part in parts]:
            result.result()


def nothing_lasts_for_ever(sluice):
    """What cannot end by itself: a rank that is stopped when the others are done, an mpirun that does not end after
    its ranks, and a child of mpirun that keeps the launcher's pipes."""
    begun = "".join(f"printf '\\001sluice {rank} exit -1\\n'\n" for rank in range(2))
    done = begun + "".join(f"printf '\\001sluice {rank} exit 0\\n'\n" for rank in range(2))
    with tempfile.TemporaryDirectory() as stays, tempfile.TemporaryDirectory() as leaves:
        stopped = launch(sluice, ["-n", "2", "sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || kill -STOP $$'])
        staying = with_mpirun(sluice, stays, done + "exec sleep 300\n")
        leaving = with_mpirun(sluice, leaves, done + "sleep 30 &\n")
        begin = time.monotonic()
        code, out, err = ended(leaving)
        assert code == 0 and time.monotonic() - begin < 20, (code, out, err, time.monotonic() - begin)
        code, out, err = ended(staying)
        assert code == 0 and "ending the ranks that are left" in err, (code, out, err)
        code, out, err = ended(stopped)
        assert code == 1 and "rank 1 gives no sign of life, and others have ended" in err, (code, out, err)


def left_of(mark):
    """The processes that have a variable of this value."""
    found = []
    for folder in os.listdir("/proc"):
        try:
            if folder.isdigit() and mark.encode() in open(f"/proc/{folder}/environ", "rb").read():
                found.append(open(f"/proc/{folder}/cmdline", "rb").read())
        except OSError:  # it has ended
            pass
    return found


def signalled(sluice, script, signs, code, awaited="begins", terminal=True):
    """What a launch of two ranks prints that gets signals; nothing of it may be left afterwards."""
    mark = f"sluice-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    process = subprocess.Popen([sluice, "launch", "-n", "2", "sh", "-c", script], env=dict(ENVIRONMENT, MARK=mark),
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    for _ in range(2 if awaited else 0):
        while awaited not in process.stdout.readline():
            assert process.poll() is None, process.communicate()
    for sign in signs:
        if terminal:  # which gives Ctrl-C to all processes in the foreground
            os.killpg(process.pid, sign)
        else:
            os.kill(process.pid, sign)
    found, out, err = ended(process)
    # Without a rank that has begun, the signal may come before the launcher knows what to do with it.
    assert found in ((code,) if awaited else (code, 128 - code)), (found, code, out, err)
    until = time.monotonic() + LIMIT
    while left_of(mark):
        assert time.monotonic() < until, left_of(mark)
        time.sleep(0.05)
    return out


def has_its_time(sluice, terminal):
    counts = 'trap "echo asked; sleep 2; echo done; exit 0" TERM; echo begins; while :; do sleep 0.1; done'
    out = signalled(sluice, counts, [signal.SIGINT], 130, terminal=terminal)
    assert out.count("asked") == 2 and out.count("done") == 2, out


def is_ended(sluice):
    assert "done" not in signalled(sluice, "echo begins; sleep 1000; echo done", [signal.SIGTERM], 143)


def ends_unread(sluice, merged):
    """As `sluice launch ... | head -1`: once nobody reads, all ranks are asked to end, and nothing is left."""
    mark = f"sluice-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    writes = "trap 'exit 0' TERM; while :; do echo goes on; echo goes on >&2; sleep 0.1; done"
    process = subprocess.Popen([sluice, "launch", "-n", "2", "sh", "-c", writes], env=dict(ENVIRONMENT, MARK=mark),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merged else subprocess.DEVNULL)
    process.stdout.readline()
    process.stdout.close()
    code = process.wait(LIMIT)
    assert code == 128 + signal.SIGPIPE, code
    until = time.monotonic() + LIMIT
    while left_of(mark):
        assert time.monotonic() < until, left_of(mark)
        time.sleep(0.05)


def end_when_asked(sluice):
    """Ctrl-C at any moment ends all ranks, asks each program once, and gives it the time that it needs. The cases,
    for each of which nothing may be left."""
    deaf = "trap '' INT TERM HUP; echo begins; while :; do sleep 0.1; done"
    return [partial(has_its_time, sluice, True), partial(has_its_time, sluice, False), partial(is_ended, sluice),
            partial(signalled, sluice, deaf, [signal.SIGHUP, signal.SIGTERM], 129),
            partial(ends_unread, sluice, False), partial(ends_unread, sluice, True),
            # Before anything has begun.
            *(partial(signalled, sluice, "sleep 1000", [signal.SIGTERM], 143, awaited=None, terminal=terminal)
              for terminal in (True, False)),
            # Whoever has started the ranks is gone, with no chance to say so.
            partial(signalled, sluice, deaf, [signal.SIGKILL], -9)]


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
        goes_on_with_fewer(sluice, worker)
        one_report(sluice, worker)
        says_it_once(sluice, worker)
        waits_are_cancelled(sluice, worker)
        other_failures(sluice)
        bad_environments(worker)
        side_by_side([partial(nothing_lasts_for_ever, sluice), *end_when_asked(sluice)])
        return
    for number in range(int(sys.argv[3])):
        one_round(sluice, worker, number)
    print(f"{sys.argv[3]} rounds")


if __name__ == "__main__":
    main()
