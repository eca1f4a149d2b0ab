"""Times the workloads of the CUDA device against PyTorch on the same GPU and prints one table.

    ./dev bench cuda [--only gpt,mnist] [--seconds S] [--quick] [--json FILE]

Every side of a row is a process of its own. PyTorch runs eagerly, as one captured CUDA graph, and compiled with and
without CUDA graphs (--quick leaves the compiled ones out); its best counts. TF32 is off on both sides. PyTorch's data
are on the GPU, Sluice's come from the host. A row counts only if both sides agree on the first loss or output, and if
Sluice's results and weights have the same bits with captured launches and with single ones (hash). Streamed rows are
compared with the longer of their copies and their products, each measured alone in the same run.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import rows


def launch(side, name, arguments, *more, timeout=240, **environment):
    """One process; {"failed": why} if it fails."""
    command = [sys.executable, str(HERE / "side.py"), side, name, "--seconds", str(arguments.seconds), *more]
    try:
        done = subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"no result after {timeout} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return {"failed": lines[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def peers(row, arguments):
    if row.streamed:
        return ["limit"] if row.trains else ["limit", "buffers"]
    if len(row.stages) > 0:
        return []
    return ["eager", "graph"] + ([] if arguments.quick else ["compile", "compile-graph"])


def measure(name, row, arguments):
    results = {"sluice": launch("sluice", name, arguments)}
    for peer in peers(row, arguments):
        results[peer] = launch(peer, name, arguments)
    for kind, environment in (("captured", {}), ("single", {"SLUICE_CUDA_SYNC": "1"})):
        results[kind] = launch("sluice", name, arguments, "--hash", **environment)
    return results


def agrees(row, results):
    own = results["sluice"].get("value")
    others = [r["value"] for side, r in results.items() if side not in ("sluice", "captured", "single") and "value" in r]
    tolerance = 2e-2 if row.half else 1e-3
    if own is None or not others:
        return "-"
    return "yes" if all(abs(own - o) <= tolerance * abs(o) for o in others) else f"NO {own:.6g} {others[0]:.6g}"


def same_bits(results):
    one, two = results["captured"], results["single"]
    if "hash" not in one or "hash" not in two:
        return "failed: " + one.get("failed", two.get("failed", ""))
    return "same" if one["hash"] == two["hash"] else "DIFFERENT"


def line(name, row, results):
    times = {side: r["ms"] for side, r in results.items() if "ms" in r and side != "sluice"}
    own = results["sluice"].get("ms")
    best = min(times, key=times.get) if times else None
    if row.streamed and "limit" in times:
        best = "limit"
    ratio = f"{times[best] / own:.2f}x" if own and best else "-"
    if row.streamed and own and best:
        ratio = f"{own / times[best]:.3f} of limit"
    own_text = f"{own:.3f}" if own else "failed: " + results["sluice"].get("failed", "")
    per_second = f"{row.items * 1e3 / own:,.0f}/s" if own else ""
    sides = ", ".join(f"{side} {ms:.3f}" for side, ms in times.items())
    failed = "; ".join(f"{side}: {r['failed']}" for side, r in results.items() if "failed" in r and side in times)
    first = results["sluice"].get("first_s")
    return (f"| {name} | {own_text} | {per_second} | {sides} {failed} | {ratio} | {agrees(row, results)} | "
            f"{same_bits(results)} | {f'{first:.1f}' if first else '-'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    wanted = [part for part in arguments.only.split(",") if part]
    lines, everything = [], {}
    for name, row in rows.ROWS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        everything[name] = measure(name, row, arguments)
        lines.append(line(name, row, everything[name]))
        print(f"# {name}: {json.dumps(everything[name])}", file=sys.stderr, flush=True)
    if not lines:
        parser.error(f"no row has one of {wanted} in its name; there are {', '.join(rows.ROWS)}")
    print("| row | Sluice ms | | peers ms | ratio | agrees | hash | first call s |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
