"""The families of models/suite_graphs.py as PyTorch modules whose parameters have the names of the ONNX files."""
import torch
from torch import nn
from torch.nn import functional

import family_models
from modules import ALPHA, look_up, mlp, sum_bags, tables_of


def indices_of(family, config):
    """Constant integer tensors of a module, by name."""
    if family == "lecture":
        return {"rows": config["rows"]}
    if family == "dot":
        pairs = [(i, j) for i in range(len(config["rows"]) + 1) for j in range(i)]
        return {"rows": [i for i, _ in pairs], "columns": [j for _, j in pairs]}
    return {}


def register_indices(module, family, config):
    for name, values in indices_of(family, config).items():
        module.register_buffer(name, torch.tensor(values), persistent=False)


class Lecture(nn.Module):
    def __init__(self, config):
        super().__init__()
        register_indices(self, "lecture", config)
        self.tables = tables_of(config)
        self.bottom = mlp(config["bottom"])
        width = config["bottom"][-1] + config["dim"] * len(config["rows"])
        self.top = mlp([width * width, *config["top"]], nn.Sigmoid())

    def forward(self, dense, sparse):
        hashed = (sparse + 1) % self.rows
        x = torch.cat([self.bottom(dense), *look_up(self.tables, hashed)], -1).unsqueeze(2)
        return self.top(torch.flatten(torch.bmm(x, x.transpose(1, 2)), 1)).squeeze()


