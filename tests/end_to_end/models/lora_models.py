"""Models with low-rank adapters: in transformers, and with an adapter for each row."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from layers import BATCH, SEQUENCE, ids


class Lora(nn.Module):
    def __init__(self, before, after, rank=4, alpha=8.0, bias=True):
        super().__init__()
        self.base = nn.Linear(before, after, bias=bias)
        self.a, self.b = nn.Linear(before, rank, bias=False), nn.Linear(rank, after, bias=False)
        self.dropout, self.scaling = nn.Dropout(0.1), alpha / rank

    def forward(self, x):
        return self.base(x) + self.b(self.a(self.dropout(x))) * self.scaling


class LoraAttention(nn.Module):
    """A transformer block with adapters on q, v and the MLP, and an additive mask that is computed from integers."""

    inputs = lambda: (torch.randn(4, 6, 16), torch.ones(4, 6, dtype=torch.long))
    dims = [SEQUENCE, SEQUENCE]
    exporters = ("dynamo", "ts.bfloat16")

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = Lora(16, 16), nn.Linear(16, 16), Lora(16, 16), nn.Linear(16, 16)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = Lora(16, 32), Lora(32, 16)

    def forward(self, x, mask):
        b, n, _ = x.shape
        heads = lambda t: t.view(b, n, 2, 8).transpose(1, 2)
        h = self.norm1(x)
        scores = heads(self.q(h)) @ heads(self.k(h)).transpose(-1, -2) / math.sqrt(8)
        scores = scores + (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        y = (scores.softmax(-1) @ heads(self.v(h))).transpose(1, 2).reshape(b, n, 16)
        x = x + self.o(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class LoraLlama(nn.Module):
    """Grouped heads, rotary positions, SwiGLU, RMS norms spelled out in ops, tied output weights."""

    inputs = lambda: (ids(4, 6, below=40),)
    dims = [SEQUENCE]
    exporters = ("ts", "ts.float16")

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(40, 16)
        self.q, self.k, self.v = Lora(16, 16, bias=False), nn.Linear(16, 8), Lora(16, 8, bias=False)
        self.o, self.norm1, self.norm2 = nn.Linear(16, 16), RmsNorm(16), RmsNorm(16)
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def rotated(self, x, n):
        angles = torch.arange(n).float()[:, None] * torch.tensor([1.0, 0.01])
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[..., 2:], x[..., :2]], -1)
        return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)

    def forward(self, tokens):
        b, n = tokens.shape
        x = self.tokens(tokens)
        h = self.norm1(x)
        split = lambda t: t.view(b, n, -1, 4).transpose(1, 2)
        repeat = lambda t: t[:, :, None].expand(b, 2, 2, n, 4).reshape(b, 4, n, 4)
        q, k = self.rotated(split(self.q(h)), n), repeat(self.rotated(split(self.k(h)), n))
        causal = torch.triu(torch.full((n, n), float("-inf"), dtype=x.dtype), 1)
        p = F.softmax(q @ k.transpose(2, 3) / 2 + causal, -1, dtype=torch.float32).to(x.dtype)
        x = x + self.o((p @ repeat(split(self.v(h)))).transpose(1, 2).reshape(b, n, 16))
        h = self.norm2(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return x[:, -1] @ self.tokens.weight.T


class LoraPerRow(nn.Module):
    """Every row gives the id of its adapter; a second adapter is an input with a free rank."""

    inputs = lambda: (torch.randn(4, 24), ids(4, below=5), torch.randn(24, 3), torch.randn(3, 32))
    dims = [BATCH, BATCH, {1: "rank"}, {0: "rank"}]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(24, 32)
        self.a = nn.Parameter(torch.randn(5, 24, 4) * 0.2)
        self.b = nn.Parameter(torch.randn(5, 4, 32) * 0.2)

    def forward(self, x, adapter, a, b):
        own = torch.bmm(torch.bmm(x.unsqueeze(1), self.a[adapter]), self.b[adapter]).squeeze(1)
        return F.relu(self.base(x) + 2 * own + (x @ a) @ b * 0.5)
