"""Times every workload on Sluice and on its peers and prints one table.

    ./dev bench table [--threads 1,2] [--only gpt,mnist] [--launches 5] [--seed N] [--json FILE]

Each launch is a process of its own, and the sides take turns. A figure is the median over launches of their
median call. Every setting of a peer is tried once, and the best goes into the comparison; all are printed. A
time counts only if both sides agree on the first loss or output to 1e-4. MiB are the peaks of both processes.
The limit is the time that the arithmetic of a workload takes at the rate of large products, which is measured
with the same threads right before the row (`sluice devices`); the share is the limit over Sluice's time.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import side
import workloads

AGREE = 1e-4
BUILT = HERE.parent.parent / "build" / "bin" / "sluice"
COMMAND_LINE = str(BUILT) if BUILT.exists() else shutil.which("sluice")


def launch(name, threads, peer, setting, arguments, **variables):
    """One process; None and a line on stderr if it fails."""
    command = [sys.executable, str(HERE / "side.py"), peer, name, str(threads), setting,
               "--seconds", str(arguments.seconds)]
    if arguments.seed is not None:
        command += ["--seed", str(arguments.seed)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MALLOC_TOP_PAD_=str(1 << 28), **variables)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"  {name}, {threads} threads: {peer} {setting} failed: {reason}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def command_line(*words):
    return subprocess.run([COMMAND_LINE, *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def flops_of(name, workload, arguments):
    """Of one call: the graph of a micro-batch, which `sluice inspect` counts. An update counts with each of them."""
    with tempfile.TemporaryDirectory() as folder:
        launch(name, 1, "sluice", "plain", argparse.Namespace(seconds=0, seed=arguments.seed), SLUICE_DUMP=folder)
        graphs = sorted(Path(folder).glob("*/*_eliminate_dead.txt"))
        if not graphs:
            return None
        text = command_line("inspect", graphs[-1])
        return 1e9 * float(re.search(r"([0-9.e+-]+) GFLOP", text)[1]) * workload.micro_batches


def limit_ms(flops, workload, threads):
    """What the arithmetic takes at least, with the cores that the devices of the workload have."""
    devices = max(1, len(workload.stages or []))
    cores = min(devices * threads, len(os.sched_getaffinity(0)))
    measured = json.loads(command_line("devices", "--json", "--threads", str(cores)))
    kinds = {kind["kind"]: kind for kind in measured["kinds"]}
    return 1e3 * flops / kinds["cpu"]["measured"]["flopsPerSecond"]["f32"]


def agree(one, other):
    return abs(one - other) <= AGREE * max(1.0, abs(one), abs(other))


def best_setting(name, workload, threads, own, arguments):
    """(peer, setting) of the quickest that computes the same, and all tries."""
    tries = []
    for peer in workload.peers:
        for setting in side.settings(peer, workload):
            if setting == "compiled" and arguments.no_compile:
                continue
            result = launch(name, threads, peer, setting, arguments)
            if result is None:
                continue
            # The values of onnxruntime are arrays that torch averages as well.
            same = agree(own["value"], result["value"])
            tries.append({"peer": peer, "setting": setting, "ms": result["ms"], "agrees": same,
                          "first_s": result["first_s"], "peak_mib": result["peak_mib"]})
    good = [t for t in tries if t["agrees"]]
    return (min(good, key=lambda t: t["ms"]) if good else None), tries


def compare(name, workload, threads, flops, arguments):
    limit = limit_ms(flops, workload, threads) if flops else None
    own = launch(name, threads, "sluice", "plain", arguments)
    if own is None:
        return None
    best, tries = best_setting(name, workload, threads, own, arguments)
    ours, theirs = [own], []
    for _ in range(arguments.launches - 1 if best else 0):
        theirs.append(launch(name, threads, best["peer"], best["setting"], arguments))
        ours.append(launch(name, threads, "sluice", "plain", arguments))
    median = lambda results: statistics.median(r["ms"] for r in results if r)
    row = {"workload": name, "threads": threads, "sluice_ms": median(ours), "low": min(r["low"] for r in ours if r),
           "high": max(r["high"] for r in ours if r), "first_s": own["first_s"], "peak_mib": own["peak_mib"],
           "tries": tries}
    if limit:
        row["limit_ms"] = limit
        row["share"] = limit / row["sluice_ms"]
    if best:
        row["peer"] = f"{best['peer']} {best['setting']}"
        row["peer_ms"] = median(theirs) if theirs else best["ms"]
        row["ratio"] = row["peer_ms"] / row["sluice_ms"]
        row["peer_mib"] = best["peak_mib"]
    return row


def show(row):
    spread = f"{row['low']:.1f}-{row['high']:.1f}"
    tries = ", ".join(f"{t['setting'] if t['peer'] == 'torch' else t['peer']} {t['ms']:.1f}"
                      + ("" if t["agrees"] else " (other result)") for t in row["tries"])
    peer = f"{row['peer_ms']:9.2f} {row['ratio']:6.2f}x" if "peer" in row else f"{'-':>9} {'-':>7}"
    limit = f"{row['limit_ms']:8.2f} {100 * row['share']:4.0f} %" if "limit_ms" in row else f"{'-':>8} {'-':>6}"
    memory = f"{row['peak_mib']:5.0f}" + (f"/{row['peer_mib']:.0f}" if "peer" in row else "")
    print(f"{row['workload']:20} {row['threads']:7} {row['sluice_ms']:9.2f} {spread:>15} {peer} {limit} "
          f"{memory:>10}  {tries}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", default=",".join(str(n) for n in (1, 2, 4, 16) if n <= cores))
    parser.add_argument("--only", default="", help="words, by commas; a workload needs to have one of them")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each launch")
    parser.add_argument("--seed", type=int, help="shapes drawn by this seed instead of the usual ones")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes long")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    chosen = workloads.first_set() if arguments.seed is None else workloads.second_set(arguments.seed)
    words = [word for word in arguments.only.split(",") if word]
    rows = []
    print(f"{'workload':20} {'threads':>7} {'sluice ms':>9} {'low-high':>15} {'peer ms':>9} {'ratio':>7} "
          f"{'limit ms':>8} {'share':>6} {'MiB':>10}  settings of the peer, ms")
    for name, workload in chosen.items():
        if words and not any(word in name for word in words):
            continue
        flops = flops_of(name, workload, arguments) if COMMAND_LINE else None
        for threads in (int(text) for text in arguments.threads.split(",")):
            row = compare(name, workload, threads, flops, arguments)
            if row:
                rows.append(row)
                show(row)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
