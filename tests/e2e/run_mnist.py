"""mnist_pipeline on a few made-up digits: training, the same bits, reports, checkpoints."""
import json
import random
import re
import struct
import tempfile
from pathlib import Path

from programs import HUGE, check, number


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
        check(part in " ".join(text.split()), text)
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
    check("names no format" in report(traces[0], "-o", folder / "page.svg", code=2), "unknown ending")
    check(not (folder / "page.svg").exists(), "text in a file of pictures")


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
