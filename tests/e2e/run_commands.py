"""The command line on small files, what all programs have in common, and signals."""
import json
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from programs import ROOT, check
from run_mnist import write_digits

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
    check("did you mean 'plan'?" in programs.run("sluice", "plna", code=2), "letters that changed places")
    text = programs.run("sluice", "launch", "-n", 2, "--nodes", 3, "true", code=2)
    check("unknown option '--nodes'" in text, text)
    for seconds in ("nan", "inf", "0", "2000000"):
        text = programs.run("sluice", "launch", "--dry-run", "--timeout", seconds, "true", code=2)
        check("a number, at least 0.1 and at most 1000000" in text, text)
    check("unknown option '-x'" in programs.run("sluice", "launch", "-n2", "-x", "A", "true", code=2), "of mpirun")
    command = programs.run("sluice", "launch", "--dry-run", "-n", 2, "true", "--", "-n", 3)
    check(command.endswith("launch-rank true -- -n 3\n"), command)
    command = programs.run("sluice", "launch", "--dry-run", "-n2", "--timeout=9", "--", "true", "--", "-n", 3)
    check(command.endswith("launch-rank true -- -n 3\n"), command)
    text = programs.run("sluice", "qqqqqqqqqqqq", code=2)
    check("did you mean" not in text and "bench-data" in text, text)
    check(re.fullmatch(r"sluice \d+\.\d+\.\d+\n", programs.run("sluice", "--version")), "--version")
    for command in ("ops", "version", "--help"):
        with open("/dev/full", "w", encoding="utf-8") as full:
            lost = subprocess.run([programs.folder / "sluice", command], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False)
        check(lost.returncode == 1 and "No space left" in lost.stderr, lost)
    with open("/dev/full", "w", encoding="utf-8") as full:  # a rank's line is written long before the end
        lost = subprocess.run([programs.folder / "sluice", "launch", "-n", "1", "echo", "x"], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    check(lost.returncode == 1 and "closed or full" in lost.stderr, lost)
    programs.run("sluice", "inspect", code=2)
    check("launch-rank" not in text, text)
    text = programs.run("sluice", "ops", "--unknown", code=2)
    check("unknown option '--unknown'" in text and "did you mean" not in text, text)
    text = programs.run("sluice", "inspect", "graph.txt", "--dims", "N=4", code=2)
    check("unknown option '--dims', did you mean '--dim'?" in text, text)
    text = programs.run("sluice", "ops", "matmul", code=2)
    check("unexpected argument 'matmul'" in text, text)
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
    check("none.slt" in programs.run("sluice", "diff", folder / "none.slt", target, code=2), "diff")
    text = programs.run("sluice", "diff", "a.slt", "b.slt", "--absolute", "nan", code=2)
    check("--absolute" in text and "none" not in text, text)


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
    source = folder / "source.cpp"
    source.write_text("// a comment\n#include <cstdio>\n")
    check("is no model" in programs.run("sluice", "inspect", source, code=1), "source")
    path.write_text("  // a comment\n\n" + GRAPH)
    check(programs.run("sluice", "inspect", path) == summary, "comment")
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
