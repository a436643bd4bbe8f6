"""Layers that several of these models share."""

import torch
import torch.nn as nn

BATCH = {0: "batch"}
SEQUENCE = {0: "batch", 1: "seq"}


def ids(*shape, below=20):
    return torch.randint(0, below, shape)


def mlp(*widths, act=nn.ReLU):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1])


class StackedTable(nn.Module):
    """All categorical features in one table: ids plus offsets."""

    def __init__(self, rows=(20, 21, 22, 23, 24), width=8):
        super().__init__()
        self.table = nn.Embedding(sum(rows), width)
        self.register_buffer("offsets", torch.tensor([0, *rows[:-1]]).cumsum(0))

    def forward(self, x):
        return self.table(x + self.offsets)
