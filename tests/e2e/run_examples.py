#!/usr/bin/python3
"""Runs an example program, or the command line, and checks what it prints.

    tests/e2e/run_examples.py NAME FOLDER   NAME: a function below; FOLDER: of the programs
"""
import json
import os
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent.parent
HUGE = "9" * 309  # more than a double holds


class Programs:
    """Runs programs of one folder."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def run(self, name, *args, code=0):
        """Standard output and errors of a run that must end with this code; None: with an error."""
        command = [str(self.folder / name), *map(str, args)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
        text = result.stdout + result.stderr
        check(result.returncode != 0 if code is None else result.returncode == code,
              f"{' '.join(command)}: exit code {result.returncode}, expected {code}\n{text}")
        return text


def check(condition, message):
    if not condition:
        sys.exit(f"run_examples: {message}")


def number(pattern, text):
    found = re.search(pattern, text)
    check(found, f"no '{pattern}' in\n{text}")
    return float(found.group(1))


def linear_regression(programs):
    text = programs.run("linear_regression")
    check(programs.run("linear_regression", "--device", "far") == text, "far gives other numbers")
    slope = number(r"slope ([-\d.]+)", text)
    intercept = number(r"intercept ([-\d.]+)", text)
    check(abs(slope - 2) < 0.01 and abs(intercept - 1) < 0.01, text)


CUSTOM_GRAPH = """graph "custom" {
  %0 = input() "x" : f32[4]
  %1 = com.example.Swish.1(%0) {beta=2.0} "swish" : f32[4]
  output "y" = %1
}
"""


def custom_op(programs):
    """One and two devices agree; the command line reads files that use the library."""
    text = programs.run("custom_op")
    losses = re.findall(r"devices?: loss (\S+)", text)
    far = programs.run("custom_op", "--device", "far")
    check(re.findall(r"devices?: loss (\S+)", far) == losses, far)
    check("runs on the host" in far and "runs on the host" not in text, far)
    check("loaded com.example.Swish.1" in text and len(losses) == 2, text)
    check(losses[0] == losses[1] and float(losses[0]) < 1e-3, text)
    check("there is no library" in programs.run("custom_op", "none.so", code=1), "no error")
    library = programs.folder / "swish_ops.so"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.txt"
        path.write_text(CUSTOM_GRAPH)
        inspect_args = ("inspect", path, "--custom-ops", library)
        check("1  com.example.Swish.1" in programs.run("sluice", *inspect_args), "no op")
        check("com.example.Swish.1 [reference]" in
              programs.run("sluice", *inspect_args, "--program"), "no kernel")
        check("no op named 'com.example.Swish.1'" in
              programs.run("sluice", "inspect", path, code=1), "no error")
        programs.run("sluice", "tune", path, "--custom-ops", library)


def live_loss(programs):
    """Every step's loss in order, and a fitted line."""
    text = programs.run("live_loss")
    check(programs.run("live_loss", "--device", "far") == text, "far gives other numbers")
    losses = re.findall(r"^step (\d+) loss ([\d.]+)$", text, re.MULTILINE)
    check([int(step) for step, _ in losses] == list(range(1, 101)), text)
    check(float(losses[0][1]) > 1 and float(losses[-1][1]) < 1e-4, text)
    check(abs(number(r"slope ([-\d.]+)", text) - 2) < 0.01, text)
    check(abs(number(r"intercept ([-\d.]+)", text) - 1) < 0.01, text)


def repeat_loop(programs):
    text = programs.run("repeat_loop")
    check(programs.run("repeat_loop", "--device", "far") == text, "far gives other numbers")
    check(text == "d1: [10, 800], from 2.0 to 2.0\nd2: [10, 800], from 0.0 to 0.0\n", text)


def mlp(programs):
    text = programs.run("mlp")
    check(number(r"accuracy ([\d.]+)%", text) > 97, text)


def onnx_model(programs):
    """One and three devices, of any kind, train an exported network to the same bits, which are
    written again."""
    model = ROOT / "tests" / "onnx" / "models" / "mnist.11.onnx"
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for devices, kind in ((1, "cpu"), (3, "cpu"), (3, "far")):
            files.append(Path(folder) / f"trained{devices}{kind}.onnx")
            text = programs.run("onnx_model", model, "--devices", devices, "--device", kind,
                                "--output", files[-1])
            first = number(r"step +0 loss ([\d.]+)", text)
            last = number(r"step +19 loss ([\d.]+)", text)
            check(last < first / 4, text)
        check(len({file.read_bytes() for file in files}) == 1, "devices change the weights")
        check(files[0].read_bytes() != model.read_bytes(), "nothing was trained")
        check("2  conv" in programs.run("sluice", "inspect", files[0]), "the file is no model")
    check("cpu, far" in programs.run("onnx_model", model, "--device", "abacus", code=1), "abacus")
    check("at most 19 devices" in programs.run("onnx_model", model, "--devices", 60, code=1), "60")
    check("FileError" in programs.run("onnx_model", "missing.onnx", code=1), "missing")
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        text = programs.run("onnx_model", model, "--output", pipe, code=1)
        check("FIFO" in text and "step" not in text, text)
    check("NAME=NUMBER" in programs.run("onnx_model", model, "--dim", "N", code=2), "dim")
    check("out of range" in programs.run("onnx_model", model, "--dim", "N=" + HUGE, code=2), "dim")


