"""The families of models/family_graphs.py as PyTorch modules whose parameters have the names of the ONNX files."""
import torch
from torch import nn
from torch.nn import functional

from modules import ALPHA, look_up, mlp, tables_of


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class TargetAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.items = nn.Embedding(config["rows"][0], config["dim"])
        widths = [4 * config["dim"], *config["attention"]]
        layers = []
        for inputs, outputs in zip(widths, widths[1:]):
            layers += [nn.Linear(inputs, outputs), nn.Sigmoid()]
        self.attention = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, history, target):
        h = self.items(history)
        q = self.items(target).unsqueeze(1).expand(-1, h.shape[1], -1)
        scores = self.attention(torch.cat([q, h, q - h, q * h], -1)).squeeze(2)
        return (scores.softmax(-1).unsqueeze(1) @ h).squeeze(1)


class CompressedInteraction(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tables = tables_of(config)
        fields = len(config["rows"])
        counts = [fields, *config["layers"]]
        self.layers = nn.ModuleList([nn.Conv1d(count * fields, width, 1) for count, width in zip(counts, counts[1:])])
        self.last = nn.Linear(sum(config["layers"]), 1)

    def forward(self, ids):
        x = x0 = torch.stack(look_up(self.tables, ids), 1)
        sums = []
        for layer in self.layers:
            pairs = (x.unsqueeze(2) * x0.unsqueeze(1)).flatten(1, 2)
            x = torch.relu(layer(pairs))
            sums.append(x.sum(2))
        return self.last(torch.cat(sums, 1))


class Hstu(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, tokens = config["width"], config["tokens"]
        self.heads, self.tokens = config["heads"], tokens
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.uvqk, self.o = nn.Linear(width, 4 * width), nn.Linear(width, width)
        self.positions = nn.Parameter(torch.empty(2 * tokens - 1))

    def prepare(self, device):
        place = torch.arange(self.tokens, device=device)
        self.register_buffer("where", self.tokens - 1 + place[:, None] - place, persistent=False)
        self.register_buffer("seen", torch.ones(self.tokens, self.tokens, device=device, dtype=self.positions.dtype).tril(), persistent=False)

    def forward(self, x):
        u, v, q, k = functional.silu(self.uvqk(self.n1(x))).chunk(4, -1)
        v, q, k = (heads_of(part, self.heads) for part in (v, q, k))
        scores = functional.silu(q @ k.transpose(2, 3) + self.positions[self.where])
        a = (scores * (1 / self.tokens) * self.seen) @ v
        return x + self.o(u * self.n2(a.transpose(1, 2).flatten(2)))


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tables = tables_of(config)
        self.tasks, count = config["tasks"], config["experts"]
        widths = [13 + config["dim"] * len(config["rows"]), *config["levels"]]
        self.levels = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            is_last = i + 2 == len(widths)
            experts = [nn.ModuleList([nn.Linear(inputs, outputs) for _ in range(count)]) for _ in range(self.tasks + 1)]
            gates = [nn.Linear(inputs, count * (2 if g < self.tasks else self.tasks + 1), bias=False)
                     for g in range(self.tasks + (not is_last))]
            self.levels.append(nn.ModuleDict({"experts": nn.ModuleList(experts), "gates": nn.ModuleList(gates)}))
        self.towers = nn.ModuleList([mlp([widths[-1], *config["tower"]], nn.Sigmoid()) for _ in range(self.tasks)])

    def forward(self, dense, sparse):
        groups = [torch.cat([dense, *look_up(self.tables, sparse)], 1)] * (self.tasks + 1)
        for level in self.levels:
            made = [[torch.relu(expert(x)) for expert in experts] for experts, x in zip(level["experts"], groups)]
            mixed = []
            for g, gate in enumerate(level["gates"]):
                seen = sum(made, []) if g == self.tasks else made[g] + made[self.tasks]
                weights = gate(groups[g]).softmax(-1)
                mixed.append((weights.unsqueeze(1) @ torch.stack(seen, 1)).squeeze(1))
            groups = mixed
        return torch.cat([tower(x) for tower, x in zip(self.towers, groups)], 1)


class FieldAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tables, self.heads = tables_of(config), config["heads"]
        dim = config["dim"]
        self.layers = nn.ModuleList([nn.ModuleDict({name: nn.Linear(dim, dim, bias=False) for name in "qkvr"})
                                     for _ in range(config["layers"])])
        self.last = nn.Linear(dim * len(config["rows"]), 1)

    def forward(self, ids):
        x = torch.stack(look_up(self.tables, ids), 1)
        for layer in self.layers:
            q, k, v = (heads_of(layer[name](x), self.heads) for name in "qkv")
            a = functional.scaled_dot_product_attention(q, k, v, scale=1.0)
            x = torch.relu(a.transpose(1, 2).flatten(2) + layer["r"](x))
        return torch.sigmoid(self.last(x.flatten(1)))


class Bert(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads = config["width"], config["heads"]
        self.layers = nn.ModuleList([nn.ModuleDict({
            **{name: nn.Linear(width, width) for name in "qkvo"}, "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
            "n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width)}) for _ in range(config["layers"])])

    def forward(self, x, mask):
        bias = (1 - mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            q, k, v = (heads_of(layer[name](x), self.heads) for name in "qkv")
            a = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = layer["n1"](layer["o"](a.transpose(1, 2).flatten(2)) + x)
            x = layer["n2"](layer["down"](functional.gelu(layer["up"](x))) + x)
        return x


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        y = x.float() if x.dtype == torch.float16 else x
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Adapted(nn.Module):
    """A layer without a bias; without `rank` its adapter is merged into the weight."""

    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.linear, self.rank = nn.Linear(inputs, outputs, bias=False), rank
        if rank:
            self.A = nn.Parameter(torch.empty(inputs, rank))
            self.B = nn.Parameter(torch.empty(rank, outputs))

    def forward(self, x):
        return self.linear(x) + ALPHA * (x @ self.A @ self.B) if self.rank else self.linear(x)


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads, self.groups, self.tokens, hidden, rank = (
            config[key] for key in ("width", "heads", "key_heads", "tokens", "hidden", "rank"))
        self.size = width // self.heads
        self.n1, self.n2 = RmsNorm(width), RmsNorm(width)
        self.q, self.v = Adapted(width, width, rank), Adapted(width, self.groups * self.size, rank)
        self.k = nn.Linear(width, self.groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def prepare(self, device):
        power = 10000.0 ** (-2 * (torch.arange(self.size, dtype=torch.float64) % (self.size // 2)) / self.size)
        angles = torch.arange(self.tokens)[:, None] * power
        for name in ("cos", "sin"):
            self.register_buffer(name, getattr(torch, name)(angles).to(self.n1.weight.dtype).to(device), persistent=False)

    def rotated(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def forward(self, x):
        y = self.n1(x)
        q, k, v = heads_of(self.q(y), self.heads), heads_of(self.k(y), self.groups), heads_of(self.v(y), self.groups)
        a = functional.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).flatten(2))
        y = self.n2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Gru(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.items = nn.Embedding(config["rows"][0], config["dim"])
        self.gru = nn.GRU(config["dim"], config["dim"])

    def forward(self, ids):
        return self.gru(self.items(ids).transpose(0, 1))[0][-1]


FAMILIES = {"target_attention": TargetAttention, "compressed_interaction": CompressedInteraction, "hstu": Hstu, "experts": Experts,
            "field_attention": FieldAttention, "bert": Bert, "llama_block": LlamaBlock, "gru": Gru}
