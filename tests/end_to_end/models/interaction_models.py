"""Models with feature interactions (dot products, factorization machines, crosses, attention), towers and experts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from layers import BATCH, StackedTable, ids, mlp


class DotTriangle(nn.Module):
    """DLRM with pairwise dot products, whose lower triangle is gathered by lists of indices."""

    inputs = lambda: (torch.randn(4, 7), ids(4, 5))
    dims = [BATCH, BATCH]
    exporters = ("ts", "dynamo")

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20 + i, 8) for i in range(5))
        self.bottom, self.top = mlp(7, 16, 8), mlp(8 + 15, 16, 1)

    def forward(self, dense, sparse):
        x = F.relu(self.bottom(dense))
        rows = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        t = torch.cat([x] + rows, dim=1).view(x.shape[0], -1, x.shape[1])
        z = torch.bmm(t, t.transpose(1, 2))
        below = [(i, j) for i in range(6) for j in range(i)]
        picked = z[:, torch.tensor([i for i, _ in below]), torch.tensor([j for _, j in below])]
        return torch.sigmoid(self.top(torch.cat([x, picked], dim=1))).squeeze(-1)


class DeepFm(nn.Module):
    """A factorization machine (square of sum minus sum of squares), and a tower with batch norm."""

    inputs = lambda: (ids(4, 5),)
    dims = [BATCH]
    exporters = ("ts",)

    def __init__(self):
        super().__init__()
        self.rows, self.first_order = StackedTable(), StackedTable(width=1)
        self.deep = nn.Sequential(
            nn.Linear(40, 32), nn.BatchNorm1d(32), nn.PReLU(), nn.Dropout(0.2), nn.Linear(32, 1)
        )
        self.deep[1].running_mean.normal_()
        self.deep[1].running_var.uniform_(0.5, 2)

    def forward(self, sparse):
        e = self.rows(sparse)
        pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.first_order(sparse).sum(1) + pairs + self.deep(e.view(-1, 40)))


class DcnMixture(nn.Module):
    """DCNv2: low-rank cross layers with a gated mixture of experts, whose weight matrices are left operands."""

    inputs = lambda: (torch.randn(4, 24),)
    dims = [BATCH]
    exporters = ("ts",)

    def __init__(self, n=24, rank=4, experts=3, layers=2):
        super().__init__()
        self.u = nn.Parameter(torch.randn(layers, experts, n, rank) * 0.2)
        self.c = nn.Parameter(torch.randn(layers, experts, rank, rank) * 0.2)
        self.v = nn.Parameter(torch.randn(layers, experts, n, rank) * 0.2)
        self.bias = nn.Parameter(torch.randn(layers, n, 1))
        self.gates = nn.ModuleList(nn.Linear(n, 1, bias=False) for _ in range(experts))
        self.out = nn.Linear(n, 1)

    def forward(self, dense):
        x0 = dense.unsqueeze(2)
        x = x0
        for u, c, v, bias in zip(self.u, self.c, self.v, self.bias):
            parts = []
            for e in range(len(self.gates)):
                h = torch.tanh(c[e] @ torch.tanh(v[e].t() @ x))
                parts.append((x0 * (u[e] @ h + bias)).squeeze(2))
            gates = torch.stack([gate(x.squeeze(2)) for gate in self.gates], 1)
            x = torch.stack(parts, 2) @ gates.softmax(1) + x
        return self.out(x.squeeze(2))


class Cin(nn.Module):
    """xDeepFM: outer products that convolutions of width 1 compress."""

    inputs = lambda: (ids(4, 5),)
    dims = [BATCH]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.rows = StackedTable()
        self.layers = nn.ModuleList([nn.Conv1d(25, 6, 1), nn.Conv1d(15, 6, 1)])
        self.out = nn.Linear(9, 1)

    def forward(self, sparse):
        x0 = self.rows(sparse)
        hidden, kept = x0, []
        for i, layer in enumerate(self.layers):
            z = x0.unsqueeze(2) * hidden.unsqueeze(1)
            z = F.relu(layer(z.flatten(1, 2)))
            if i == 0:
                hidden, z = z.chunk(2, 1)
            kept.append(z)
        return self.out(torch.cat(kept, 1).sum(2))


class AutoInt(nn.Module):
    """Self-attention over features, and attention-pooled products of pairs."""

    inputs = lambda: (ids(4, 5),)
    dims = [BATCH]
    exporters = ("ts",)

    def __init__(self):
        super().__init__()
        self.rows = StackedTable()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.residual, self.score = nn.Linear(8, 8), mlp(8, 4, 1)
        self.out = nn.Linear(48, 1)

    def forward(self, sparse):
        x = self.rows(sparse)
        y = F.relu(self.attention(x, x, x, need_weights=False)[0] + self.residual(x))
        pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
        p = x[:, [i for i, _ in pairs]] * x[:, [j for _, j in pairs]]
        pooled = (self.score(p).softmax(1) * p).sum(1)
        return self.out(torch.cat([y.flatten(1), pooled], 1))


class TwoTowers(nn.Module):
    """Retrieval: one tower for each side, with different numbers of features, and the cosine of their results."""

    inputs = lambda: (torch.randn(4, 5), ids(4, 6))
    dims = [BATCH, BATCH]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20 + i, 12) for i in range(6))
        self.user, self.item = mlp(5 + 36, 60, 40), mlp(36, 60, 40)

    def forward(self, dense, sparse):
        rows = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        user, item = self.user(torch.cat([dense] + rows[:3], dim=1)), self.item(torch.cat(rows[3:], dim=1))
        return (F.normalize(user, dim=1) * F.normalize(item, dim=1)).sum(dim=1)


class Experts(nn.Module):
    """MMoE: experts of one input, a gate and a small tower for each of two tasks."""

    inputs = lambda: (torch.randn(4, 10), ids(4, 3))
    dims = [BATCH, BATCH]
    exporters = ("ts",)

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20 + i, 12) for i in range(3))
        self.experts = nn.ModuleList(nn.Linear(46, 46) for _ in range(3))
        self.gates = nn.ModuleList(nn.Linear(46, 3, bias=False) for _ in range(2))
        self.towers = nn.ModuleList(mlp(46, 8, 1) for _ in range(2))

    def forward(self, dense, sparse):
        x = torch.cat([dense] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], dim=1)
        made = torch.stack([F.silu(expert(x)) for expert in self.experts], dim=1)
        mixed = [(F.softmax(gate(x), dim=1).unsqueeze(2) * made).sum(dim=1) for gate in self.gates]
        return torch.cat([torch.sigmoid(tower(y)) for tower, y in zip(self.towers, mixed)], dim=1)