def phased_execution(programs):
    """The lines of the original, within the memory given, and the same numbers for both ways."""
    small = ["--dsize", 40, "--batch-size", 4, "--batches-per-step", 6, "--iters", 2]
    for args, kind in (((), "phased"), (("--sharded-execution",), "sharded"),
                       (("--dtype", "float32"), "phased"), (("--training",), "phased"),
                       (("--num-layers", 40, "--devices-memory", "128KiB"), "phased")):
        text = programs.run("phased_execution", *small, *args)
        lines = text.splitlines()
        wanted = [f"Building {kind} execution model."]
        if kind == "phased":
            wanted.append(f"Each phase computes {80 if 'float32' in args else 160} FLOP per byte")
        wanted += ["Acquiring device.", "Compiling.", "Running."]
        check(len(lines) == len(wanted) + 3, text)
        check(all(line.startswith(start) for line, start in zip(lines, wanted)), text)
        for line in lines[-3:-1]:
            check(re.fullmatch(r"[\d.e+-]+ +s per iteration, \d+\.\d items/s", line), text)
        total, *parts = map(float, re.findall(r"[\d.]+(?:e[+-]\d+)?", lines[-1]))
        check(len(parts) == 4 and abs(sum(parts) - total) <= 0.02 * total, text)
    # Sizes at which weights of mean 1/2 would overflow float16.
    text = programs.run("phased_execution", "--training", "--iters", 1, "--batches-per-step", 1)
    check("the loss is" not in text, text)
    with tempfile.TemporaryDirectory() as folder:
        text = programs.run("phased_execution", *small, "--profile", "--profile-dir", folder)
        check("one iteration instead of 2" in text and text.count("items/s") == 1, text)
        report = re.search(r"^Report: (.*report\.html)$", text, re.MULTILINE)
        check(report and "<!doctype html>" in Path(report.group(1)).read_text(), text)
        text = programs.run("sluice", "report", Path(report.group(1)).with_name("run.slt"))
        check("Remote memory, per step" in text and "fetched" in text, text)
    text = programs.run("phased_execution", *small, "--devices-memory", "8KiB", code=1)
    check("OutOfMemory" in text and "phase" in text, text)
    check("--dtype" in programs.run("phased_execution", "--dtype", "int8", code=2), "dtype")
    text = programs.run("phased_execution", "--devices-memory", "many", code=2)
    check("--devices-memory" in text, text)
    for args, word in ((("--num-layers", 1 << 32), "1 to 1024"),
                       (("--num-layers", 1025, "--dsize", 8), "1 to 1024"),
                       (("--num-layers", 1024, "--dsize", 16384), "limited to"),
                       (("--batches-per-step", 1 << 20, "--batch-size", 1 << 20), "limited to")):
        check(word in programs.run("phased_execution", *args, code=2), word)
    command = re.search(r"build/bin/(phased_execution.*)", (ROOT / "README.md").read_text())
    check("running" in programs.run(*command.group(1).split()), "the command of the README")


def readme_example(programs):
    printed = re.search(r"It prints `(.*)`", (ROOT / "README.md").read_text()).group(1)
    check(programs.run("readme_example") == printed + "\n", "other text than the README says")


