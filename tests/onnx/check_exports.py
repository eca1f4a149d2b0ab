"""Checks models that Sluice exported with ONNX's own Python package.

    build/release/tools/onnx_write_exports FOLDER --models tests/onnx/models
    check_exports.py FOLDER [--at-least N]

Every FOLDER/*/model.onnx must pass the full check, which includes the inference of types and shapes,
and have no node outside of the standard's domains. A line for each that does not. Exit status 1: a
model is refused, or fewer than N are accepted. Needs Debian's python3-onnx.
"""
import argparse
import sys
from pathlib import Path

import onnx
from onnx import shape_inference

STANDARD = {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"}


def problem(path):
    """What is wrong with the model; empty if nothing is."""
    model = onnx.load(str(path))
    foreign = sorted({f"{node.domain}.{node.op_type}" for node in model.graph.node
                      if node.domain not in STANDARD})
    if foreign:
        return "ops outside of the standard: " + ", ".join(foreign)
    foreign = sorted({opset.domain for opset in model.opset_import} - STANDARD)
    if foreign:
        return "domains outside of the standard: " + ", ".join(foreign)
    try:
        onnx.checker.check_model(model, full_check=True)
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at-least", type=int, default=1, help="fail unless so many are accepted")
    settings = parser.parse_args()
    accepted = refused = 0
    for path in sorted(settings.folder.glob("*/model.onnx")):
        text = problem(path)
        accepted, refused = accepted + (not text), refused + bool(text)
        if text:
            print(f"{path.parent.name}: {text}")
    print(f"onnx {onnx.__version__}: {accepted} models accepted, {refused} refused")
    return 0 if refused == 0 and accepted >= settings.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
