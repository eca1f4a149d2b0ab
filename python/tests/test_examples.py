"""The programs in examples/python: each does what it says, and ends with the right exit code."""

import math
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "command_line.py")


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, str(FOLDER / program), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def output_of(program, *arguments):
    process = start(program, *arguments)
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return printed


def numbers(pattern, text):
    return [float(number) for number in re.findall(pattern, text)]


# --- what they print -----------------------------------------------------------------------------


def test_mnist_learns_and_has_the_same_bits_on_one_device():
    arguments = "--synthetic --epochs 1 --device-iterations 5 --batch-size 20 --test-iterations 20".split()
    arguments += ["--learning-rate", "0.004"]
    four = output_of("mnist_pipeline.py", *arguments)
    one = output_of("mnist_pipeline.py", *arguments, "--devices", "1", "--offload-optimiser")
    assert numbers(r"Accuracy on test set: ([\d.]+)%", four)[0] > 90
    assert four.splitlines()[-1].startswith("4 devices, pipelined")
    assert re.findall("final loss .*", four) == re.findall("final loss .*", one)


def test_gpt_learns_its_text():
    printed = output_of("gpt.py", "--steps", "30", "--sample", "20", "--prompt", "The ")
    losses = numbers(r"loss ([\d.]+)", printed)
    assert losses[-1] < losses[0] / 2
    assert len(printed.partition("---\n")[2].rstrip("\n")) == 24


@pytest.mark.parametrize("program, arguments, models", [
    ("gpt.py", "--steps 2 --sample 1", {"training", "inference"}),
    ("popart_chain.py", "--iters 1", {"inference"}),
    ("tf_pipeline.py", "--calls 1 --updates 2", {"training"}),
])
def test_profiles_are_written_and_named(program, arguments, models, tmp_path):
    printed = output_of(program, *arguments.split(), "--profile", "--profile-dir", str(tmp_path))
    reports = [Path(line) for line in re.findall("^Report: (.*)$", printed, re.MULTILINE)]
    assert {report.parent.name for report in reports} == models
    for report in reports:
        assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not re.findall("^Report", output_of(program, *arguments.split()), re.MULTILINE)


def test_resnet_trains_what_is_not_frozen():
    printed = output_of("resnet_finetune.py", "--steps", "4", "--batch-size", "6")
    losses = numbers(r"loss ([\d.]+)", printed)
    assert losses[-1] < losses[0] / 2
    assert "Frozen parameters are as before." in printed


def test_phases_have_the_bits_of_one_large_device():
    printed = output_of("phased_execution.py", "--iters", "1", "--layers", "5", "--training")
    assert "Results and weights are the same, bit by bit." in printed


@pytest.mark.parametrize("execution", [[], ["--pipelined", "--training"]])
def test_the_chain_of_products_agrees_with_numpy(execution):
    printed = output_of("popart_chain.py", "--iters", "2", *execution)
    (ours,), (expected,) = numbers(r"first batch: loss ([\d.]+)", printed), numbers(r"by NumPy ([\d.]+)", printed)
    assert ours == pytest.approx(expected, rel=1e-3)


def test_the_pipeline_of_functions_learns():
    printed = output_of("tf_pipeline.py", "--calls", "2")
    assert numbers(r"accuracy ([\d.]+)%", printed)[-1] > 90
    assert "left/weight [32, 32]" in printed


# --- exit codes ----------------------------------------------------------------------------------


def exit_code(program, *arguments):
    """In this process, where torch is loaded already."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [program, *arguments], [str(FOLDER)]
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(FOLDER / program), run_name="__main__")
        return ended.value.code
    finally:
        sys.argv, sys.path[:] = before


def write_images(folder):
    """Three images and labels in the form of MNIST's files."""
    for name, shape in (("images-idx3", (3, 28, 28)), ("labels-idx1", (3,))):
        extents = b"".join(extent.to_bytes(4, "big") for extent in shape)
        data = bytes([0, 0, 8, len(shape)]) + extents + bytes(math.prod(shape))
        (folder / f"train-{name}-ubyte").write_bytes(data)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_teaches(program, capsys):
    assert exit_code(program, "--help") == 0
    printed = capsys.readouterr().out
    assert "examples:" in printed and program in printed and "(default: " in printed


@pytest.mark.parametrize("program, arguments, word", [
    *((program, ["--no-such-option"], "unrecognized") for program in PROGRAMS),
    *((program, ["--seed", "-1"], "expected a whole number") for program in PROGRAMS),
    ("mnist_pipeline.py", ["--strategy", "serial-phased", "--devices", "3"], "runs on 1 device"),
    ("mnist_pipeline.py", ["--data", "IMAGES", "--batch-size", "100"], "a call takes 10000 images, and there are only 3"),
    ("gpt.py", ["--heads", "5"], "do not divide"),
    ("gpt.py", ["--devices", "3"], "at most 2 devices"),
    ("gpt.py", ["--prompt", ""], "at least one character"),
    ("resnet_finetune.py", ["--image-size", "8"], "32 or more"),
    ("phased_execution.py", ["--devices-memory", "much"], "not a size"),
    ("popart_chain.py", ["--sharded", "--num-layers", "1"], "two layers"),
    ("tf_pipeline.py", ["--schedule", "random"], "invalid choice"),
])
def test_wrong_usage_ends_with_2(program, arguments, word, capsys, tmp_path):
    if "IMAGES" in arguments:
        write_images(tmp_path)
        arguments = [str(tmp_path) if each == "IMAGES" else each for each in arguments]
    assert exit_code(program, *arguments) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize("program, arguments, word", [
    ("mnist_pipeline.py", ["--data", "no/such/folder"], "--synthetic"),
    ("mnist_pipeline.py", ["--data", "BROKEN"], "is not an IDX file"),
    ("gpt.py", ["--file", "no/such/file"], "no/such/file"),
    ("gpt.py", ["--context", "4000"], "smaller --context"),
    ("resnet_finetune.py", ["--weights", "no/such/file"], "no/such/file"),
    ("phased_execution.py", ["--strategy", "sharded"], "these changes were planned and fit"),
])
def test_failures_end_with_1(program, arguments, word, capsys, tmp_path):
    if "BROKEN" in arguments:
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
            (tmp_path / name).write_bytes(b"no images")
        arguments = [str(tmp_path) if each == "BROKEN" else each for each in arguments]
    assert exit_code(program, *arguments) == 1
    assert word in capsys.readouterr().err


def test_a_loss_that_is_not_finite_is_a_failure(capsys):
    assert exit_code("gpt.py", "--learning-rate", "1e30", "--steps", "20") == 1
    assert "smaller --learning-rate" in capsys.readouterr().err


def test_ctrl_c_ends_with_130():
    process = start("mnist_pipeline.py", "--synthetic", "--epochs", "1000000")
    for line in process.stdout:
        if line.startswith("Epoch 2/"):
            process.send_signal(signal.SIGINT)
            break
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Interrupted." in errors and "Traceback" not in errors