def write_digits(folder, prefix, count, seed):
    """IDX files of noisy images in which the place of a bright square is the class."""
    draw = random.Random(seed)
    images = bytearray(struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28))
    labels = bytearray(struct.pack(">4BI", 0, 0, 8, 1, count))
    for index in range(count):
        label = index % 10
        image = bytearray(draw.randrange(64) for _ in range(28 * 28))
        top, left = 2 + 13 * (label // 5), 1 + 5 * (label % 5)
        for row in range(top, top + 8):
            image[28 * row + left:28 * row + left + 5] = bytes([255] * 5)
        images += image
        labels.append(label)
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(images)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(labels)


def mnist_pipeline(programs):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = ["--batch-size", 5, "--device-iterations", 2, "--gradient-accumulation", 4,
                 "--test-batch-size", 5, "--learning-rate", 0.003, "--data", folder]

        def run(*args, code=0):
            return programs.run("mnist_pipeline", *small, *args, code=code)

        text = run(code=1)
        check("FileError" in text and "IDX format" in text.replace("\n", " "), text)
        write_digits(folder, "train", 480, 1)
        write_digits(folder, "t10k", 130, 2)
        mnist_training(run, folder)
        mnist_same_bits(run)
        mnist_precision(run)
        mnist_profile(run, folder)
        mnist_reports(programs, folder)
        mnist_checkpoints(run, folder)
        text = run("--batch-size", 100, "--epochs", 0, code=1)
        check("InvalidArgument" in text and "800 images" in text, text)
        (folder / "t10k-labels-idx1-ubyte").write_bytes(b"broken")
        text = run("--epochs", 0, code=1)
        check("FileError" in text and "t10k-labels" in text, text)
        for args in (("--strategy", "serial"), ("--schedule", "fast"), ("--devices", 5),
                     ("--strategy", "sharded", "--schedule", "gpipe"), ("--batch-size", 0),
                     ("--dataset", "letters"), ("--precision", "float8"),
                     ("--loss-scaling", -1), ("--learning-rate", HUGE), ("--batch-size", HUGE),
                     ("--strategy", "serial-phased", "--devices", 3),
                     ("--gradient-accumulation", 10**9, "--batch-size", 10**9)):
            text = programs.run("mnist_pipeline", *args, code=2)
            check(len(text) < 400 and "inf" not in text.replace("information", ""), text)
            check(args[-2] in text, text)
    help_text = programs.run("mnist_pipeline", "--help")
    for word in ("--learning-rate", "--profile-dir", "zero-bubble", "Examples:", "sharded"):
        check(word in help_text, help_text)


def mnist_training(run, folder):
    log = folder / "log.csv"
    text = run("--epochs", 3, "--log", log, "--debug")
    accuracy = number(r"Accuracy on test set: (\d+\.\d\d)%", text)
    check(accuracy > 90, text)
    lines = iter(text.splitlines())
    for wanted in ("Training...", "Epoch 1/3", r"12/12 .*Loss:\d\.\d{4} \| "
                   r"Accuracy:\d+\.\d\d%", "Epoch 2/3", "Epoch 3/3", "Testing...",
                   r"Accuracy on test set: ", "4 devices, pipelined by schedule popart: "):
        check(any(re.match(wanted, line) for line in lines), f"no line '{wanted}' in\n{text}")
    check("Graph compilation" not in text, text)  # only on a terminal
    check("debug compile: lower" in text, text)
    rows = log.read_text().splitlines()
    check(rows[0] == "epoch,step,updates,seconds,Loss,Accuracy" and len(rows) == 37, rows)


def mnist_precision(run):
    """Types of 16 bits learn the digits as well, and have the same bits on any number of devices."""
    full = number(r"Accuracy on test set: ([\d.]+)%", run("--epochs", 3))
    for precision in (("--precision", "float16"), ("--precision", "bfloat16"),
                      ("--precision", "float16", "--stochastic-rounding")):
        results = []
        for devices in (1, 4):
            text = run("--epochs", 3, "--devices", devices, *precision)
            results.append((number(r"final loss ([-\d.e]+)", text),
                            number(r"Accuracy on test set: ([\d.]+)%", text)))
        check(results[0] == results[1], f"{precision}: {results}")
        check(abs(results[0][1] - full) < 2, f"{precision}: {results}, float32 {full}")


def mnist_same_bits(run):
    """Schedules, devices and threads change no digit; nor does sharding where nothing is summed."""

    def result(*args):
        text = run("--epochs", 1, *args)
        check("debug" not in text, text)
        return (number(r"final loss ([-\d.e]+)", text),
                number(r"Accuracy on test set: ([\d.]+)%", text))

    expected = result("--devices", 1)
    for schedule in ("sequential", "grouped", "interleaved", "gpipe", "1f1b", "chunked", "zb-h1",
                     "zero-bubble", "popart"):
        check(result("--schedule", schedule) == expected, schedule)
    for args in (("--devices", 2), ("--devices", 3), ("--threads", 2), ("--offload-optimiser",),
                 ("--strategy", "serial-phased"), ("--strategy", "parallel-phased"),
                 ("--strategy", "serial-phased", "--offload-optimiser")):
        check(result(*args) == expected, args)
    check(result("--seed", 1) != expected, "the seed makes no difference")
    single = ("--gradient-accumulation", 1)
    sharded = result("--strategy", "sharded", *single)
    check(sharded == result(*single) == result("--devices", 1, *single), sharded)


def mnist_profile(run, folder):
    for strategy in ("pipelined", "sharded"):
        profile = folder / strategy
        text = run("--epochs", 1, "--strategy", strategy, "--profile", "--profile-dir", profile)
        check(text.startswith("Profiling is enabled.\n"), text)
        for model in ("training", "inference"):
            trace = json.loads((profile / model / "trace.json").read_text())
            slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
            check({slice["pid"] for slice in slices} == {0, 1, 2, 3}, f"{strategy} {model}")
            check("busy" in (profile / model / "summary.txt").read_text(), model)
            page = profile / model / "report.html"
            check(str(page) in text and page.stat().st_size < 1_000_000, f"{page}\n{text}")


def mnist_reports(programs, folder):
    """`sluice report` on the traces of mnist_profile: all formats, two runs, broken files."""

    def report(*args, code=0):
        return programs.run("sluice", "report", *args, code=code)

    traces = [folder / strategy / "training" / "run.slt" for strategy in ("pipelined", "sharded")]
    text = report(traces[0])
    for part in ("Idle time by cause, per step", "Critical path", "Stages, kernels of a micro-batch",
                 "Latencies of a micro-batch", "with these kernels alone"):
        check(part in text, text)
    data = json.loads(report(traces[0], "--format", "json"))
    devices = data["runs"][0]["devices"]
    check(len(devices) == 4, devices)
    for device in devices:
        check(sum(device["causes"]) == device["idle"] == device["span"] - device["busy"] > 0, device)
    for plan in data["runs"][0]["memory"]:
        check(plan["state"] <= plan["peak"] <= plan["planned"], plan)
    page = folder / "compared.html"
    check(report(*traces, "-o", page) == f"{page}\n" and page.stat().st_size < 2_000_000, page)
    check("# Comparison" in report(*traces, "--format", "md"), "no comparison")
    lines = report(traces[0], "--format", "csv").splitlines()
    rows = report(*traces, "--format", "csv").splitlines()
    check(lines[0] == rows[0] and lines[0].startswith("program,step,round,device"), lines[0])
    merged = json.loads(report(*traces, "--format", "perfetto"))["traceEvents"]
    slices = [event for event in merged if event["ph"] == "X"]
    check(len(slices) == len(rows) - 1 > len(lines) and min(e["ts"] for e in slices) == 0, len(slices))
    broken = folder / "broken.slt"
    for content, word in ((traces[0].read_bytes()[:-1], "truncated"), (b"{}", "not a trace file"),
                          (b"", "not a trace file")):
        broken.write_bytes(content)
        text = report(broken, "-o", page, code=1)
        check("FileError" in text and word in text and "broken.slt" in text, text)
    check("FileError" in report(folder / "none.slt", code=1), "a missing file")
    check("-o report.html" in report(traces[0], "--format", "html", code=2), "no output")
    check("--format" in report(traces[0], "--format", "pdf", code=2), "unknown format")


def mnist_checkpoints(run, folder):
    """A run that stopped goes on, on other devices, and ends with the same digits."""

    def result(text):
        return (number(r"final loss ([-\d.e]+)", text),
                number(r"Accuracy on test set: ([\d.]+)%", text))

    expected = result(run("--epochs", 2))
    saved = ("--checkpoint-dir", folder / "checkpoints", "--checkpoint-every", 5)
    text = run("--epochs", 1, *saved, "--resume")
    check("Resumed" not in text, text)
    check(len(list((folder / "checkpoints").iterdir())) == 3, "three are kept")  # 10, 20, 24
    text = run("--epochs", 2, *saved, "--resume", "--strategy", "serial-phased")
    check("Resumed after 24 updates" in text and "Epoch 1/" not in text, text)
    check(result(text) == expected, text)
    newest = max((folder / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    text = run("--epochs", 2, *saved, "--resume", "--devices", 2)
    check("left out" in text and "Resumed after 44 updates" in text, text)
    check(result(text) == expected, text)
    text = run("--epochs", 1, *saved)  # a new run beside the old one, with fewer updates
    check("A new run" in text and "Resumed" not in text, text)
    text = run("--epochs", 2, *saved, "--resume")
    check("Resumed after 24 updates of run" in text and "of 2 runs" in text, text)
    check(result(text) == expected, text)
    check("--checkpoint-dir" in run("--resume", code=2), "--resume alone")
    text = run("--learning-rate", 1e30, "--checkpoint-dir", folder / "nan", code=1)
    check("mnist_pipeline: Error: the loss is" in text and "Testing" not in text, text)
    check("warning model: the loss is" in text and not list((folder / "nan").iterdir()), text)


def char_gpt(programs):
    # A text that stays as it is.
    text = programs.run("char_gpt", "--steps", 40, "--sample", 20, "--prompt", "The ",
                        "--files", ROOT / "LICENSE")
    first = number(r"step +0 loss ([\d.]+)", text)
    last = number(r"step +39 loss ([\d.]+)", text)
    check(first > 4 and last < 3, text)
    sample = text.split("---\n")[1]
    check(len(sample) == len("The ") + 20 + 1, text)
    text = programs.run("char_gpt", "--learning-rate", 1e30, "--files", ROOT / "LICENSE", code=1)
    check("char_gpt: Error: the loss is" in text and "findFirstNonFinite" in text, text)
    check("--prompt" in programs.run("char_gpt", "--prompt", "", code=2), "an empty prompt")
    text = programs.run("char_gpt", "--files", "missing.txt", code=1)
    check("char_gpt: FileError" in text and "missing.txt" in text, text)


GRAPH = """graph "demo" {
  var "w": f32[3, 2] weight init constant(0.5)
  %0 = input() "x" : f32[4, 3]
  %1 = variable() {var="w"} "w" : f32[3, 2]
  %2 = matmul(%0, %1) "matmul" : f32[4, 2]
  %3 = exp(%2) "exp" : f32[4, 2]
  %4 = neg(%3) "neg" : f32[4, 2]
  output "y" = %4
}
"""


def devices(programs):
    """The kinds with what was measured, for people and as JSON."""
    text = programs.run("sluice", "devices", "--threads", 2)
    check(re.search(r"\d+ hardware threads", text) and re.search(r"^cpu (.*\n)+far ", text, re.M), text)
    check(text.count("measured now, with 2 threads") >= 2, text)
    check("the host cannot read it" in text and "kind[@target][:index][*shares]" in text, text)
    found = json.loads(programs.run("sluice", "devices", "--json"))
    names = [kind["kind"] for kind in found["kinds"]]
    check(found["hostThreads"] >= 1 and names in (["cpu", "far", "sim"], ["cpu", "far", "sim", "cuda"]), found)
    check(found["kinds"][2]["modelled"]["flopsPerSecond"]["f16"] == 250e12 and "measured" not in found["kinds"][2], found)
    for kind in found["kinds"][3:]:  # built in, and perhaps of no use on this machine
        check("unusable" in kind or kind["devices"] >= 1, kind)
    for kind in found["kinds"][:2]:
        check(kind["devices"] is None and kind["hostReadable"] == (kind["kind"] == "cpu"), kind)
        measured = kind["measured"]
        rates = [*measured.pop("flopsPerSecond").values(), *measured.values()]
        check(len(rates) == 9 and all(rate > 0 for rate in rates), kind)
    programs.run("sluice", "devices", "--threads", 0, code=2)


def command_line(programs):
    check(re.search(r"sluice \d+\.\d+\.\d+\n", programs.run("sluice", "version")), "version")
    devices(programs)
    ops = programs.run("sluice", "ops").splitlines()
    names = [line.split()[0] for line in ops[1:]]
    check(len(names) > 70 and {"matmul", "conv", "dropout"} <= set(names), names)
    table = programs.run("sluice", "ops", "--markdown").splitlines()
    check(len(table) == len(ops) + 1 and table[1].startswith("| ---"), table[:2])
    help_text = programs.run("sluice", "--help")
    for command in ("version", "cache", "calibrate", "completion", "convert", "devices", "diff", "ops", "inspect",
                    "report", "run", "schedule", "train", "tune"):
        check(command in help_text, help_text)
        check("--help" in programs.run("sluice", command, "--help"), command)
    programs.run("sluice", code=2)
    text = programs.run("sluice", "shedule", code=2)
    check("unknown command 'shedule', did you mean 'schedule'?" in text and "inspect" in text, text)
    text = programs.run("sluice", "qqqqqqqqqqqq", code=2)
    check("did you mean" not in text and "bench-data" in text, text)
    check(re.fullmatch(r"sluice \d+\.\d+\.\d+\n", programs.run("sluice", "--version")), "--version")
    programs.run("sluice", "inspect", code=2)
    programs.run("sluice", "ops", "--unknown", code=2)
    with tempfile.TemporaryDirectory() as folder:
        inspect(programs, Path(folder))
        convert(programs, Path(folder))
        calibrate(programs, Path(folder))


def calibrate(programs, folder):
    """A target of this machine, with the kernels of a graph, is one that programs can be compiled for."""
    graph, target = folder / "calibrated.txt", folder / "target.json"
    graph.write_text(GRAPH)
    text = programs.run("sluice", "calibrate", graph, "-o", target)
    check("Gflop/s" in text and re.search(r"[1-9]\d* kernels", text), text)
    data = json.loads(target.read_text())
    check(data["name"] == "measured" and data["flops"]["f32"] > 0 and data["kernels"], data)
    check("program" in programs.run("sluice", "inspect", graph, "--program", "--device", f"sim@{target}"), "sim")
    check("simulated itself" in programs.run("sluice", "calibrate", "--device", "sim", code=1), "sim")
    target.write_text("{")
    check("JSON" in programs.run("sluice", "inspect", graph, "--program", "--device", f"sim@{target}", code=1), "json")
    check("none.slt" in programs.run("sluice", "diff", folder / "none.slt", target, code=1), "diff")


def convert(programs, folder):
    """A network whose products read transposed matrices, which an exact file says in our own ops."""
    model = ROOT / "tests" / "onnx" / "models" / "transformer.17.onnx"
    standard, exact = folder / "standard.onnx", folder / "exact.onnx"
    programs.run("sluice", "convert", model, standard)
    programs.run("sluice", "convert", model, exact, "--exact")
    domain = b"\x3a\x06sluice"  # of a node, as protobuf has it
    check(domain not in standard.read_bytes() and domain in exact.read_bytes(), "domains")
    summary = programs.run("sluice", "inspect", model)
    check(programs.run("sluice", "inspect", exact) == summary, "another graph")
    check("variable embedding.weight" in programs.run("sluice", "inspect", standard), summary)
    text = programs.run("sluice", "convert", model, folder / "none" / "x.onnx", code=1)
    check("cannot write" in text, text)
    programs.run("sluice", "convert", model, code=2)


def inspect(programs, folder):
    path = folder / "graph.txt"
    path.write_text(GRAPH)
    summary = programs.run("sluice", "inspect", path)
    check('graph "demo": 5 ops' in summary and "variable w f32[3, 2] weight" in summary, summary)
    passes = programs.run("sluice", "inspect", path, "--passes")
    check("= fused(" in passes and 'output "y"' in passes, passes)
    program = programs.run("sluice", "inspect", path, "--program")
    check("lane" in program and "fused" in program, program)
    check("staging on the host" not in program, program)
    far = programs.run("sluice", "inspect", path, "--program", "--device", "far")
    check("staging on the host" in far, far)
    check("cpu, far" in programs.run("sluice", "inspect", path, "--program", "--device", "abacus",
                                     code=1), "abacus")
    check("--program" in programs.run("sluice", "inspect", path, "--device", "far", code=2), "alone")
    check("cannot open" in programs.run("sluice", "inspect", folder / "none", code=1), "missing")
    check("graph \"" in programs.run("sluice", "inspect", path, "--text"), "no text")
    model = "/usr/share/libonnx-testdata/data/node/test_add/model.onnx"
    check("1  add" in programs.run("sluice", "inspect", model), "no ONNX model")
    for dim in ("N", "N=", "=4", "N=four"):
        check("expected NAME=NUMBER" in programs.run("sluice", "inspect", model, "--dim", dim,
                                                      code=2), dim)
    no_model = folder / "text.onnx"
    no_model.write_text("text")
    check("no ONNX model" in programs.run("sluice", "inspect", no_model, code=1), "text")
    table = folder / "table.txt"
    programs.run("sluice", "tune", path, "--output", table)
    check(all(len(line.split()) >= 2 for line in table.read_text().splitlines()), "tuning table")
    unwritable = programs.run("sluice", "tune", path, "-o", folder / "none" / "table", code=1)
    check("cannot write" in unwritable and "table" in unwritable, unwritable)
    path.write_text(GRAPH.replace("f32[4, 2]\n  %3", "f32[4, 9]\n  %3"))
    broken = programs.run("sluice", "inspect", path, code=1)
    check(str(path) in broken and "InternalError" not in broken, broken)
    path.write_text(GRAPH[:100])
    check("InternalError" not in programs.run("sluice", "inspect", path, code=1), "cut off")


def chart_rows(text):
    """The rows of the devices in a chart, panels joined."""
    rows = {}
    for device, cells in re.findall(r"^dev(\d+) +(.*)$", text, re.MULTILINE):
        rows[int(device)] = rows.get(int(device), "") + cells
    return rows


# Makespan, bound and the most that device 0 holds, for four devices and eight micro-batches.
FIGURES = {
    "sequential": (96, 33, 1), "grouped": (33, 33, 8), "interleaved": (33, 33, 4),
    "gpipe": (33, 33, 8), "1f1b": (33, 33, 4), "chunked": (28.5, 28.5, 5.5),
    "zb-h1": (27, 27, 4), "zero-bubble": (25.5, 25.5, 4),
}

POPART = """\
| dev0 | S0(0) | S0(1) | S0(2) | S0(3) | S0(4) S4(0) | S4(1) | S4(2) | S4(3) | S4(4) |
| dev1 | - | S1(0) | S1(1) | S1(2) S3(0) | S1(3) S3(1) | S1(4) S3(2) | S3(3) | S3(4) | - |
| dev2 | - | - | S2(0) | S2(1) | S2(2) | S2(3) | S2(4) | - | - |
"""


def schedule_command(programs):
    def run(*args, code=0):
        return programs.run("sluice", "schedule", *args, code=code)

    for name, (makespan, bound, memory) in FIGURES.items():
        args = ("--stages", 4, "--micro-batches", 8, "--schedule", name)
        data = json.loads(run(*args, "--json"))
        check((data["makespan"], data["bound"], data["peak"][0]) == (makespan, bound, memory), data)
        check(data["gap"] == makespan - bound and data["schedule"] == name, data)
        text = run(*args)
        check(number(r"makespan +([\d.]+)", text) == makespan, text)
        check(number(r"bound +([\d.]+)", text) == bound, text)
        for row, pieces in zip(chart_rows(text).values(), data["devices"]):
            letters = re.findall("[FBW]", row)
            check(letters == [piece["kind"] for piece in pieces], f"{name}: {row}")
    schedule_charts(run)
    schedule_pictures(run)
    schedule_cycles(run)
    schedule_simulated(run)
    schedule_errors(run)


def schedule_charts(run):
    rows = chart_rows(run("--stages", 2, "--micro-batches", 2, "--costs", "1,1.5,0.5;2,2,1"))
    check(rows == {0: "F0 F1 ............B0=== .........B1===",
                   1: "...F0=== B0====== F1=== B1====== ......"},
          rows)
    rows = chart_rows(run("--stages", 2, "--micro-batches", 3, "--inference", "--costs", "2"))
    check(rows == {0: "F0 F1 F2 ...", 1: "...F0 F1 F2"}, rows)
    wide = run("--stages", 8, "--micro-batches", 300, "--width", 80)
    check(max(map(len, wide.split("schedule")[0].splitlines())) <= 90, wide)
    check(wide.count("dev0 ") == 8 and "\n...\n" in wide and " F299" in wide, wide)
    concurrent = json.loads(run("--devices", "0,1,2", "--slots", "0,1,1", "--micro-batches", 1,
                                "--transfer", 0.5, "--json"))
    starts = [[piece["start"] for piece in device] for device in concurrent["devices"]]
    check(starts == [[0, 5], [1.5, 2.5], [1.5, 2.5]], starts)
    capped = json.loads(run("--devices", "0,1,2,0", "--micro-batches", 8, "--memory-cap", "3,2,2",
                            "--schedule", "zero-bubble", "--json"))
    check(all(peak <= cap for peak, cap in zip(capped["peak"], (3, 2, 2))), capped["peak"])


def schedule_pictures(run):
    """A block for every piece of work, as wide as it is long, with its micro-batch."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "schedule.svg"
        args = ("--stages", 4, "--micro-batches", 6, "--schedule", "zb-h1", "--svg", file)
        data = json.loads(run(*args, "--json"))
        root = ElementTree.fromstring(file.read_text())
        space = "{http://www.w3.org/2000/svg}"
        blocks = [rect for rect in root.iter(space + "rect") if rect.find(space + "title") is not None]
        pieces = [piece for device in data["devices"] for piece in device]
        titles = [rect.find(space + "title").text for rect in blocks]
        check(titles == [f"{p['kind']}{p['microBatch']} stage {p['stage']}" for p in pieces], titles)
        unit = (float(blocks[1].get("x")) - float(blocks[0].get("x")))  # a forward pass takes 1
        for rect, piece in zip(blocks, pieces):
            x = float(blocks[0].get("x")) + unit * piece["start"]
            check(abs(float(rect.get("x")) - x) < 0.5, f"{piece} is at {rect.get('x')}, not {x}")
        document = (ROOT / "docs/profiling.md").read_text().replace("\\\n", "")
        commands = re.findall(r"^ +sluice schedule (.*--svg (\S+).*)$", document, re.MULTILINE)
        check(len(commands) == 2, commands)
        for command, picture in commands:
            run(*shlex.split(command.replace(picture, str(file))))
            check(file.read_text() == (ROOT / picture).read_text(),
                  f"{picture} is out of date: sluice schedule {command}")
        text = run("--stages", 2, "--micro-batches", 2, "--view", "cycles", "--svg", file, code=2)
        check("--svg" in text, text)
        text = run("--stages", 2, "--micro-batches", 2, "--svg", Path(folder) / "no" / "x.svg", code=1)
        check("x.svg" in text, text)


def schedule_cycles(run):
    args = ("--stages", 3, "--micro-batches", 5, "--schedule", "popart", "--view", "cycles")
    text = run(*args)
    check(POPART in text and "9: 4 fill, 1 main, 4 flush" in text, text)
    check("stash       5 3 0" in text and "44.44%" in text, text)
    data = json.loads(run(*args, "--json"))
    check(data["makespan"] == 9 and data["stash"] == [5, 3, 0], data)
    check((data["fill"], data["main"], data["flush"]) == (4, 1, 4), data)
    both = [piece for piece in data["devices"][0] if piece["start"] == 4]
    check(both == [{"kind": "S", "stage": 0, "microBatch": 4, "start": 4, "end": 5},
                   {"kind": "S", "stage": 4, "microBatch": 0, "start": 4, "end": 5}], both)
    grouped = run("--stages", 2, "--micro-batches", 5, "--schedule", "grouped", "--view", "cycles")
    check("multiple of 4" in grouped and "FIFOs       2 0" in grouped, grouped)


def schedule_simulated(run):
    """Copies in virtual time: two stages, one micro-batch, F and B with a copy of 0.5 + 0.25 between them."""
    args = ("--stages", 2, "--micro-batches", 1, "--costs", "1,1,1", "--copies", "0.5,0.25")
    data = json.loads(run(*args, "--json"))
    check(data["makespan"] == 6 and data["simulated"]["makespan"] == 7.5, data)
    text = run(*args, "--summary")
    check("simulated   makespan 7.5 with copies of 0.5 and 0.25" in text and "dev0" not in text, text)
    large = run("--stages", 64, "--micro-batches", 4096, "--summary")
    check("64 stages on 64 devices, 4096 micro-batches" in large, large)


def schedule_errors(run):
    good = ("--stages", 2, "--micro-batches", 4)
    for args, word in (
            (("--stages", 2), "--micro-batches"),
            (("--micro-batches", 2), "--stages"),
            (("--stages", 0, "--micro-batches", 2), "--stages"),
            (("--stages", 2, "--micro-batches", 0), "--micro-batches"),
            (("--stages", 2000, "--micro-batches", 2000), "limit of 131072"),
            (("--stages", 2, "--micro-batches", HUGE), "out of range"),
            (("--stages", 4096, "--micro-batches", 2, "--chunks", 3), "limit of 4096"),
            (("--stages", 3, "--micro-batches", 100_000), "limit of 131072"),
            (("--devices", "65535,1", "--micro-batches", 2), "65536 stages (with chunks) or devices"),
            (("--stages", "two", "--micro-batches", 2), "--stages"),
            ((*good, "--schedule", "fastest"), "known are sequential, grouped"),
            ((*good, "--costs", "1,x,1"), "'x'"),
            ((*good, "--costs", "1,-1,1"), "'-1'"),
            ((*good, "--costs", "1,1"), "expected 3 numbers"),
            ((*good, "--costs", "1,1,1;1,1,1;1,1,1"), "1 or 2 stages"),
            ((*good, "--costs", "1,1,0.1234567"), "6 decimals"),
            ((*good, "--devices", "0,1,1"), "leave out --stages"),
            (("--devices", "0,,1", "--micro-batches", 2), "separated by commas"),
            ((*good, "--slots", "0,3"), "slots"),
            ((*good, "--memory-cap", "1,2,3"), "--memory-cap"),
            ((*good, "--transfer", "1;2"), "--transfer"),
            ((*good, "--view", "circles"), "--view"),
            (("--stages", 1024, "--micro-batches", 4096), "--summary"),
            (("--stages", 1024, "--micro-batches", 4097, "--summary"), "limit of 4194304"),
            ((*good, "--copies", "1"), "--copies"),
            ((*good, "--copies", "1,1;1,1"), "--copies"),
            ((*good, "--view", "cycles", "--schedule", "gpipe"), "no cycles")):
        check(word in run(*args, code=2), f"{args}: {word}")
    check("whose cap is 2" in run(*good, "--schedule", "gpipe", "--memory-cap", 2, code=1), "cap")
    tight = run(*good, "--schedule", "zero-bubble", "--memory-cap", 0.5, code=1)
    check("at least" in tight and "1/20" in tight, tight)


EXAMPLES = ("char_gpt", "custom_op", "linear_regression", "live_loss", "mlp", "mnist_pipeline",
            "onnx_model", "phased_execution", "repeat_loop")


def programs(programs):
    """Every example explains itself and has the same exit codes; no tools of tests are among them."""
    # readme_example is the README's program, letter by letter, and takes no arguments.
    for name in EXAMPLES:
        text = programs.run(name, "--help")
        check("Example" in text and name in text.split("Example")[1], text)
        check("Exit codes: 0 done, 1 failed, 2 wrong usage, 130" in text, text)
        needed = ("model.onnx",) if name == "onnx_model" else ()
        check("--unknown" in programs.run(name, *needed, "--unknown", code=2), name)
        check("--device TEXT" in text and "kind[@target][:index][*shares]" in text, text)
    known = {*EXAMPLES, "sluice", "readme_example", "onnx_node_tests", "swish_ops.so"}
    found = {path.name for path in programs.folder.iterdir() if not path.name.startswith("bench_")}
    check(known <= found, f"missing: {known - found}")
    check("op_types" not in found and "checkpoint_worker" not in found, "tools among the programs")


def signalled(programs, number, awaited, name, *args):
    """The text of a program that gets a signal once it has printed what is awaited."""
    process = subprocess.Popen([programs.folder / name, *map(str, args)], cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = ""
    while awaited not in text:
        line = process.stdout.readline()
        check(line, text)
        text += line
    process.send_signal(number)
    text += process.stdout.read()
    check(process.wait() == 128 + number, f"{name}: exit code {process.returncode}\n{text}")
    check("Interrupted after" in text, text)
    return text


def signals(programs):
    """Ctrl-C, SIGTERM and SIGHUP end training after the step, with a checkpoint, without a test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_digits(folder, "train", 480, 1)
        write_digits(folder, "t10k", 130, 2)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            saved = folder / f"checkpoints{number}"
            text = signalled(programs, number, "Epoch 2/", "mnist_pipeline", "--data", folder,
                             "--epochs", 100000, "--batch-size", 5, "--device-iterations", 2,
                             "--gradient-accumulation", 4, "--checkpoint-dir", saved,
                             "--checkpoint-every", 1000000)
            check("Testing" not in text and re.search(r"\d s per epoch, final loss", text), text)
            check(len(list(saved.iterdir())) == 1, "no checkpoint was saved")
            text = signalled(programs, number, "step ", "char_gpt", "--steps", 1000000)
            check("---" not in text, text)  # nothing is generated


TESTS = {test.__name__: test
         for test in (custom_op, linear_regression, live_loss, mlp, onnx_model, phased_execution,
                      programs, readme_example, repeat_loop, mnist_pipeline, char_gpt,
                      command_line, schedule_command, signals)}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TESTS:
        sys.exit(__doc__)
    TESTS[sys.argv[1]](Programs(sys.argv[2]))


if __name__ == "__main__":
    main()
