"""The type of the models that the files of libraries/ yield: a module with its inputs.

An input's shape mixes numbers with names of dims: ids("history", "batch", "seq", below=50). A name becomes a dynamic axis of the export, and
data is drawn for any sizes of the names. Data is valid: an id lies in its table, a mask has a first part of ones and a rest of zeros.
"""

import dataclasses
from typing import Any, Callable

import torch

SIZES = ({"batch": 4, "seq": 6}, {"batch": 9, "seq": 11})  # the sizes of the export, and other sizes for judging it


@dataclasses.dataclass(frozen=True)
class Input:
    name: str
    shape: tuple
    draw: Callable[[tuple], torch.Tensor]  # draws data for the sizes of the shape

    @property
    def dynamic(self):
        """Axis -> name, for the dynamic axes."""
        return {axis: dim for axis, dim in enumerate(self.shape) if isinstance(dim, str)}

    def data(self, sizes):
        return self.draw(tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.shape))


def ids(name, *shape, below=20, lowest=0, dtype=torch.int64):
    return Input(name, shape, lambda sizes: torch.randint(lowest, below, sizes, dtype=dtype))


def floats(name, *shape):
    return Input(name, shape, lambda sizes: torch.randn(sizes))


def first_items(sizes):
    """True for the first items of a row, at least one of them."""
    lengths = torch.randint(1, sizes[-1] + 1, sizes[:-1] + (1,))
    return torch.arange(sizes[-1]) < lengths


def mask(name, *shape, dtype=torch.int64):
    """1 for the first items of a row, at least one of them, then 0."""
    return Input(name, shape, lambda sizes: first_items(sizes).to(dtype))


def history(name, *shape, below=20, dtype=torch.int64):
    """Ids from 1, at least one a row, padded with 0."""

    def draw(sizes):
        given = first_items(sizes)
        return torch.randint(1, below, sizes, dtype=dtype) * given

    return Input(name, shape, draw)


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    make: Callable[[], torch.nn.Module]
    inputs: list
    call: Callable[..., Any] = lambda module, *tensors: module(*tensors)
    sizes: tuple = SIZES

    def data(self, sizes, seed):
        torch.manual_seed(seed)
        return tuple(one.data(sizes) for one in self.inputs)


class Called(torch.nn.Module):
    """Wraps a module as a function from tensors to a tuple of tensors, whatever it takes and returns."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *tensors):
        return tuple(tensors_of(self.call(self.module, *tensors)))


def tensors_of(value):
    """The tensors of nested lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def by_name(*inputs):
    """Calls a module that takes one dict of tensors by the names of the inputs."""
    names = [one.name for one in inputs]
    return lambda module, *tensors: module(dict(zip(names, tensors)))
