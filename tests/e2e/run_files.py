#!/usr/bin/python3
"""Runs the commands that work on files of models and tensors, and checks what they write.

    tests/e2e/run_files.py NAME FOLDER   NAME: a function below; FOLDER: of the programs
"""
import array
import json
import math
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import ROOT, Programs, check

MODELS = ROOT / "tests" / "onnx" / "models"
EXECUTABLE = ROOT / "tests" / "e2e" / "executables" / "v1.1.slx"
CODES = {"F32": "f", "I64": "q", "F64": "d", "U8": "B"}
DESCRIPTIONS = {"f": "<f4", "q": "<i8", "d": "<f8", "B": "|u1"}


def write_npy(path, code, shape, values):
    header = f"{{'descr': '{DESCRIPTIONS[code]}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * ((-len(header) - 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + array.array(code, values).tobytes()
    Path(path).write_bytes(data)


def read_npy(path):
    data = Path(path).read_bytes()
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:end].decode())
    code = {v: k for k, v in DESCRIPTIONS.items()}[header["descr"]]
    return list(header["shape"]), list(array.array(code, data[end:]))


def read_safetensors(path):
    data = Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            tensors[name] = (entry["dtype"], entry["shape"], list(array.array(CODES[entry["dtype"]], data[begin:end])))
    return tensors


def kept(folder, name):
    """Writes the kept inputs of a model as .npy; returns the arguments and the kept outputs."""
    tensors = read_safetensors(MODELS / f"{name}.safetensors")
    arguments, outputs = [], {}
    for key, (dtype, shape, values) in tensors.items():
        kind, _, tensor = key.partition(".")
        if kind == "input":
            write_npy(folder / f"{tensor}.npy", CODES[dtype], shape, values)
            arguments += ["--input", f"{tensor}={folder / (tensor + '.npy')}"]
        elif kind == "output":
            outputs["y"] = (shape, values)
    return arguments, outputs


def near(found, expected, tolerance=1e-4):
    return len(found) == len(expected) and all(
        abs(a - b) <= tolerance * max(1.0, abs(b)) for a, b in zip(found, expected))


def with_folder(test):
    def run(programs):
        with tempfile.TemporaryDirectory() as folder:
            test(programs, Path(folder))
    return run


GRAPH = """graph "line" {
  var "w": f32[1] weight init constant(0)
  var "b": f32[1] weight init constant(0)
  %0 = input() "x" : f32[4, 1]
  %1 = variable() {var="w"} "w" : f32[1]
  %2 = variable() {var="b"} "b" : f32[1]
  %3 = mul(%0, %1) "mul" : f32[4, 1]
  %4 = add(%3, %2) "add" : f32[4, 1]
  output "y" = %4
}
"""


def line_model(programs, folder):
    """y = w x + b as an ONNX file."""
    (folder / "line.txt").write_text(GRAPH)
    programs.run("sluice", "convert", folder / "line.txt", folder / "line.onnx")
    return folder / "line.onnx"


@with_folder
def run_command(programs, folder):
    model = line_model(programs, folder)
    write_npy(folder / "x.npy", "f", [3, 1], [1, 2, 3])
    given = ["--input", f"x={folder / 'x.npy'}"]
    text = programs.run("sluice", "run", model, *given, "--output", folder / "y.npy")
    check("y f32[3, 1]: from 0 to 0" in text, text)  # the shape is that of the input
    check(read_npy(folder / "y.npy") == ([3, 1], [0.0, 0.0, 0.0]), "another result")
    two = programs.run("sluice", "run", folder / "line.txt", "--input", f"x={folder / 'x.npy'}", code=1)
    check("f32[4, 1]" in two and "f32[3, 1]" in two, two)  # the text form has fixed shapes
    write_npy(folder / "d.npy", "d", [3, 1], [1, 2, 3])
    for arguments, word, code in (
            ([], "the input 'x' is missing", 1),
            (["--input", f"x={folder / 'd.npy'}"], "astype", 1),
            (["--input", str(folder / "x.npy")], "NAME=FILE.npy", 2),
            ([*given, "--input", f"z={folder / 'x.npy'}"], "'z'", 1),
            ([*given, *given], "twice", 2),
            ([*given, "--output", f"z={folder / 'y.npy'}"], "NAME=FILE.npy", 1),
            ([*given, "--output", folder / "none" / "y.npy"], "y.npy", 1),
            ([*given, "--output", folder / "y.txt"], "expected FILE.npy", 2),
            ([*given, "--devices", "65"], "65", 2),
            (["--input", f"x={folder / 'none.npy'}"], "none.npy", 1)):
        text = programs.run("sluice", "run", model, *arguments, code=code)
        check(word in text and "InternalError" not in text and len(text.splitlines()) <= 3, text)


