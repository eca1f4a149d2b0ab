"""The loader of bench_data in PyTorch: one worker, shuffled, pixels to normalised floats.

    data_torch.py loader
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import torch_timing

torch = torch_timing.import_torch()
from torch.utils.data import DataLoader, Dataset

BATCH = 40
PER_CALL = 100


class Images(Dataset):
    """What a dataset of images with toTensor and normalize does per sample."""

    def __init__(self):
        self.pixels = torch.randint(0, 256, (60000, 28, 28), dtype=torch.uint8)
        self.labels = torch.randint(0, 10, (60000,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.pixels[i].unsqueeze(0).to(torch.float32).div_(255)
        return image.sub_(0.1307).div_(0.3081), self.labels[i]


def endless(loader):
    while True:
        yield from loader


batches = endless(DataLoader(Images(), batch_size=BATCH, shuffle=True, num_workers=1,
                             drop_last=True, persistent_workers=True))


def call():
    for _ in range(PER_CALL):
        next(batches)


torch_timing.report(call, PER_CALL, 1, 8)
