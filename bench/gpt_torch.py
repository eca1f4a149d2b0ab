"""The GPT of bench_gpt in PyTorch.

    gpt_torch.py matmul|module single|foreach <width> <layers> <steps>
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import torch_timing

torch = torch_timing.import_torch()
F = torch.nn.functional

WIDTH, LAYERS, STEPS = (int(text) for text in sys.argv[3:6])
VOCABULARY, CONTEXT, HEADS, BATCH = 128, 64, 4, 16
MASK = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)


class MatMulAttention(torch.nn.Module):
    """Two batched products that take mask and scale along."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        size = WIDTH // HEADS
        heads = self.qkv(x).view(BATCH, CONTEXT, 3, HEADS, size).permute(2, 0, 3, 1, 4)
        q, k, v = heads.reshape(3, BATCH * HEADS, CONTEXT, size).unbind(0)
        scores = torch.baddbmm(MASK, q, k.transpose(1, 2), alpha=size ** -0.5)
        mixed = torch.bmm(scores.softmax(-1), v).view(BATCH, HEADS, CONTEXT, size)
        return self.out(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))


class ModuleAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, attn_mask=MASK, need_weights=False)[0]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.attention = MatMulAttention() if sys.argv[1] == "matmul" else ModuleAttention()
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.positions = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.positions.weight)))


net = Gpt()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=sys.argv[2] == "foreach")
inputs = torch.randint(0, VOCABULARY, (BATCH, CONTEXT))
targets = torch.randint(0, VOCABULARY, (BATCH, CONTEXT))


def step():
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(net(inputs).view(-1, VOCABULARY), targets.view(-1)).backward()
    optimizer.step()


torch_timing.report(step, 1, max(3, STEPS // 10), STEPS)
