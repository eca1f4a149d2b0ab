"""Runs one workload on one side and prints one JSON line: the times of its calls and its first loss.

    side.py sluice|torch|onnxruntime <workload> <threads> <setting> [--seed N] [--seconds S]
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import torch
import workloads

# The package of npm, which `./dev bench table` fetches where Python has no ONNX Runtime.
NODE_PACKAGE = HERE.parent.parent / "build" / "onnxruntime" / "node_modules" / "onnxruntime-node"

SETTINGS = {
    "sluice": ["plain"],
    "onnxruntime": ["plain"],
    "torch": ["eager", "channels_last", "foreach", "frozen", "compiled"],
}


def has_onnxruntime():
    return importlib.util.find_spec("onnxruntime") is not None


def settings(side, workload):
    """The settings of a side that make sense for a workload."""
    names = list(SETTINGS[side])
    if side == "onnxruntime" and not has_onnxruntime() and not NODE_PACKAGE.exists():
        return []
    if side == "torch":
        names = [name for name in names if
                 name == "eager"
                 or (name == "channels_last" and workload.images)
                 or (name == "foreach" and workload.trains)
                 or (name == "frozen" and not workload.trains)
                 or (name == "compiled" and hasattr(torch, "compile"))]
    return names


def sluice_call(workload, module, inputs, threads):
    import sluice

    options = sluice.Options().threads(threads).showCompilationProgressBar(False)
    options.outputMode(sluice.OutputMode.All)
    if not workload.trains:
        options.deviceIterations(workload.micro_batches)
        model = sluice.inferenceModel(module, options)
        return lambda: model(*inputs)
    options.Training.gradientAccumulation(workload.micro_batches)
    if workload.stages:
        for number, name in enumerate(workload.stages):
            sluice.BeginBlock(module.get_submodule(name), ipu_id=number + 1)
        options.setExecutionStrategy(sluice.PipelinedExecution(sluice.AutoStage.AutoIncrement))
    model = sluice.trainingModel(module, options, workload.optimizer(module.parameters()))
    return lambda: model(*inputs)


def torch_call(workload, module, inputs, setting):
    if setting == "channels_last":
        module = module.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    chunks = [[x.contiguous() if setting != "channels_last" else x for x in chunk]
              for chunk in zip(*(x.chunk(workload.micro_batches) for x in inputs))]
    run = module
    if setting == "compiled":
        run = torch.compile(module)
    if not workload.trains:
        if setting == "frozen":
            with torch.no_grad():
                run = torch.jit.optimize_for_inference(torch.jit.trace(module, chunks[0]))

        def infer():
            with torch.inference_mode():
                return [run(*chunk) for chunk in chunks]

        return infer
    optimizer = workload.optimizer(module.parameters(), **({"foreach": True} if setting == "foreach" else {}))

    def train():
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for chunk in chunks:
            loss = run(*chunk) / len(chunks)
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return train


def export(module, inputs, file):
    torch.onnx.export(module, tuple(inputs), file, input_names=["x"], **(
        {"dynamo": False} if torch.__version__ >= "2.5" else {}))


def time_in_node(module, inputs, threads, seconds):
    """The line that onnxruntime.mjs prints."""
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder) / "model.onnx", Path(folder) / "x.f32"
        export(module, inputs, str(model))
        data.write_bytes(inputs[0].numpy().tobytes())
        shape = "x".join(str(extent) for extent in inputs[0].shape)
        return subprocess.run(["node", str(HERE / "onnxruntime.mjs"), str(NODE_PACKAGE), str(model), str(data), shape,
                               str(threads), str(seconds)], stdout=subprocess.PIPE, text=True, check=True).stdout


def onnxruntime_call(module, inputs, threads):
    import io

    import onnxruntime

    file = io.BytesIO()
    export(module, inputs, file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": inputs[0].numpy()}
    return lambda: session.run(None, feeds)


def first_value(result):
    """The mean of a loss, or of the absolute values of outputs: both sides must agree on it."""
    if isinstance(result, float):
        return result
    parts = result if isinstance(result, (list, tuple)) else [result]
    return float(torch.cat([torch.as_tensor(part).detach().float().abs().flatten() for part in parts]).mean())


def timed(call, seconds):
    """Times of single calls: at least 5 after two to warm up, for about so many seconds."""
    call(), call()
    times, start = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - start < seconds and len(times) < 1000):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=SETTINGS)
    parser.add_argument("workload")
    parser.add_argument("threads", type=int)
    parser.add_argument("setting")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    workload = workloads.find(arguments.workload, arguments.seed)
    module, inputs = workload.module(), workload.inputs()
    if workload.trains:
        module.train()
    if arguments.side == "onnxruntime" and not has_onnxruntime():
        print(time_in_node(module, inputs, arguments.threads, arguments.seconds).splitlines()[-1])
        return
    call = {
        "sluice": lambda: sluice_call(workload, module, inputs, arguments.threads),
        "torch": lambda: torch_call(workload, module, inputs, arguments.setting),
        "onnxruntime": lambda: onnxruntime_call(module, inputs, arguments.threads),
    }[arguments.side]()
    begin = time.perf_counter()
    value = first_value(call())
    first = time.perf_counter() - begin
    times = sorted(timed(call, arguments.seconds))
    print(json.dumps({
        "ms": 1e3 * times[len(times) // 2],
        "low": 1e3 * times[len(times) // 10],
        "high": 1e3 * times[9 * len(times) // 10],
        "calls": len(times),
        "value": value,
        "first_s": first,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


if __name__ == "__main__":
    main()
