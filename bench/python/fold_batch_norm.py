"""One image of 224 pixels through networks of torchvision, on one thread: as wrapped, with constantWeights, and with
foldBatchNorm as well. The three take turns, since other programs may share the machine. Prints medians in ms, and
the median over rounds of what the first takes over what the others take.

    ./dev python bench/python/fold_batch_norm.py [rounds [network...]]
"""

import copy
import statistics
import sys
import time

import torch
import torchvision

import sluice

CALLS = 3  # per round and model


def models_of(net):
    for constant, fold in ((False, False), (True, False), (True, True)):
        options = sluice.Options().threads(1).constantWeights(constant).foldBatchNorm(fold)
        yield sluice.inferenceModel(copy.deepcopy(net), options)


def median_call(model, image):
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        model(image)
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for name in sys.argv[2:] or ["resnet18", "mobilenet_v2"]:
        image = torch.randn(1, 3, 224, 224)
        models = list(models_of(getattr(torchvision.models, name)().eval()))
        for model in models:
            model(image)
        times = [[median_call(model, image) for model in models] for _ in range(rounds)]
        for i, kind in enumerate(("as wrapped", "constantWeights", "foldBatchNorm")):
            ratio = statistics.median(each[0] / each[i] for each in times)
            print(f"{name:14} {kind:16} {statistics.median(each[i] for each in times):6.2f} ms  {ratio:.3f}")


if __name__ == "__main__":
    main()
