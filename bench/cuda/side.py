"""Runs one row on one side and prints one JSON line.

    side.py sluice|eager|graph|compile|compile-graph|limit <row> [--seconds S] [--hash | --profile]

`limit` measures what a streamed row cannot be faster than: the copies of its weights, and its products.
"""

import argparse
import contextlib
import hashlib
import json
import time

import rows
import torch


def autocast(row, device):
    return torch.autocast(device, dtype=torch.bfloat16) if row.half else contextlib.nullcontext()


def sluice_model(row, module):
    import sluice

    options = sluice.Options().showCompilationProgressBar(False).device(row.device).randomSeed(1)
    options.outputMode(sluice.OutputMode.All)
    for number, name in enumerate(row.stages):
        where = {"user_id": name} if row.streamed else {"ipu_id": number + 1}
        sluice.BeginBlock(module.get_submodule(name), **where)
    if row.streamed:
        options.setExecutionStrategy(sluice.SerialPhasedExecution(*row.stages))
        options.TensorLocations.setActivationLocation(sluice.TensorLocationSettings().useOnChipStorage(True))
    elif row.stages:
        options.setExecutionStrategy(sluice.PipelinedExecution(sluice.AutoStage.AutoIncrement))
    if not row.trains:
        options.deviceIterations(row.micro_batches)
        return sluice.inferenceModel(module, options)
    options.Training.gradientAccumulation(row.micro_batches)
    options.deviceIterations(row.updates)
    return sluice.trainingModel(module, options, row.optimizer(module.parameters()))


def sluice_side(row, arguments):
    module, inputs = row.module(), row.inputs()
    if row.updates > 1:
        inputs = [torch.cat([x] * row.updates) for x in inputs]
    model = sluice_model(row, module)
    begin = time.perf_counter()
    with autocast(row, "cpu"):
        result = model(*inputs)
        first = time.perf_counter() - begin
        of_first = result[:row.micro_batches] if row.updates > 1 else result
        out = {"first_s": first, "value": value_of(of_first)}
        if arguments.hash:
            for _ in range(2):
                result = model(*inputs)
            return dict(out, hash=hash_of(module, model, result, row))
        if arguments.profile:
            return dict(out, kernels=kernels_of(lambda: model(*inputs)))
        times = timed(lambda: model(*inputs), arguments.seconds, lambda: None)
    return dict(out, ms=times / row.updates)


