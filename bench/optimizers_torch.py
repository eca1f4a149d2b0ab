"""The AdamW update of bench_optimizers in PyTorch.

    optimizers_torch.py foreach|single
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import torch_timing

torch = torch_timing.import_torch()

weights = [torch.ones(1000, 1000, requires_grad=True) for _ in range(10)]
for weight in weights:
    weight.grad = torch.full_like(weight, 0.5)
optimizer = torch.optim.AdamW(weights, lr=1e-3, foreach=sys.argv[1] == "foreach")

torch_timing.report(optimizer.step, 1, 5, 30)