class Dot(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tables = tables_of(config)
        self.bottom = mlp(config["bottom"], nn.ReLU())
        register_indices(self, "dot", config)
        self.top = mlp([config["dim"] + len(self.rows), *config["top"]], nn.Sigmoid())

    def forward(self, dense, sparse):
        d = self.bottom(dense)
        t = torch.stack([d, *look_up(self.tables, sparse)], 1)
        z = torch.bmm(t, t.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([d, z], 1))


class Dcnv2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tables = tables_of(config)
        self.bags = config.get("bags")
        self.bottom = mlp(config["bottom"], nn.ReLU())
        width, rank = config["dim"] * (len(config["rows"]) + 1), config["rank"]
        self.v = nn.ModuleList([nn.Linear(width, rank, bias=False) for _ in range(config["crosses"])])
        self.w = nn.ModuleList([nn.Linear(rank, width) for _ in range(config["crosses"])])
        self.top = mlp([width, *config["top"]], nn.Sigmoid())

    def forward(self, dense, sparse):
        features = sum_bags(self.tables, sparse, self.bags) if self.bags else look_up(self.tables, sparse)
        x0 = x = torch.cat([self.bottom(dense), *features], 1)
        for v, w in zip(self.v, self.w):
            x = x0 * w(v(x)) + x
        return self.top(x)


class LoraLinear(nn.Module):
    """Without `rank` the adapter is merged into the weight."""

    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.rank = rank
        if rank:
            self.A = nn.Parameter(torch.empty(inputs, rank))
            self.B = nn.Parameter(torch.empty(rank, outputs))

    def forward(self, x):
        y = self.linear(x)
        return y + ALPHA * (x @ self.A @ self.B) if self.rank else y


class LoraMlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, rank = config["width"], config["rank"]
        self.layers = nn.Sequential(LoraLinear(width, width // 2, rank), nn.ReLU(),
                                    LoraLinear(width // 2, width // 4, rank), nn.Sigmoid())

    def forward(self, x):
        return self.layers(x)


class Lola(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config["width"], elementwise_affine=False)
        self.dense = nn.Linear(config["width"], 4 * config["width"])

    def forward(self, x):
        return functional.gelu(self.dense(self.norm(x)), approximate="tanh")


class LoraBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, rank = config["width"], config["rank"]
        self.heads = config["heads"]
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = LoraLinear(width, 3 * width, rank), LoraLinear(width, width, rank)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        split = self.qkv(self.n1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.n2(x)), approximate="tanh"))


class DeepFm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(13, 1)
        self.first = nn.ModuleList([nn.Embedding(rows, 1) for rows in config["rows"]])
        self.tables = tables_of(config)
        self.deep = mlp([config["dim"] * len(config["rows"]), *config["deep"]])

    def forward(self, dense, sparse):
        linear = self.dense(dense) + torch.stack(look_up(self.first, sparse), 1).sum(1)
        e = torch.stack(look_up(self.tables, sparse), 1)
        pairs = 0.5 * (e.sum(1) ** 2 - (e * e).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(linear + pairs + self.deep(e.flatten(1)))


class TwoTower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tables = tables_of(config)
        width = config["dim"] * (len(config["rows"]) // 2)
        self.user = mlp([width + 13, *config["tower"]])
        self.item = mlp([width, *config["tower"]])

    def forward(self, dense, sparse):
        e = look_up(self.tables, sparse)
        half = len(e) // 2
        sides = self.user(torch.cat([dense, *e[:half]], 1)), self.item(torch.cat(e[half:], 1))
        u, v = (y / y.norm(dim=-1, keepdim=True).clamp_min(1e-6) for y in sides)
        return (u * v).sum(-1)


class DlrmRequest(nn.Module):
    """The model split by hand: inputs of the user have one row for all items, or one row per item."""

    def __init__(self, config):
        super().__init__()
        dim, count = config["dim"], config["user_tables"]
        self.count, self.scale = count, dim**-0.5
        self.tables = tables_of(config)
        self.user = mlp([13 + dim * count, *config["tower"]], nn.ReLU())
        self.history = nn.Embedding(config["rows"][-1], dim)
        self.attention = nn.ModuleDict({name: nn.Linear(dim, dim) for name in "qkv"})
        self.item = mlp([13, *config["bottom"]], nn.ReLU())
        self.of_user = config["tower"][-1] + dim  # the columns of the top MLP that belong to the user
        self.top = mlp([self.of_user + config["bottom"][-1] + dim * (len(config["rows"]) - count), *config["top"]], nn.Sigmoid())

    def forward(self, user_dense, user_ids, history, item_dense, item_ids):
        user = self.user(torch.cat([user_dense, *look_up(self.tables[:self.count], user_ids)], 1))
        q, k, v = (self.attention[name](self.history(history)) for name in "qkv")
        seen = functional.scaled_dot_product_attention(q, k, v, scale=self.scale).mean(1)
        item = torch.cat([self.item(item_dense), *look_up(self.tables[self.count:], item_ids)], 1)
        first, *rest = self.top
        of_user, of_items = first.weight[:, :self.of_user], first.weight[:, self.of_user:]
        x = functional.linear(item, of_items) + functional.linear(torch.cat([user, seen], 1), of_user, first.bias)
        for layer in rest:
            x = layer(x)
        return x


FAMILIES = {"lecture": Lecture, "dot": Dot, "dcnv2": Dcnv2, "lora_mlp": LoraMlp, "lola": Lola,
            "lora_block": LoraBlock, "deep_fm": DeepFm, "two_tower": TwoTower, "dlrm_request": DlrmRequest, **family_models.FAMILIES}


def load(family, config, weights, device):
    """The module on `device`, with parameters from numpy arrays by name; without adapters if `weights` has none."""
    if not any(name.endswith(".A") for name in weights):
        config = {**config, "rank": 0} if "rank" in config and family != "dcnv2" else config
    with torch.device("meta"):
        module = FAMILIES[family](config)
    state = {}
    for name, array in weights.items():
        contiguous = array if array.flags.c_contiguous and array.flags.writeable else array.copy(order="C")
        state[name] = torch.from_numpy(contiguous).to(device)
    module.load_state_dict(state, assign=True)
    for name, values in indices_of(family, config).items():  # the constructor's are on the meta device, too
        setattr(module, name, torch.tensor(values, device=device))
    if hasattr(module, "prepare"):
        module.prepare(device)
    return module.eval().requires_grad_(False)
