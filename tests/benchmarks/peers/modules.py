"""Code that the PyTorch modules of the families share."""
from torch import nn

ALPHA = 0.5


def mlp(widths, last=None):
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += [nn.ReLU()] if i else []
        layers.append(nn.Linear(a, b))
    return nn.Sequential(*layers, *([last] if last is not None else []))


def tables_of(config):
    return nn.ModuleList([nn.Embedding(rows, config["dim"]) for rows in config["rows"]])


def look_up(tables, ids):
    return [table(ids[:, i]) for i, table in enumerate(tables)]


def sum_bags(tables, ids, sizes):
    """For each table, the sum of the rows for its columns of ids."""
    return [table(bag).sum(1) for table, bag in zip(tables, ids.split(sizes, 1))]
