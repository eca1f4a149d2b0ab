#!/usr/bin/python3
"""Runs an example program, or the command line, and checks what it prints.

    tests/e2e/run_examples.py NAME FOLDER   NAME: a key of TESTS; FOLDER: of the programs

Small examples are here; the modules that are imported have the others.
"""
import os
import re
import sys
import tempfile
from pathlib import Path

import run_commands
import run_mnist
import run_schedule
from programs import HUGE, ROOT, Programs, check, number
from run_files import write_npy


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
        cached_custom_op(programs, path, library)


def cached_custom_op(programs, path, library):
    """A program in a cache is not taken for damaged where its library is not loaded."""
    cache, x = path.parent / "cache", path.parent / "x.npy"
    write_npy(x, "f", [4], [1, 2, 3, 4])
    os.environ["SLUICE_CACHE_DIR"] = str(cache)
    programs.run("sluice", "run", path, "--custom-ops", library, "--input", f"x={x}")
    del os.environ["SLUICE_CACHE_DIR"]
    verify = ("sluice", "cache", "verify", "--folder", cache)
    text = programs.run(*verify, code=1)
    check("1 files, 0 damaged and removed, 1 could not be checked" in text, text)
    check("com.example.Swish.1" in text and "load the library" in text, text)
    text = programs.run(*verify, "--custom-ops", library)
    check(text == "1 files, 0 damaged and removed\n", text)


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


def profiles(programs):
    """--profile of every example prints the reports that it wrote, and only those."""
    examples = sorted(file.stem for file in (ROOT / "examples").glob("*.cpp"))
    examples = [name for name in examples if name != "readme_example"] + ["custom_op"]  # no options
    small = {"char_gpt": ("--steps", 2, "--sample", 1, "--files", ROOT / "LICENSE"),
             "mlp": ("--epochs", 1),
             "onnx_model": (ROOT / "tests" / "onnx" / "models" / "mnist.11.onnx", "--steps", 2)}
    for name in examples:
        help_text = programs.run(name, "--help")
        check("--profile " in help_text and "--profile-dir" in help_text, name)
        if name in ("mnist_pipeline", "phased_execution"):
            continue  # their own tests run them
        with tempfile.TemporaryDirectory() as folder:
            old = Path(folder) / "other" / "report.html"
            old.parent.mkdir()
            old.write_text("of another run")
            text = programs.run(name, *small.get(name, ()), "--profile", "--profile-dir", folder)
            reports = [Path(line) for line in re.findall(r"^Report: (.*)$", text, re.MULTILINE)]
            check(reports and old not in reports, text)
            for report in reports:
                check(report.read_text().startswith("<!doctype html>"), report)
                check((report.parent / "run.slt").exists(), report)


def readme_example(programs):
    printed = re.search(r"It prints `(.*)`", (ROOT / "README.md").read_text()).group(1)
    check(programs.run("readme_example") == printed + "\n", "other text than the README says")


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


TESTS = {test.__name__: test
         for test in (custom_op, linear_regression, live_loss, mlp, onnx_model, phased_execution, profiles,
                      run_commands.programs, readme_example, repeat_loop, run_mnist.mnist_pipeline, char_gpt,
                      run_commands.command_line, run_schedule.schedule_command, run_commands.signals)}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TESTS:
        sys.exit(__doc__)
    TESTS[sys.argv[1]](Programs(sys.argv[2]))


if __name__ == "__main__":
    main()
