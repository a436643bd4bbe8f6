"""Makes the models of this folder: small torch modules of the DLRM and LoRA families, through both exporters.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch onnx onnxscript
    /tmp/torch/bin/python tests/end_to_end/models/export.py [NAME ...]

torch 2.15 made the files that are checked in. Tables and widths are tiny: the ops and shapes are what is tested.
"""

import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

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


class DotTriangle(nn.Module):
    """DLRM: pairwise dots, the triangle below the diagonal picked by lists of indices."""

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
    """Factorisation machine by square of sum minus sum of squares, beside a tower with batch norm."""

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
    """DCNv2: low-rank cross layers, a gated mixture of experts, plain weight matrices on the left."""

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
    """xDeepFM: outer products compressed by convolutions of width 1."""

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


class IdList(nn.Module):
    """Ids looked up in a list of known ones by comparing and argmax; others hashed by a remainder."""

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
    """The lecture's index hash for four features: lists of 10 to 700 ids, with repeats; unknown ids are row 0."""

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
    """nn.EmbeddingBag over bags of any length: sum, weighted sum, mean, max; and of three ids each."""

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


class Requests(nn.Module):
    """Two batches: users of requests, and candidates that name their request."""

    inputs = lambda: (torch.randn(3, 10), ids(7, below=3), ids(7, below=50))
    dims = [{0: "requests"}, {0: "candidates"}, {0: "candidates"}]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.user, self.items, self.top = mlp(10, 16, 8), nn.Embedding(50, 8), mlp(17, 16, 1)

    def forward(self, users, request, items):
        u, i = self.user(users)[request], self.items(items)
        return self.top(torch.cat([u, i, (u * i).sum(1, keepdim=True)], 1)).view(-1)


class Encoder(nn.Module):
    """Learned positions of at most 50, a pre-norm encoder layer under a padding mask, causal attention."""

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


class Lora(nn.Module):
    def __init__(self, before, after, rank=4, alpha=8.0, bias=True):
        super().__init__()
        self.base = nn.Linear(before, after, bias=bias)
        self.a, self.b = nn.Linear(before, rank, bias=False), nn.Linear(rank, after, bias=False)
        self.dropout, self.scaling = nn.Dropout(0.1), alpha / rank

    def forward(self, x):
        return self.base(x) + self.b(self.a(self.dropout(x))) * self.scaling


class LoraAttention(nn.Module):
    """A transformer block with adapters on q, v and the MLP, and an additive mask from integers."""

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
    """Grouped heads, rotary positions, SwiGLU, RMS norms by hand, tied output weights."""

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
    """Every row names its adapter; a second adapter is an input of free rank."""

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


class TwoTowers(nn.Module):
    """Retrieval: a tower over the features of either side, which differ in number; the cosine of their results."""

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


MODELS = {
    "auto_int": AutoInt, "bags": Bags, "cin": Cin, "dcn_mixture": DcnMixture, "deep_fm": DeepFm,
    "din": Din, "dot_triangle": DotTriangle, "embedding_bags": EmbeddingBags, "encoder": Encoder,
    "experts": Experts, "id_list": IdList,
    "index_hash": IndexHash,
    "lora_attention": LoraAttention, "lora_llama": LoraLlama, "lora_per_row": LoraPerRow,
    "offset_bags": OffsetBags, "requests": Requests, "two_towers": TwoTowers,
}  # fmt: skip


def export(name, kind, exporter):
    """exporter: ts or dynamo, with .float16 or .bfloat16 behind it for a model of that type."""
    torch.manual_seed(7)
    how, _, dtype = exporter.partition(".")
    model, inputs = kind().eval(), kind.inputs()
    if dtype:
        model = model.to(getattr(torch, dtype))
        inputs = tuple(x.to(getattr(torch, dtype)) if x.is_floating_point() else x for x in inputs)
    names = list(model.forward.__code__.co_varnames[1 : len(inputs) + 1])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.{exporter}.onnx")
    if how == "ts":
        torch.onnx.export(model, inputs, path, dynamo=False, input_names=names, output_names=["y"],
                          dynamic_axes=dict(zip(names, kind.dims)), opset_version=17)  # fmt: skip
    else:
        dims = {d: torch.export.Dim(d) for shape in kind.dims for d in shape.values()}
        shapes = tuple({axis: dims[d] for axis, d in shape.items()} for shape in kind.dims)
        torch.onnx.export(model, inputs, path, dynamo=True, dynamic_shapes=shapes, verbose=False,
                          input_names=names, output_names=["y"], external_data=False)  # fmt: skip
        strip(path)


def strip(path):
    """Leaves out the stack traces that dynamo writes beside every node: folders of this machine."""
    import onnx

    def strip_graph(graph):
        for node in graph.node:
            kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    strip_graph(attribute.g)
        del graph.value_info[:]

    model = onnx.load(path)
    strip_graph(model.graph)
    onnx.save(model, path)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        for exporter in MODELS[name].exporters:
            export(name, MODELS[name], exporter)