def hash_of(module, model, result, row):
    """Of the last results and, after training, of every parameter and buffer."""
    digest = hashlib.sha256()
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    if row.trains:
        model.copyWeightsToHost()
        parts += list(module.state_dict().values())
    for part in parts:
        digest.update(torch.as_tensor(part).detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()[:16]


def value_of(result):
    """The mean of a loss, or of the absolute values of outputs: the sides must agree on it."""
    parts = result if isinstance(result, (list, tuple)) else [result]
    return float(torch.cat([torch.as_tensor(part).detach().float().abs().flatten().cpu() for part in parts]).mean())


def kernels_of(call):
    """Microseconds and launches of the GPU's work in one call, by kernel, the longest first."""
    call(), call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
    found = {e.key: (e.self_device_time_total, e.count) for e in profile.key_averages()}
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    total = sum(time for time, _ in found.values())
    return {"all": (total, sum(count for _, count in found.values())), **{k[:90]: v for k, v in ordered[:40]}}


def timed(call, seconds, settle):
    """Milliseconds of one call: the best of three runs of calls that are not waited for one by one."""
    call(), call()
    settle()
    begin = time.perf_counter()
    call()
    settle()
    once = max(time.perf_counter() - begin, 1e-6)
    count = max(1, int(seconds / 3 / once))
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        settle()
        best = min(best, (time.perf_counter() - begin) / count)
    return 1e3 * best


def torch_side(row, arguments):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    module = row.module().cuda()
    inputs = [x.cuda() for x in row.inputs()]
    if row.images and row.half:
        module = module.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    chunks = [list(chunk) for chunk in zip(*(x.chunk(row.micro_batches) for x in inputs))]
    run = module
    if arguments.side.startswith("compile"):
        run = torch.compile(module, **({"mode": "reduce-overhead"} if arguments.side == "compile-graph" else {}))
    begin = time.perf_counter()
    call = training_call(row, arguments, module, run, chunks) if row.trains else inference_call(row, run, chunks)
    value = value_of(call())
    first = time.perf_counter() - begin
    if arguments.side == "graph":
        call = captured(call)
    times = timed(call, arguments.seconds, torch.cuda.synchronize)
    return {"first_s": first, "value": value, "ms": times, "gpu_mib": torch.cuda.max_memory_reserved() / 2 ** 20}


def training_call(row, arguments, module, run, chunks):
    options = {"capturable": True} if arguments.side == "graph" and row.optimizer is rows.workloads.adamw else {}
    if row.optimizer is rows.workloads.adamw and arguments.side != "graph":
        options = {"fused": True}
    optimizer = row.optimizer(module.parameters(), **options)

    def call():
        optimizer.zero_grad(set_to_none=False if arguments.side == "graph" else True)
        total = 0
        for chunk in chunks:
            with autocast(row, "cuda"):
                loss = run(*chunk) / len(chunks)
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return call


def inference_call(row, run, chunks):
    def call():
        with torch.no_grad(), autocast(row, "cuda"):
            return [run(*chunk) for chunk in chunks]

    return call


def captured(call):
    """The call as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(), call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def limit_side(row, arguments):
    """The longer of moving weights and state and of computing, in milliseconds of a call, each alone. Training reads
    the weights in both passes and Adam's two moments once, and writes all three while it reads."""
    torch.backends.cuda.matmul.allow_tf32 = False
    module, inputs = row.module(), [x.cuda() for x in row.inputs()]
    weights = [p.detach().contiguous().pin_memory() for p in module.parameters()]
    room, out = torch.empty_like(weights[0], device="cuda"), torch.cuda.Stream()
    reads, writes = (4, 3) if row.trains else (1, 0)

    def copy():
        out.wait_stream(torch.cuda.current_stream())
        for weight in weights:
            for _ in range(reads):
                room.copy_(weight, non_blocking=True)
            with torch.cuda.stream(out):
                for _ in range(writes):
                    weight.copy_(room, non_blocking=True)
        torch.cuda.current_stream().wait_stream(out)

    copies = timed(copy, arguments.seconds, torch.cuda.synchronize)
    module = module.cuda()

    def compute():
        with torch.set_grad_enabled(row.trains), autocast(row, "cuda"):
            result = module(*inputs)
        if row.trains:
            module.zero_grad(set_to_none=True)
            result.backward()

    products = timed(compute if row.trains else captured(compute), arguments.seconds, torch.cuda.synchronize)
    return {"copies_ms": copies, "products_ms": products, "ms": max(copies, products)}


def double_buffer_side(row, arguments):
    """A hand-written peer: two rooms on the GPU, a stream that copies and one that computes."""
    torch.backends.cuda.matmul.allow_tf32 = False
    module, inputs = row.module(), [x.cuda() for x in row.inputs()]
    weights = [p.detach().contiguous().pin_memory() for p in module.parameters()]
    room = [torch.empty_like(weights[0], device="cuda") for _ in range(2)]
    side, free = torch.cuda.Stream(), [torch.cuda.Event(), torch.cuda.Event()]
    here = [torch.cuda.Event(), torch.cuda.Event()]
    for event in free:
        event.record()

    def call():
        with torch.no_grad():
            x = module.layers[0][0](inputs[0])
            for i, weight in enumerate(weights):
                with torch.cuda.stream(side):
                    side.wait_event(free[i % 2])
                    room[i % 2].copy_(weight, non_blocking=True)
                    here[i % 2].record(side)
                torch.cuda.current_stream().wait_event(here[i % 2])
                x = torch.relu(x @ room[i % 2].t())
                free[i % 2].record()
        return x.mean(0)

    value = value_of(call())
    return {"value": value, "ms": timed(call, arguments.seconds, torch.cuda.synchronize)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["sluice", "eager", "graph", "compile", "compile-graph", "limit", "buffers"])
    parser.add_argument("row", choices=rows.ROWS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--hash", action="store_true")
    parser.add_argument("--profile", action="store_true", help="kernels instead of times, of Sluice")
    parser.add_argument("--device", help="instead of the row's")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    row = rows.ROWS[arguments.row]
    row.device = arguments.device or row.device
    run = {"sluice": sluice_side, "limit": limit_side, "buffers": double_buffer_side}.get(arguments.side, torch_side)
    print(json.dumps(run(row, arguments)))


if __name__ == "__main__":
    main()
