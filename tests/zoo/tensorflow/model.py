"""The type of the models that the files of libraries/ yield, as ../model.py has it for PyTorch: a function that makes a model, and the
model's inputs. A name in a shape is a dynamic dim.

The made model is a Keras model, or a function of tensors (a tf.Module, a tf.function). It takes the inputs in the order of the list.
"""

import dataclasses
from typing import Any, Callable

import numpy

SIZES = ({"batch": 4, "seq": 6}, {"batch": 9, "seq": 11})


@dataclasses.dataclass(frozen=True)
class Input:
    name: str
    shape: tuple
    dtype: Any
    draw: Callable  # (random, sizes of the shape) -> data

    @property
    def signature(self):
        """The shape with None for each dynamic dim."""
        return [None if isinstance(dim, str) else dim for dim in self.shape]

    def data(self, random, sizes):
        return self.draw(random, tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.shape)).astype(self.dtype)


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    make: Callable
    inputs: list
    sizes: tuple = SIZES  # the sizes of the first call, and other sizes for judging the export

    def data(self, sizes, seed):
        random = numpy.random.default_rng(seed)
        return {one.name: one.data(random, sizes) for one in self.inputs}


def floats(name, *shape):
    return Input(name, shape, numpy.float32, lambda random, sizes: random.standard_normal(sizes))


def ids(name, *shape, below, dtype=numpy.int64):
    return Input(name, shape, dtype, lambda random, sizes: random.integers(0, below, sizes))


def integers(name, *shape):
    """Any numbers that are not negative, for a model that hashes them."""
    return ids(name, *shape, below=2**31 - 1)


def sorted_ids(name, *shape, below, dtype=numpy.int64):
    """Ids in increasing order, such as the row that each value of a ragged tensor belongs to."""
    return Input(name, shape, dtype, lambda random, sizes: numpy.sort(random.integers(0, below, sizes)))


def first_items(random, sizes):
    """True for the first items of a row, at least one of them."""
    return numpy.arange(sizes[-1]) < random.integers(1, sizes[-1] + 1, [*sizes[:-1], 1])


def mask(name, *shape, dtype=numpy.int64):
    """1 for the first items of a row, at least one of them, then 0."""
    return Input(name, shape, dtype, first_items)


def history(name, *shape, below, dtype=numpy.int64):
    """Ids from 1, at least one a row, padded with 0."""
    return Input(name, shape, dtype, lambda random, sizes: random.integers(1, below, sizes) * first_items(random, sizes))


def lengths(name, *shape, most, dtype=numpy.int64):
    """Numbers from 1 to `most`."""
    return Input(name, shape, dtype, lambda random, sizes: random.integers(1, most + 1, sizes))


def words(name, *shape, of):
    """Strings of the list."""
    return Input(name, shape, numpy.str_, lambda random, sizes: random.choice(of, sizes))
