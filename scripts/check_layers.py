#!/usr/bin/python3
"""Checks that no file includes a header of a layer it may not know.

    scripts/check_layers.py              check the tree, print each offence as file:line: rule
    scripts/check_layers.py --self-test  check this script with made-up cases

The layers are those of ARCHITECTURE.md. A file may include its own module and
every lower layer; the exceptions stand in the tables below. Unit tests
(*_test.cpp) are exempt: a test may need a device to run what it tests.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["sluice", "cli", "python", "examples", "bench", "tests"]

LAYER = {
    "base": 0, "custom": 0, "mpi": 0, "tensor": 0,
    "ir": 1, "schedule": 1,
    "ops": 2, "device": 2,
    "optim": 3, "transforms": 3, "onnx": 3, "nn": 3, "devices": 3,
    "parallel": 4,
    "program": 5,
    "compile": 6, "runtime": 6, "profile": 6, "data": 6,
    "api": 7,
    "frontends": 8,
    "cli": 9, "python": 9, "examples": 9, "bench": 9, "tests": 9,
}

# Pairs inside one layer that are allowed.
SAME_LAYER = {("tensor", "base"), ("device", "ops"), ("transforms", "optim"), ("onnx", "transforms"),
              ("profile", "runtime")}

# Modules that see less than all lower layers.
ONLY = {
    "custom": set(),
    "mpi": set(),
    "schedule": {"base"},
    "devices": {"device", "ops", "ir", "schedule", "tensor", "base"},
}

# Kinds of devices that use the kernels of another one.
DEVICE_USES = {("devices/far", "devices/cpu"), ("devices/sim", "devices/cpu")}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](sluice/[^">]+)[">]')


def module_of(path):
    """sluice/devices/cpu/x.h -> devices/cpu, sluice/sluice.h -> frontends, cli/x.cpp -> cli."""
    parts = path.split("/")
    if parts[0] != "sluice":
        return parts[0]
    if len(parts) == 2:
        return "frontends"
    if parts[1] in ("devices", "frontends"):
        return "/".join(parts[1:3]) if len(parts) > 3 else parts[1]
    return parts[1]


# What a Program is, and how messages name its parts.
NEUTRAL = {"sluice/program/program.h", "sluice/program/program_text.h"}


def broken_file_rule(path, header):
    """The verifier of programs shares no code with what makes them."""
    verifier = "sluice/program/verify"
    if path.startswith(verifier):
        allowed = header.startswith(verifier) or header in NEUTRAL
        if header.startswith("sluice/program/") and not allowed:
            return "the verifier may include no header of the planner"
    elif path.startswith("sluice/program/") and header.startswith(verifier + "_"):
        return "the planner may include no part of the verifier"
    return None


def broken_rule(source, target):
    """The rule that module `source` breaks by including `target`, or None."""
    if source == target:
        return None
    src, dst = source.split("/")[0], target.split("/")[0]
    for name, kind in ((source, src), (target, dst)):
        if kind not in LAYER:
            return f"unknown module '{name}': give it a layer in scripts/check_layers.py"
    if src == "devices" and dst == "devices":
        # Kinds that compute with the CPU's kernels, and the list of all kinds.
        if (source, target) in DEVICE_USES or source == "devices":
            return None
        return f"device '{source}' may not know another device"
    if src == "frontends" and dst == "frontends":
        # sluice.h has all of them.
        return None if source == "frontends" else f"front end '{source}' may not know another one"
    if src in ONLY and dst not in ONLY[src]:
        return f"'{source}' may include only {', '.join(sorted(ONLY[src]))}"
    if dst == "devices" and LAYER[src] < LAYER["api"]:
        return "nothing below api may name a concrete device"
    if LAYER[dst] < LAYER[src] or (src, dst) in SAME_LAYER:
        return None
    if src == dst == "tests" or LAYER[src] == LAYER["cli"] == LAYER[dst]:
        return None
    if LAYER[dst] == LAYER[src]:
        return f"'{source}' and '{target}' share layer {LAYER[src]} and may not include each other"
    return f"'{source}' (layer {LAYER[src]}) may not include '{target}' (layer {LAYER[dst]})"


def check_text(path, text):
    """Offences of one file as (line, header, rule)."""
    if path.endswith("_test.cpp"):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        rule = match and (broken_rule(module_of(path), module_of(match[1])) or
                          broken_file_rule(path, match[1]))
        if rule:
            found.append((number, match[1], rule))
    return found


def check_tree():
    offences = files = 0
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".inc", ".cu"):
                continue
            files += 1
            path = file.relative_to(ROOT).as_posix()
            for line, header, rule in check_text(path, file.read_text()):
                print(f"{path}:{line}: includes \"{header}\": {rule}")
                offences += 1
    print(f"layers: {files} files, {offences} offences")
    return 1 if offences else 0


# (file, header, is it allowed)
CASES = [
    ("sluice/tensor/shape.h", "sluice/base/error.h", True),
    ("sluice/base/error.h", "sluice/tensor/shape.h", False),
    ("sluice/ir/graph.h", "sluice/ir/op.h", True),
    ("sluice/ir/graph.h", "sluice/tensor/shape.h", True),
    ("sluice/ir/graph.h", "sluice/schedule/order.h", False),
    ("sluice/ir/graph.h", "sluice/ops/matmul.h", False),
    ("sluice/schedule/order.h", "sluice/base/ids.h", True),
    ("sluice/schedule/order.h", "sluice/tensor/shape.h", False),
    ("sluice/ops/matmul.cpp", "sluice/ir/graph.h", True),
    ("sluice/ops/matmul.cpp", "sluice/device/device.h", False),
    ("sluice/device/kernel_table.h", "sluice/ops/registry.h", True),
    ("sluice/devices/cpu/cpu.cpp", "sluice/device/device.h", True),
    ("sluice/devices/cpu/cpu.cpp", "sluice/devices/cpu/pool.h", True),
    ("sluice/devices/cpu/cpu.cpp", "sluice/schedule/offsets.h", True),
    ("sluice/devices/far/far.cpp", "sluice/devices/cpu/pool.h", True),
    ("sluice/devices/sim/sim.cpp", "sluice/devices/cpu/pool.h", True),
    ("sluice/devices/sim/sim.cpp", "sluice/devices/far/far.h", False),
    ("sluice/devices/registry.cpp", "sluice/devices/cpu/pool.h", True),
    ("sluice/devices/cpu/cpu.cpp", "sluice/devices/registry.h", False),
    ("sluice/devices/cpu/cpu.cpp", "sluice/program/program.h", False),
    ("sluice/transforms/update.cpp", "sluice/optim/optimizers.h", True),
    ("sluice/optim/sgd.cpp", "sluice/transforms/autodiff.h", False),
    ("sluice/nn/linear.cpp", "sluice/transforms/autodiff.h", False),
    ("sluice/onnx/import_training.cpp", "sluice/transforms/autodiff.h", True),
    ("sluice/transforms/autodiff.cpp", "sluice/onnx/files.h", False),
    ("sluice/parallel/place.cpp", "sluice/devices/cpu/cpu.h", False),
    ("sluice/compile/stages.cpp", "sluice/program/lower.h", True),
    ("sluice/compile/stages.cpp", "sluice/optim/optimizers.h", True),
    ("sluice/compile/stages.cpp", "sluice/runtime/engine.h", False),
    ("sluice/compile/stages.cpp", "sluice/api/options.h", False),
    ("sluice/compile/stages.cpp", "sluice/devices/cpu/cpu.h", False),
    ("sluice/runtime/engine.cpp", "sluice/program/program.h", True),
    ("sluice/program/verify_uses.cpp", "sluice/program/verify_parts.h", True),
    ("sluice/program/verify_uses.cpp", "sluice/program/program.h", True),
    ("sluice/program/verify_uses.cpp", "sluice/program/round.h", False),
    ("sluice/program/round.cpp", "sluice/program/verify_parts.h", False),
    ("sluice/runtime/engine.cpp", "sluice/data/dataset.h", False),
    ("sluice/runtime/engine.cpp", "sluice/profile/trace.h", False),
    ("sluice/profile/trace.h", "sluice/runtime/engine.h", True),
    ("sluice/runtime/engine.cpp", "sluice/devices/cpu/cpu.h", False),
    ("sluice/runtime/engine_test.cpp", "sluice/devices/cpu/cpu.h", True),
    ("sluice/api/session.cpp", "sluice/devices/cpu/cpu.h", True),
    ("sluice/sluice.h", "sluice/api/session.h", True),
    ("sluice/sluice.h", "sluice/frontends/popart/builder.h", True),
    ("sluice/frontends/popart/session.h", "sluice/api/model.h", True),
    ("sluice/frontends/popart/session.h", "sluice/frontends/tensorflow/loops.h", False),
    ("sluice/api/model.h", "sluice/frontends/popart/builder.h", False),
    ("sluice/runtime/engine.h", "sluice/sluice.h", False),
    ("sluice/ir/graph.h", "sluice/unheard/of.h", False),
    ("cli/main.cpp", "sluice/sluice.h", True),
    ("tests/e2e/mnist.cpp", "sluice/devices/cpu/cpu.h", True),
]


def self_test():
    wrong = 0
    for path, header, allowed in CASES:
        text = f'// #include "sluice/api/x.h"\n#include <vector>\n#include "{header}"\n'
        found = check_text(path, text)
        if bool(found) == allowed or any(line != 3 for line, _, _ in found):
            print(f"self-test: {path} including {header}: expected "
                  f"{'allowed' if allowed else 'refused'}, found {found}")
            wrong += 1
    print(f"layers: {len(CASES)} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else check_tree())
