"""Histories of free length."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from layers import BATCH, SEQUENCE, ids, mlp


class Din(nn.Module):
    """Deep interest network: a target attends to a padded history of free length."""

    inputs = lambda: (ids(4), ids(4, below=30), ids(4, 6, below=30))
    dims = [BATCH, BATCH, SEQUENCE]
    exporters = ("ts", "dynamo")

    def __init__(self):
        super().__init__()
        self.items, self.users = nn.Embedding(30, 8, padding_idx=0), nn.Embedding(20, 8)
        self.score = mlp(32, 16, 1, act=nn.PReLU)
        self.top = nn.Sequential(nn.Linear(24, 16), nn.BatchNorm1d(16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, user, item, history):
        target, past = self.items(item), self.items(history)
        each = target.unsqueeze(1).expand(-1, past.size(1), -1)
        score = self.score(torch.cat([each, past, each - past, each * past], -1)).squeeze(-1)
        score = torch.where(history != 0, score, torch.full_like(score, -(2.0**32)))
        interest = torch.bmm(score.softmax(1).unsqueeze(1), past).squeeze(1)
        return torch.sigmoid(self.top(torch.cat([self.users(user), target, interest], 1))).view(-1)


class Encoder(nn.Module):
    """At most 50 learned positions, a pre-norm encoder layer with a padding mask, and causal attention."""

    inputs = lambda: (ids(4, 6, below=29),)
    dims = [SEQUENCE]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(30, 16)
        self.positions = nn.Parameter(torch.randn(1, 50, 16) * 0.1)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.qkv = nn.Linear(16, 48)

    def forward(self, history):
        b, n = history.shape
        x = self.items(history) + self.positions[:, :n]
        x = self.layer(x, src_key_padding_mask=history == 29)
        q, k, v = self.qkv(x).view(b, n, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x[:, -1] + y[:, :, -1].flatten(1)