@with_folder
def run_kept_models(programs, folder):
    """Networks exported from PyTorch give the outputs that PyTorch gave."""
    for name, version in (("mnist", 11), ("tagger", 14)):
        arguments, outputs = kept(folder, name)
        check(arguments and outputs, name)
        arguments += ["--output", folder / "y.out.npy"]
        for devices in (1, 2):
            programs.run("sluice", "run", MODELS / f"{name}.{version}.onnx", *arguments, "--devices", devices)
            for key, (shape, values) in outputs.items():
                found_shape, found = read_npy(folder / f"{key}.out.npy")
                check(found_shape == shape and near(found, values), f"{name} {key} on {devices} devices")


@with_folder
def diff_command(programs, folder):
    """Cuts write the same values, other data do not, and trouble is no difference."""
    model = line_model(programs, folder)
    write_npy(folder / "x.npy", "f", [32, 1], [i / 16 - 1 for i in range(32)])
    write_npy(folder / "other.npy", "f", [32, 1], [i / 16 for i in range(32)])

    def traced(name, target, *arguments, values="Hashes"):
        os.environ["SLUICE_PROFILE"] = json.dumps({"directory": str(folder / name), "values": values})
        programs.run("sluice", "train", model, "--data", f"x={folder / 'x.npy'}", "--target", folder / target, "--loss",
                     "mse", "--optimizer", "sgd", "--batch", 4, "--accumulate", 4, "--in-order", *arguments)
        del os.environ["SLUICE_PROFILE"]
        return folder / name / "training" / "run.slt"

    one, two = traced("one", "x.npy"), traced("two", "x.npy", "--devices", 2)
    check(" 0 differ" in programs.run("sluice", "diff", one, two), "a cut changes values")
    other = traced("other", "other.npy")
    check("first difference" in programs.run("sluice", "diff", one, other, code=1), "no difference")
    with open("/dev/full", "w", encoding="utf-8") as full:
        lost = subprocess.run([programs.folder / "sluice", "diff", one, other], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    check(lost.returncode == 2 and "No space left" in lost.stderr, lost)
    text = programs.run("sluice", "diff", one, other, "--relative", "0.1", code=2)
    check(str(one) in text and "TraceValues::All" in text, text)  # which file


@with_folder
def train_command(programs, folder):
    """w x + b learns 2 x + 1, alone and in two stages, and goes on from a checkpoint."""
    model = line_model(programs, folder)
    xs = [i / 16 - 1 for i in range(32)]
    write_npy(folder / "x.npy", "f", [32, 1], xs)
    write_npy(folder / "t.npy", "f", [32, 1], [2 * x + 1 for x in xs])

    def train(*arguments, code=0):
        settings = {"--data": f"x={folder / 'x.npy'}", "--target": folder / "t.npy", "--loss": "mse",
                    "--optimizer": "sgd", "--lr": 0.2, "--batch": 4}
        settings.update(zip(arguments[::2], arguments[1::2]))
        return programs.run("sluice", "train", model, *(word for pair in settings.items() for word in pair),
                            code=code)

    train("--epochs", 40, "-o", folder / "trained.safetensors")
    weights = read_safetensors(folder / "trained.safetensors")
    check(near(weights["w"][2] + weights["b"][2], [2, 1], 1e-3), weights)
    train("--epochs", 2, "--accumulate", 4, "-o", folder / "one.safetensors")
    train("--epochs", 2, "--accumulate", 4, "--devices", 2, "--cut", "auto", "-o", folder / "two.safetensors")
    one, two = (read_safetensors(folder / f"{name}.safetensors") for name in ("one", "two"))
    check(one == two, f"other bits on two devices: {one} {two}")
    train("--epochs", 2, "--accumulate", 4, "--cut", "mul", "-o", folder / "named.safetensors")
    check(read_safetensors(folder / "named.safetensors") == one, "other bits with a named cut")
    placed = re.sub(r'("(mul|add)" : f32\[4, 1\])', lambda m: f"{m[1]} device={int(m[2] == 'add')}", GRAPH)
    (folder / "placed.txt").write_text(placed)
    programs.run("sluice", "train", folder / "placed.txt", "--data", f"x={folder / 'x.npy'}", "--target", folder / "t.npy",
                 "--loss", "mse", "--optimizer", "sgd", "--lr", 0.2, "--batch", 4, "--epochs", 2, "--accumulate", 4,
                 "--cut", "annotated", "-o", folder / "placed.safetensors")
    check(read_safetensors(folder / "placed.safetensors") == one, "other bits as annotated")
    train("--epochs", 1, "--accumulate", 4, "--checkpoint", folder / "run")
    train("--epochs", 2, "--accumulate", 4, "--checkpoint", folder / "run", "-o", folder / "later.safetensors")
    check(read_safetensors(folder / "later.safetensors") == one, "other bits after going on")
    text = train("--lr", 1e30, "--every", 1, "--checkpoint", folder / "nan", "-o", folder / "nan.onnx", code=1)
    check("the loss is inf after 2 updates" in text and not (folder / "nan.onnx").exists(), text)
    saved = [read_safetensors(path) for path in (folder / "nan").iterdir()]
    values = [value for tensors in saved for each in tensors.values() if each[0] == "F32" for value in each[2]]
    check(len(saved) == 1 and all(map(math.isfinite, values)), saved)
    # The only update of a run: no loss shows what it did.
    text = train("--lr", 1e300, "--batch", 32, "--checkpoint", folder / "inf", "-o", folder / "inf.onnx", code=1)
    check("is not finite after 1 updates: lower the learning rate" in text and not (folder / "inf.onnx").exists(), text)
    check(not list((folder / "inf").iterdir()), "a checkpoint of infinities")
    text = train("--lr", 1e300, "--every", 1, "--checkpoint", folder / "veto", code=1)
    check("is not finite after 1 updates" in text and not list((folder / "veto").iterdir()), text)
    check("for micro-batches as in training: x f32[4, 1]" in train("--epochs", 1, "-o", folder / "trained.onnx"), "sizes")
    check("variable w f32[1]" in programs.run("sluice", "inspect", folder / "trained.onnx"), "no model")
    # It has the inputs and outputs of the model that was given: it runs, and is trained again.
    programs.run("sluice", "run", folder / "trained.onnx", "--input", f"x={folder / 'x.npy'}",
                 "-o", folder / "y.npy")
    programs.run("sluice", "train", folder / "trained.onnx", "--data", f"x={folder / 'x.npy'}", "--target",
                 folder / "t.npy", "--loss", "mse", "--optimizer", "sgd", "--lr", 0.2, "--batch", 4, "--epochs", 1,
                 "--in-order", "-o", folder / "again.safetensors")
    train("--epochs", 1, "-o", folder / "first.safetensors")
    programs.run("sluice", "convert", folder / "trained.onnx", folder / "values.safetensors")
    check(read_safetensors(folder / "values.safetensors") == read_safetensors(folder / "first.safetensors"),
          "the file has other weights than the model")
    check("same file" in train("-o", model, code=2), "train replaces its model")
    text = programs.run("sluice", "run", model, "--input", f"x={folder / 'x.npy'}", "-o", folder / "x.npy", code=2)
    check("same file" in text, text)
    for closed in ("2>&-", "2>/dev/full", "<&- >&- 2>&-"):
        sluice = programs.folder / "sluice"
        ended = subprocess.run(["bash", "-c", f"{sluice} inspect {folder / 'none.txt'} {closed}"], check=False)
        check(ended.returncode == 1, f"an error ends with {ended.returncode} if there is {closed}")
    # What a program opens does not take the place of a closed stream.
    log = folder / "log.txt"
    given = f"--data x={folder / 'x.npy'} --target {folder / 't.npy'} --loss mse --batch 4"
    subprocess.run(["bash", "-c", f"{programs.folder / 'sluice'} train {model} {given} >&-"], check=False,
                   env=dict(os.environ, SLUICE_LOG_DEST=str(log), SLUICE_LOG_LEVEL="DEBUG"))
    check("Epoch" not in log.read_text() and "8/8" not in log.read_text(), log.read_text())
    write_npy(folder / "short.npy", "f", [31, 1], xs[1:])
    write_npy(folder / "whole.npy", "q", [32, 1], [1] * 32)
    write_npy(folder / "flat.npy", "f", [32], xs)
    for option, value, word, code in (
            ("--loss", "hinge", "hinge", 2),
            ("--batch", 64, "64", 1),
            ("--lr", 0, "above 0", 2),
            ("--cut", "mull", "did you mean 'mul'", 1),
            ("--cut", "x", "an input", 1),
            ("--cut", "y", "nothing comes after", 1),
            ("--cut", "mul,", "a,b", 2),
            ("--target", "none", "--target", 2),
            ("--target", folder / "short.npy", "31", 1),
            ("--target", folder / "whole.npy", "needs targets f32[4, 1] per micro-batch, got i64[4, 1]", 1),
            ("--target", folder / "flat.npy", "got f32[4]", 1),
            ("-o", folder / "m.pt", "expected *.onnx or *.safetensors", 2),
            ("--data", f"z={folder / 'x.npy'}", "'z'", 1),
            ("-o", folder / "none" / "m.onnx", "m.onnx", 1)):
        text = train(option, value, code=code)
        check(word in text and "InternalError" not in text, text)


def line_data(programs, folder):
    """The arguments of a training of the line on 32 points."""
    model = line_model(programs, folder)
    xs = [i / 16 - 1 for i in range(32)]
    write_npy(folder / "x.npy", "f", [32, 1], xs)
    write_npy(folder / "t.npy", "f", [32, 1], [2 * x + 1 for x in xs])
    return model, ["--data", f"x={folder / 'x.npy'}", "--target", folder / "t.npy", "--loss", "mse", "--batch", 4]


@with_folder
def train_refusals(programs, folder):
    """What a training cannot be made of is said before it, in one line."""
    model, data = line_data(programs, folder)
    (folder / "mute.txt").write_text(GRAPH.replace('  output "y" = %4\n', ""))
    (folder / "far.txt").write_text(GRAPH.replace('"add" : f32[4, 1]', '"add" : f32[4, 1] device=2147483647'))
    write_npy(folder / "one.npy", "f", [], [1])
    write_npy(folder / "none.npy", "f", [0, 1], [])
    only = ["--loss", "mse", "--batch", 4, "--target", folder / "one.npy"]
    for arguments, words, code in (
            ([folder / "mute.txt", *data], ["mute.txt", "no output"], 1),
            ([folder / "far.txt", *data, "--cut", "annotated"], ["device 2147483647", "--cut auto"], 1),
            ([model, *only, "--data", f"x={folder / 'x.npy'}"], ["one.npy", "one number"], 1),
            ([model, *only, "--data", f"x={folder / 'none.npy'}"], ["one.npy", "one number"], 1),
            ([model, *data, "--every", 2], ["--checkpoint"], 2),
            ([model, *data, "--every-seconds", 2], ["--checkpoint"], 2),
            ([model, *data, "--every-seconds", "nan", "--checkpoint", folder / "c"], ["a number, at least 0"], 2)):
        text = programs.run("sluice", "train", *arguments, code=code)
        check(all(word in text for word in words) and "InternalError" not in text and "Epoch" not in text, text)
        check(len([line for line in text.splitlines() if line.startswith("sluice: ")]) == (code == 1), text)


@with_folder
def unreadable_models(programs, folder):
    """What is no file, is empty or closed is one line, whichever command is given it."""
    data = line_data(programs, folder)[1]
    (folder / "folder.onnx").mkdir()
    for name in ("empty.onnx", "empty.txt", "closed.onnx"):
        (folder / name).write_bytes(b"")
    (folder / "closed.onnx").chmod(0)
    commands = {"inspect": [], "run": ["--input", f"x={folder / 'x.npy'}"], "train": data, "plan": ["--device", "sim@ipu2"],
                "convert": [folder / "out.txt"], "tune": []}
    models = {"folder.onnx": "it is a folder, expected a regular file", "empty.onnx": "0 bytes are no ONNX model",
              "empty.txt": "is no model: expected an ONNX file", "none.onnx": "No such file"}
    if os.geteuid() != 0:  # the superuser may read it
        models["closed.onnx"] = "Permission denied"
    for command, arguments in commands.items():
        for name, words in models.items():
            text = programs.run("sluice", command, folder / name, *arguments, code=1)
            check(text.startswith("sluice: FileError: ") and words in text and str(folder / name) in text, text)
            check(len(text.splitlines()) == 1, text)


@with_folder
def output_files(programs, folder):
    """Files that cannot be written, that are read, or that are named twice are found before the work."""
    model, data = line_data(programs, folder)
    given = ["--input", f"x={folder / 'x.npy'}"]
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    missing = folder / "missing"
    train = ["train", model, *data, "--checkpoint", folder / "run"]
    table = folder / "line.txt"
    for arguments, word, code in (
            ([*train, "-o", missing / "t.onnx"], "its folder cannot be written", 1),
            ([*train, "-o", missing / "t.safetensors"], "its folder cannot be written", 1),
            ([*train, "-o", model / "t.onnx"], "cannot write", 1),
            ([*train, "-o", folder / "." / "line.onnx"], "same file", 2),
            (["run", model, *given, "-o", missing / "y.npy"], "its folder cannot be written", 1),
            (["run", model, *given, "-o", folder / "x.npy"], "same file", 2),
            (["run", model, *given, "-o", folder / "a.npy", "-o", f"y={folder / 'b.npy'}"], "'y' is given twice", 2),
            (["plan", model, "--device", "sim@ipu2", "--svg", missing / "p.svg"], "its folder cannot be written", 1),
            (["plan", model, "--device", "sim@ipu2", "--svg", model], "same file", 2),
            (["tune", table, "-o", missing / "t.txt"], "its folder cannot be written", 1),
            (["tune", table, "-o", table], "same file", 2),
            (["calibrate", "-o", missing / "t.json"], "its folder cannot be written", 1),
            (["calibrate", table, "-o", table], "same file", 2),
            (["report", table, "-o", table], "same file", 2),
            (["convert", model, missing / "t.txt"], "its folder cannot be written", 1),
            # No input is given: that would be said once a step begins.
            (["run", EXECUTABLE, "-o", missing / "y.npy"], "its folder cannot be written", 1),
            (["run", EXECUTABLE, "-o", f"z={folder / 'y.npy'}"], "one of the outputs output0", 1),
            (["run", EXECUTABLE, "--save", missing / "net.slx"], "its folder cannot be written", 1)):
        text = programs.run("sluice", *arguments, code=code)
        check(word in text and "InternalError" not in text, text)
        for begun in ("Epoch", "measuring", "y f32", "Best plan"):
            check(begun not in text, f"it began to work: {text}")
        check({path: path.read_bytes() for path in folder.iterdir()} == kept, f"{arguments}: files have changed")
    two = GRAPH.replace('  output "y" = %4\n', '  output "y" = %4\n  output "z" = %3\n').replace("f32[4, 1]", "f32[32, 1]")
    (folder / "two.txt").write_text(two)
    text = programs.run("sluice", "run", folder / "two.txt", *given, "-o", f"y={folder / 'a.npy'}",
                        "-o", f"z={folder / '.' / 'a.npy'}", code=2)
    check("a.npy' is given twice" in text and not (folder / "a.npy").exists(), text)
    # A model that cannot be exported is not trained for a file of it.
    (folder / "state.txt").write_text(GRAPH.replace("  output", '  assign(%2) {var="b"}\n  output'))
    text = programs.run("sluice", "train", folder / "state.txt", *data, "-o", folder / "t.onnx", code=1)
    check("writes state" in text and "Epoch" not in text, text)


@with_folder
def resumed_training(programs, folder):
    """What a run that goes on takes from the command line, and what it refuses."""
    model, data = line_data(programs, folder)

    def train(name, *arguments, code=0):
        output = folder / f"{name}.safetensors"
        text = programs.run("sluice", "train", model, *data, *arguments, "-o", output, code=code)
        return read_safetensors(output) if code == 0 else text

    def checkpoints(name):
        return "--checkpoint", folder / name

    once = train("once", "--lr", 0.1, "--epochs", 1, *checkpoints("a"))
    for name in ("b", "c"):
        train("once", "--lr", 0.1, "--epochs", 1, *checkpoints(name))
    whole = train("whole", "--lr", 0.1, "--epochs", 2)
    check(train("given", "--lr", 0.1, "--epochs", 2, *checkpoints("a")) == whole, "other bits with the same rate")
    check(train("kept", "--epochs", 2, *checkpoints("b")) == whole, "the rate of the checkpoint is lost")
    check(train("still", "--lr", 1e-30, "--epochs", 2, *checkpoints("c")) == once, "another rate has no effect")
    train("every", "--epochs", 1, "--every", 5, *checkpoints("d"))
    max((folder / "d").iterdir()).unlink()  # that of the end of the epoch
    text = train("order", "--in-order", "--epochs", 3, *checkpoints("d"), code=1)
    check("in order" in text and "as the run had it" in text, text)


def target_of(programs, folder):
    """A simulated target that is the same for the whole test."""
    programs.run("sluice", "calibrate", "-o", folder / "target.json")
    return f"sim@{folder / 'target.json'}"


@with_folder
def plan_command(programs, folder):
    """Plans for inference and training: what fits, what does not, and what is wrong."""
    model, device = MODELS / "resnet.11.onnx", target_of(programs, folder)

    def plan(*arguments, code=0):
        return programs.run("sluice", "plan", model, "--device", device, *arguments, code=code)

    def as_json(*arguments, code=0):
        text = plan(*arguments, "--json", "--seconds", 100, code=code)
        return json.loads(text[text.index("{"):text.rindex("}") + 1])

    homeless = {key: value for key, value in os.environ.items() if key not in ("SLUICE_CACHE_DIR", "XDG_CACHE_HOME")}
    ended = subprocess.run([str(programs.folder / "sluice"), "plan", str(model), "--devices", "2"], check=False,
                           env=dict(homeless, HOME="/proc/none"), capture_output=True, text=True)
    check(ended.returncode == 1 and "SLUICE_CACHE_DIR" in ended.stderr, ended.stderr)
    report = as_json("--devices", 4)
    fitting = [each["seconds"] for each in report["tried"] if each["outcome"] == "fits"]
    check(report["complete"] and report["best"]["seconds"] == min(fitting), report)
    check(0 < report["boundSeconds"] <= min(fitting), report)
    check(as_json("--devices", 4) == report, "another answer the second time")
    training = as_json("--devices", 2, "--loss", "cross_entropy", "--optimizer", "sgd", "--micro-batches", 6)
    check(training["training"] and training["microBatches"] == 6, training)
    largest = max(each["bytes"] for each in training["best"]["devices"])
    check(as_json("--devices", 2, "--loss", "cross_entropy", "--optimizer", "sgd", "--micro-batches", 6,
                  "--memory", largest)["best"]["seconds"] == training["best"]["seconds"], "its own bytes do not fit")
    none = as_json("--devices", 2, "--memory", "1KiB", code=1)
    least = none["smallestBudget"]["bytes"]
    check(none["best"] is None and least > 1024, none)
    check(as_json("--devices", 2, "--memory", least)["best"]["plan"] is not None, "the smallest budget does not fit")
    check(as_json("--devices", 2, "--memory", least - 1, code=1)["smallestBudget"]["bytes"] == least, "less fits, too")
    alone = as_json("--devices", 4, "--no-replicas")
    check(all("replicas" not in each["plan"] for each in alone["tried"]), alone)
    check(any("replicas" in each["plan"] for each in report["tried"]), report)
    text = plan("--devices", 2, "--svg", folder / "plan.svg")
    for words in ("Best plan", "Memory", "device 0", "Plans that were tried", "options.setExecutionStrategy(",
                  "sluice.Options()"):
        check(words in text, f"no '{words}' in\n{text}")
    os.environ["SLUICE_CACHE_DIR"] = str(folder)  # the machine is measured there
    measured = programs.run("sluice", "plan", model, "--devices", 2, "--seconds", 100, "--run", "--memory", "1GiB")
    check(re.search(r"on this machine, the fastest of 5; it took [\d.]+ m?s of processor time", measured)
          or " us of processor time" in measured, measured)
    picture = (folder / "plan.svg").read_text()
    check(picture.startswith("<svg") and "device 0" in picture, picture)
    few = plan("--devices", 4, "--seconds", 0, code=1)
    check("Nothing was tried" in few and "time was up" in few and "0 B" not in few, few)
    (folder / "text.onnx").write_text("not a model")
    for arguments, word, code in ((("--devices", 0), "1 to 64", 2),
                                  (("--devices", 65), "1 to 64", 2),
                                  (("--memory", "lots"), "lots", 2),
                                  (("--memory", "-1"), "-1", 2),
                                  (("--memory", "99999999999999999999GiB"), "9999", 2),
                                  (("--seconds", "nan"), "nan", 2),
                                  (("--loss", "hinge"), "hinge", 2),
                                  (("--run",), "--run", 2),
                                  (("--dim", "M=4"), "M", 1),
                                  (("--svg", folder / "none" / "p.svg"), "p.svg", 1)):
        found = plan(*arguments, code=code)
        check(word in found and "InternalError" not in found, f"{arguments}: {found}")
    for file, where, word in ((folder / "text.onnx", device, "text.onnx"), (folder / "missing.onnx", device, "missing.onnx"),
                              (model, "sim@none.json", "none.json")):
        found = programs.run("sluice", "plan", file, "--device", where, code=1)
        check(word in found and "InternalError" not in found, found)
    real = programs.run("sluice", "plan", model, "--device", "cpu", code=2)
    check("plans are simulated" in real and "sim@measured" in real, real)
    ipu = programs.run("sluice", "plan", model, "--device", "sim@ipu2", "--memory", "1KiB", "--loss", "cross_entropy",
                       "--seconds", 100, code=1)
    check("no plan with phases is possible" in ipu and "phases are explicit" in ipu, ipu)
    again = programs.run("sluice", "plan", model, "--devices", 2, "--seconds", 100, "--run", "--device", "sim@measured")
    check("on this machine" in again, again)


PLAN_PROGRAM = """#include <cstdio>
#include "sluice/sluice.h"
using namespace sluice;
int main(int, char** argv) {
  Builder builder(onnx::importModel(argv[1]));
%s
  options.device(argv[2]);
  Model model = inferenceModel(builder, options);
  std::vector<TensorType> types;
  for (const auto id : builder.graph().inputs()) {
    types.push_back(builder.graph().op(id).outputs[0]);
  }
  model.compile(std::span<const TensorType>(types));
  std::printf("%%.17g\\n", model.simulateStep().seconds);
}
"""


@with_folder
def plan_lines(programs, folder):
    """The lines of C++ that a plan prints compile, and give the step that it predicts."""
    model, device = MODELS / "resnet.11.onnx", target_of(programs, folder)
    library = Path(os.environ["SLUICE_LIBRARY"])
    for memory in ("1GiB", None):
        arguments = ["sluice", "plan", model, "--device", device, "--devices", 3, "--json", "--seconds", 100]
        if memory is None:  # the smallest, which takes phases or state off chip
            text = programs.run(*arguments, "--memory", "1KiB", code=1)
            memory = json.loads(text[text.index("{"):text.rindex("}") + 1])["smallestBudget"]["bytes"]
        text = programs.run(*arguments, "--memory", memory)
        best = json.loads(text[text.index("{"):text.rindex("}") + 1])["best"]
        source = folder / "plan.cpp"
        source.write_text(PLAN_PROGRAM % "\n".join("  " + line for line in best["cpp"]))
        subprocess.run(["c++", "-std=c++20", "-O0", source, f"-I{ROOT}", library, "-lfmt", "-DFMT_SHARED",
                        f"-Wl,-rpath,{library.parent}", "-o", folder / "plan"], check=True)
        step = float(subprocess.run([folder / "plan", model, device], check=True, capture_output=True,
                                    text=True).stdout)
        check(step == best["seconds"], f"{step} s, but the plan says {best['seconds']}: {best['cpp']}")


@with_folder
def inspect_and_convert(programs, folder):
    model = line_model(programs, folder)
    text = programs.run("sluice", "inspect", model)
    check("input    x f32[4, 1]" in text and "output   y f32[4, 1]" in text, text)
    check(re.search(r"[\d.e-]+ GFLOP, [\d.e-]+ MiB read", text), text)
    programs.run("sluice", "convert", model, folder / "back.txt")
    check("mul(" in (folder / "back.txt").read_text(), "no text")
    for arguments, word in (((EXECUTABLE, "--passes"), "--passes"), ((EXECUTABLE, "--dim", "N=4"), "--dim"),
                            ((EXECUTABLE, "--program", "--device", "cpu"), "--device")):
        text = programs.run("sluice", "inspect", *arguments, code=2)
        check(word in text and "an executable has" in text, text)
    text = programs.run("sluice", "inspect", folder / "line.txt", "--dim", "N=4", code=2)
    check("--dim: is for ONNX models" in text, text)
    programs.run("sluice", "convert", model, folder / "w.safetensors")
    check(read_safetensors(folder / "w.safetensors")["w"] == ("F32", [1], [0.0]), "weights")
    text = programs.run("sluice", "inspect", folder / "w.safetensors")
    check("weights: 2 tensors" in text and "w f32[1]" in text, text)
    checkpoint = folder / "run"
    write_npy(folder / "x.npy", "f", [8, 1], range(8))
    programs.run("sluice", "train", model, "--data", f"x={folder / 'x.npy'}", "--target", folder / "x.npy",
                 "--loss", "mse", "--lr", 0.01, "--batch", 4, "--checkpoint", checkpoint)
    saved = sorted(checkpoint.glob("*.safetensors"))[-1]
    text = programs.run("sluice", "inspect", saved)
    check("checkpoint: " in text and "updates  2" in text and "AdamW" in text, text)
    programs.run("sluice", "convert", saved, folder / "plain.safetensors")
    plain = read_safetensors(folder / "plain.safetensors")
    check(set(plain) == {"w", "b"} and plain["w"][2][0] > 0, plain)
    programs.run("sluice", "convert", model, folder / "full.onnx", "--weights", saved)
    programs.run("sluice", "convert", folder / "full.onnx", folder / "again.safetensors")
    check(read_safetensors(folder / "again.safetensors") == plain, "weights are lost")
    # A checksum alone, which others write as well, makes no checkpoint.
    data = json.dumps({"__metadata__": {"checksum": "0"}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
    (folder / "other.safetensors").write_bytes(struct.pack("<Q", len(data)) + data.encode() + struct.pack("<f", 3))
    text = programs.run("sluice", "inspect", folder / "other.safetensors")
    check("weights: 1 tensors" in text and "checksum = 0" in text, text)
    programs.run("sluice", "convert", folder / "other.safetensors", folder / "mine.safetensors")
    check(read_safetensors(folder / "mine.safetensors")["w"] == ("F32", [1], [3.0]), "other weights")
    for arguments, word in ((["x.pdf"], ".onnx"), (["x.txt", "--weights", saved], "--weights"),
                            (["x.txt", "--exact"], "--exact")):
        text = programs.run("sluice", "convert", model, folder / arguments[0], *arguments[1:], code=2)
        check(word in text, text)
    text = programs.run("sluice", "convert", saved, folder / "x.onnx", code=2)
    check("--weights" in text, text)
    before = model.read_bytes(), (folder / "full.onnx").read_bytes()
    (folder / "link.onnx").symlink_to("full.onnx")
    (folder / "below").mkdir()
    for source, output in ((model, model), (model, folder / "below" / ".." / model.name),
                           (folder / "full.onnx", folder / "link.onnx"), (folder / "link.onnx", folder / "full.onnx")):
        text = programs.run("sluice", "convert", source, output, code=2)
        check("same file" in text, text)
    text = programs.run("sluice", "convert", model, saved, "--weights", saved, code=2)
    check("same file" in text, text)
    check(before == (model.read_bytes(), (folder / "full.onnx").read_bytes()), "the input is lost")
    text = programs.run("sluice", "convert", MODELS / "mnist.11.onnx", folder / "x.onnx", "--weights", saved, code=1)
    check("no such variable" in text, text)
    text = programs.run("sluice", "inspect", saved, "--text", code=2)
    check("no graph" in text, text)
    saved.write_bytes(saved.read_bytes()[:-1])
    check("InternalError" not in programs.run("sluice", "inspect", saved, code=1), "cut off")


def on_terminal(command, **environment):
    """What a program writes to a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env={**os.environ, **environment})
    os.close(follower)
    text = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    process.wait()
    os.close(leader)
    return text.decode()


def plan_interrupted(programs):
    """Ctrl-C ends a long search, whose line says so, and the best plan so far is printed."""
    command = [str(programs.folder / "sluice"), "plan", str(MODELS / "resnet.11.onnx"), "--device", "sim@ipu2",
               "--devices", "64", "--micro-batches", "64", "--loss", "cross_entropy", "--exhaustive",
               "--seconds", "100000"]
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, text=True)
    os.close(follower)
    shown = b""
    while b"planning:" not in shown:
        shown += os.read(leader, 65536)
    check(b"Ctrl-C" in shown, shown)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=300)[0]
    erased = os.read(leader, 65536)
    check(erased.endswith(b"\r\x1b[K"), erased)
    os.close(leader)
    check(process.returncode == 130, f"exit code {process.returncode}\n{text}")
    for words in ("Best plan", "interrupted before all were tried", "options.setExecutionStrategy("):
        check(words in text, f"no '{words}' in\n{text}")
    piped = subprocess.run([*command[:-1], "3"], capture_output=True, text=True)
    check(piped.stderr == "" and "time was up" in piped.stdout, piped.stderr)


@with_folder
def colours_and_completion(programs, folder):
    command = [str(programs.folder / "sluice"), "inspect", str(folder / "none.onnx")]
    check("\x1b[" in on_terminal(command, TERM="xterm", NO_COLOR=""), "no colour on a terminal")
    check("\x1b[" not in on_terminal(command, TERM="xterm", NO_COLOR="1"), "colour in spite of NO_COLOR")
    check("\x1b[" not in on_terminal(command, TERM="dumb", NO_COLOR=""), "colour on a dumb terminal")
    check("\x1b[" not in programs.run("sluice", *command[1:], code=1), "colour in a pipe")
    chart = [command[0], "schedule", "--stages", "2", "--micro-batches", "4"]
    drawn = on_terminal(chart, TERM="xterm", NO_COLOR="")
    check("\x1b[34mF0" in drawn and "\x1b[33mB0" in drawn, drawn)
    plain = on_terminal(chart, TERM="xterm", NO_COLOR="1")
    check(re.sub("\x1b\\[[0-9;]*m", "", drawn) == plain, "colours change the text")
    script = folder / "completion.bash"
    script.write_text(programs.run("sluice", "completion", "bash"))

    def offered(*words):
        line = " ".join(words)
        answer = subprocess.run(
            ["bash", "-c", f"source {script}; COMP_WORDS=(sluice {line}); COMP_CWORD={len(words)}; "
             "[ \"${#COMP_WORDS[@]}\" -gt $COMP_CWORD ] || COMP_WORDS+=(''); _sluice; echo ${COMPREPLY[@]}"],
            capture_output=True, text=True, check=True)
        return answer.stdout.split()

    check(offered("ins") == ["inspect"], offered("ins"))
    check(offered("train", "--lo") == ["--loss"], offered("train", "--lo"))
    check({"run", "train", "inspect", "convert"} <= set(offered("''")), offered("''"))
    check("launch-rank" not in offered("''"), "a hidden command is offered")
    check(offered("cache", "''") == ["list", "verify", "clear", "size"], offered("cache", "''"))
    check(offered("cache", "verify", "--fo") == ["--folder"], offered("cache", "verify", "--fo"))
    (folder / "two words.onnx").write_text("")
    spaced = subprocess.run(["bash", "-c", f"source {script}; COMP_WORDS=(sluice inspect {folder}/two); COMP_CWORD=2; "
                             "_sluice; printf '%s\\n' \"${COMPREPLY[@]}\""], capture_output=True, text=True, check=True)
    check(spaced.stdout == f"{folder}/two words.onnx\n", spaced.stdout)
    zsh = programs.run("sluice", "completion", "zsh")
    check(zsh.startswith("#compdef sluice") and "'--loss'" in zsh, zsh)
    check("3:cache) compadd -- list verify clear size ;;" in zsh, zsh)
    programs.run("sluice", "completion", "fish", code=2)


if __name__ == "__main__":
    globals()[sys.argv[1]](Programs(sys.argv[2]))
