"""Runs models that Sluice exported with ONNX Runtime and compares their outputs.

    build/release/tools/onnx_write_exports FOLDER --models tests/onnx/models
    run_exports.py FOLDER [--only TEXT] [--reference] [--at-least N]

FOLDER has a folder for each model: model.onnx, test_data_set_0/input_0.pb, output_0.pb ... as the
standard's own cases. Every file of data is a TensorProto. A line for each model that does not
agree, then the counts. Models that the runtime has no kernels for are counted by themselves and
named with --verbose: the standard allows them. --reference runs them with onnx.reference (from onnx
1.13 on) instead. Exit status 1: a model disagrees or is refused, or fewer than N agree; 77: there is
no runtime. Needs numpy and onnxruntime, or numpy and onnx.
"""
import argparse
import sys
from pathlib import Path

import numpy as np

# Element types of TensorProto that numpy has.
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32,
          7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64}
# Relative to max(1, |expected|); sums of a few dozen float32 terms in another order.
TOLERANCE = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-6}


def varint(data, at):
    """The number that begins at `at`, and where the next field begins."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def read_tensor(path):
    """(name, array) of a TensorProto with raw data, as Sluice writes them."""
    data, at = path.read_bytes(), 0
    dims, dtype, name, raw = [], 0, "", b""
    while at < len(data):
        key, at = varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
            if field == 1:
                dims.append(value)
            elif field == 2:
                dtype = value
        elif kind == 2:
            length, at = varint(data, at)
            part, at = data[at:at + length], at + length
            if field == 1:  # packed
                inner = 0
                while inner < len(part):
                    value, inner = varint(part, inner)
                    dims.append(value)
            elif field == 8:
                name = part.decode()
            elif field == 9:
                raw = part
        else:
            raise ValueError(f"{path}: field {field} of kind {kind}")
    if dtype not in DTYPES:
        raise ValueError(f"{path}: element type {dtype}")
    return name, np.frombuffer(raw, DTYPES[dtype]).reshape(dims)


def read_data(folder, kind):
    """The tensors <kind>_0.pb, <kind>_1.pb ... in order."""
    tensors = []
    while (path := folder / f"{kind}_{len(tensors)}.pb").exists():
        tensors.append(read_tensor(path))
    return tensors


def difference(found, expected):
    """What is wrong with an output; empty if nothing is."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if expected.dtype not in TOLERANCE:
        return "" if np.array_equal(found, expected) else "other numbers"
    wide, wanted = found.astype(np.float64), expected.astype(np.float64)
    same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        apart = np.abs(wide - wanted) / np.maximum(1.0, np.abs(wanted))
    apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
    worst = float(apart.max(initial=0.0))
    return "" if worst <= TOLERANCE[expected.dtype] else f"differs by {worst:.3g}"


def runtime_runner():
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4

    def run(path, inputs):
        session = onnxruntime.InferenceSession(str(path), options,
                                               providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
    return f"onnxruntime {onnxruntime.__version__}", run


def reference_runner():
    import onnx
    from onnx.reference import ReferenceEvaluator

    def run(path, inputs):
        return ReferenceEvaluator(str(path)).run(None, inputs)
    return f"onnx.reference of onnx {onnx.__version__}", run


def lacks_kernel(error):
    """Whether the runtime says that it has no implementation, which is no fault of the model."""
    text = f"{type(error).__name__} {error}"
    return any(words in text for words in ("NotImplemented", "NOT_IMPLEMENTED",
                                           "Could not find an implementation",
                                           "RuntimeImplementationError"))


def compare(folder, run):
    data = folder / "test_data_set_0"
    outputs = run(folder / "model.onnx", dict(read_data(data, "input")))
    expected = read_data(data, "output")
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, expected {len(expected)}"
    wrong = [f"{name}: {text}" for found, (name, wanted) in zip(outputs, expected)
             if (text := difference(np.asarray(found), wanted))]
    return "; ".join(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--reference", action="store_true", help="run onnx.reference")
    parser.add_argument("--verbose", action="store_true", help="a line for every model")
    parser.add_argument("--at-least", type=int, default=1, help="fail unless so many agree")
    settings = parser.parse_args()
    try:
        name, run = reference_runner() if settings.reference else runtime_runner()
    except ImportError as error:
        print(f"no runtime: {error}", file=sys.stderr)
        return 77
    counts = {"agree": 0, "without kernels": 0, "wrong": 0}
    for model in sorted(settings.folder.glob("*/model.onnx")):
        case = model.parent.name
        if settings.only not in case:
            continue
        verdict, text = "agree", ""
        try:
            text = compare(model.parent, run)
            verdict = "wrong" if text else "agree"
        except Exception as error:  # whatever the runtime throws
            verdict = "without kernels" if lacks_kernel(error) else "wrong"
            text = f"{type(error).__name__}: {error}"
        counts[verdict] += 1
        if verdict == "wrong" or settings.verbose:
            print(f"{verdict} {case}{': ' if text else ''}{text}")
    print(f"{name}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 0 if counts["wrong"] == 0 and counts["agree"] >= settings.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
