"""MultiheadAttention in all the forms of its arguments is trained as by eager torch."""

import unittest

import network_comparison
import torch
import torch.nn as nn
from captured_networks import labels, normal

SIZE, HEADS, BATCH, TARGET, SOURCE = 8, 2, 3, 5, 6


def float_mask(*shape):
    return normal(*shape)


def bool_mask(*shape):
    """True where attention may not go; never a whole row."""
    mask = normal(*shape) > 0.3
    mask[..., 0] = False
    return mask


def padding(dtype=torch.bool):
    """The second sequence has four keys, the third five."""
    mask = torch.arange(SOURCE)[None] >= torch.tensor([SOURCE, 4, 5])[:, None]
    if dtype is torch.bool:
        return mask
    return torch.zeros(mask.shape).masked_fill(mask, float("-inf"))


# Name -> arguments of the constructor, and of the call. Every form is tried with weights and without.
FORMS = {
    "plain": ({}, {}),
    "batch_first": ({"batch_first": True}, {}),
    "no_bias": ({"bias": False}, {}),
    "kdim_vdim": ({"kdim": 4, "vdim": 7}, {}),
    "kdim": ({"kdim": 4, "bias": False}, {}),
    "bool_mask": ({}, {"attn_mask": bool_mask(TARGET, SOURCE)}),
    "float_mask": ({}, {"attn_mask": float_mask(TARGET, SOURCE)}),
    "bool_masks": ({}, {"attn_mask": bool_mask(BATCH * HEADS, TARGET, SOURCE)}),
    "float_masks": ({}, {"attn_mask": float_mask(BATCH * HEADS, TARGET, SOURCE)}),
    "padding": ({}, {"key_padding_mask": padding()}),
    "padding_batch_first": ({"batch_first": True}, {"key_padding_mask": padding()}),
    "both_masks": (
        {}, {"attn_mask": bool_mask(TARGET, SOURCE), "key_padding_mask": padding()}),
    "both_float": (
        {}, {"attn_mask": float_mask(TARGET, SOURCE), "key_padding_mask": padding(torch.float)}),
    "bias_kv": ({"add_bias_kv": True}, {}),
    "zero_attn": ({"add_zero_attn": True}, {}),
    "all_added": (
        {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
        {"attn_mask": bool_mask(TARGET, SOURCE), "key_padding_mask": padding()}),
    "all_added_float": (
        {"add_bias_kv": True, "add_zero_attn": True, "kdim": 4, "vdim": 7},
        {"attn_mask": float_mask(TARGET, SOURCE)}),
}
RESULTS = {
    "average": {},
    "each_head": {"average_attn_weights": False},
    "without": {"need_weights": False},
}


class Form(nn.Module):
    """One form of attention, on keys and values of its own sizes."""

    def __init__(self, name):
        super().__init__()
        made, self.call = FORMS[name]
        self.attention = nn.MultiheadAttention(SIZE, HEADS, **made)
        self.inputs = nn.ParameterList(
            nn.Parameter(self._ordered(normal(length, BATCH, size) * 0.7))
            for length, size in (
                (TARGET, SIZE), (SOURCE, made.get("kdim", SIZE)), (SOURCE, made.get("vdim", SIZE)))
        )
        self._move_biases()

    def _move_biases(self):
        """torch begins with biases of zero, which hide mistakes."""
        for name, p in self.attention.named_parameters():
            if "bias" in name:
                with torch.no_grad():
                    p.copy_(normal(*p.shape) * 0.2)

    def _ordered(self, x):
        return x.transpose(0, 1).contiguous() if self.attention.batch_first else x

    def forward(self, labels):
        call = {
            key: x.to(self.inputs[0].dtype) if x.is_floating_point() else x
            for key, x in self.call.items()
        }
        loss, results = 0.0, []
        for wanted in RESULTS.values():
            y, weights = self.attention(*self.inputs, **call, **wanted)
            y = self._ordered(y)
            results.append((y, weights))
            loss = loss + nn.functional.cross_entropy(y.mean(0), labels)
            if weights is not None:
                loss = loss + (weights * weights).sum()
        return results, loss


class Unbatched(nn.Module):
    """One sequence without a batch, which attends to itself."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(SIZE, HEADS)
        self.x = nn.Parameter(normal(TARGET, SIZE))
        self.mask = bool_mask(TARGET, TARGET)

    def forward(self, labels):
        y, weights = self.attention(
            self.x, self.x, self.x, attn_mask=self.mask,
            key_padding_mask=torch.arange(TARGET) >= 4)
        return y, weights, nn.functional.cross_entropy(y[:BATCH], labels) + weights.square().sum()


class Plain(nn.Module):
    """The function alone, with a mask of floats; torch 1.13 has it under a private name."""

    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(normal(BATCH, TARGET, SIZE))
        self.mask = float_mask(TARGET, TARGET)

    def forward(self, labels):
        mask = self.mask.to(self.x.dtype)
        if hasattr(nn.functional, "scaled_dot_product_attention"):
            y = nn.functional.scaled_dot_product_attention(self.x, self.x, self.x, mask)
        else:
            function = torch._C._nn._scaled_dot_product_attention
            y, _ = function(self.x, self.x, self.x, mask)
        return y, nn.functional.cross_entropy(y.mean(1), labels)


class Attention(unittest.TestCase):
    maxDiff = None

    def _check(self, make):
        self.assertEqual("", network_comparison.problems(make))

    def test_one_sequence_without_a_batch(self):
        self._check(lambda: (Unbatched(), labels(BATCH)))

    def test_the_function_with_a_mask_of_floats(self):
        self._check(lambda: (Plain(), labels(BATCH)))


for _name in FORMS:
    setattr(
        Attention,
        f"test_{_name}",
        lambda self, name=_name: self._check(lambda: (Form(name), labels(BATCH))),
    )

if __name__ == "__main__":
    unittest.main()
