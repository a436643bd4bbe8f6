"""Models with different kinds of look-ups: lists of known ids, hashes, bags, two batches."""

import torch
import torch.nn as nn

from layers import BATCH, ids, mlp


class IdList(nn.Module):
    """Ids that are looked up in a list of known ids by comparison and argmax; unknown ids are hashed by a remainder."""

    inputs = lambda: (ids(4, 3, below=50),)
    dims = [BATCH]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.register_buffer("known", torch.stack([torch.randperm(50)[:8] for _ in range(3)]))
        self.tables = nn.ModuleList(nn.Embedding(9, 8) for _ in range(3))
        self.hashed = nn.Embedding(13, 8)
        self.top = mlp(32, 16, 1)

    def forward(self, sparse):
        rows = [self.hashed((sparse[:, 0] * 31 + sparse[:, 1]) % 13)]
        for i, table in enumerate(self.tables):
            same = sparse[:, i].unsqueeze(1) == self.known[i].unsqueeze(0)
            place = torch.argmax(same.to(torch.int32), 1)
            rows.append(table(torch.where(same.any(1), place + 1, torch.zeros_like(place))))
        return self.top(torch.cat(rows, 1))


class IndexHash(nn.Module):
    """The index hash of lecture_dlrm for four features: lists of 10 to 700 ids with repeats; unknown ids use row 0."""

    inputs = lambda: (torch.randn(4, 3), ids(4, 4, below=1000))
    dims = [BATCH, BATCH]
    exporters = ("ts", "dynamo")

    def __init__(self, lengths=(10, 100, 300, 700)):
        super().__init__()
        self.lists = nn.ParameterList(
            nn.Parameter(torch.randint(0, 1000, (n,)), requires_grad=False) for n in lengths
        )
        self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in lengths)

    def forward(self, dense, sparse):
        rows = [dense]
        for i, (known, table) in enumerate(zip(self.lists, self.tables)):
            same = sparse[:, i].view(-1, 1) == known
            rows.append(table(torch.argmax(same.to(torch.int64), 1)))
        return torch.cat(rows, 1)


class Bags(nn.Module):
    """Multi-hot features of three ids: sum, mean without padding, maximum, weighted sum."""

    inputs = lambda: (ids(4, 4, 3), torch.rand(4, 3))
    dims = [BATCH, BATCH]
    exporters = ("ts", "dynamo")

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 8, padding_idx=0) for _ in range(4))
        self.top = mlp(32, 16, 1, act=nn.GELU)

    def forward(self, bags, weights):
        e = [table(bags[:, i]) for i, table in enumerate(self.tables)]
        there = (bags != 0).float().unsqueeze(-1)
        mean = (e[1] * there[:, 1]).sum(1) / there[:, 1].sum(1).clamp(min=1)
        largest = e[2].masked_fill((bags[:, 2] == 0).unsqueeze(-1), -1e9).max(1)[0]
        weighted = (e[3] * weights.unsqueeze(-1)).sum(1)
        return self.top(torch.cat([e[0].sum(1), mean, largest, weighted], 1))


class EmbeddingBags(nn.Module):
    """nn.EmbeddingBag over bags of any length (sum, weighted sum, mean, max), and over bags of three ids each."""

    inputs = lambda: (torch.randn(4, 6), ids(9), torch.tensor([0, 3, 3, 7]), torch.rand(9),
                      ids(7), torch.tensor([0, 0, 4, 5]), ids(4, 3))  # fmt: skip
    dims = [BATCH, {0: "n"}, BATCH, {0: "n"}, {0: "m"}, BATCH, BATCH]
    exporters = ("ts", "dynamo")

    def __init__(self):
        super().__init__()
        modes = ("sum", "sum", "mean", "max", "mean")
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode=mode) for mode in modes)
        self.top = mlp(46, 16, 1)

    def forward(self, dense, first, first_offsets, weights, second, second_offsets, third):
        bags = self.bags
        rows = [
            dense,
            bags[0](first, first_offsets),
            bags[1](first, first_offsets, per_sample_weights=weights),
            bags[2](first, first_offsets),
            torch.clamp(bags[3](second, second_offsets), min=-9.0),
            bags[4](third),
        ]
        return self.top(torch.cat(rows, 1))


class OffsetBags(nn.Module):
    """nn.EmbeddingBag with include_last_offset, hashed ids and weights; the last bag may end early."""

    inputs = lambda: (ids(9, below=50), torch.tensor([0, 3, 3, 7]), torch.rand(9))
    dims = [{0: "n"}, {0: "bounds"}, {0: "n"}]
    exporters = ("ts", "dynamo")

    def __init__(self):
        super().__init__()
        modes = ("sum", "sum", "mean", "max")
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(20 + i, 8, mode=mode, include_last_offset=True)
            for i, mode in enumerate(modes)
        )

    def forward(self, bag_ids, offsets, weights):
        rows = [self.bags[0](bag_ids % 20, offsets)]
        rows.append(self.bags[1](bag_ids % 21, offsets, per_sample_weights=weights))
        return torch.cat(rows + [bag(bag_ids % 22, offsets) for bag in self.bags[2:]], 1)


class Requests(nn.Module):
    """Two batches: the users of requests, and candidates that give the index of their request."""

    inputs = lambda: (torch.randn(3, 10), ids(7, below=3), ids(7, below=50))
    dims = [{0: "requests"}, {0: "candidates"}, {0: "candidates"}]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.user, self.items, self.top = mlp(10, 16, 8), nn.Embedding(50, 8), mlp(17, 16, 1)

    def forward(self, users, request, items):
        u, i = self.user(users)[request], self.items(items)
        return self.top(torch.cat([u, i, (u * i).sum(1, keepdim=True)], 1)).view(-1)
