"""Tensors on a GPU, as far as a fake driver that computes nothing (tests/errors/fake_cuda.cc) can test them: whose memory is used, on which
stream, and what is rejected. The tensor libraries are fakes, whose addresses are numbers that nothing reads."""

import ctypes
import itertools
import sys
import types
import unittest
import warnings

import fusec
import numpy as np
from support import load

CPU, CUDA = 1, 2
CAPSULE = ctypes.pythonapi.PyCapsule_New
CAPSULE.restype, CAPSULE.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]

KEPT = []  # tables of functions live as long as the process
addresses = itertools.count(1 << 40, 1 << 20)


class Tensor:
    """A tensor of a library with DLPack, on GPU `gpu`."""

    def __init__(self, shape, gpu=0, address=None, strides=None, read_only=False):
        self.shape, self.gpu, self.strides = tuple(shape), gpu, strides
        self.address = next(addresses) if address is None else address
        self.read_only = read_only
        self.streams, self.deleted = [], 0

    device = property(lambda self: f"cuda:{self.gpu}")

    def fill(self, tensor):
        self.dims = (ctypes.c_int64 * len(self.shape))(*self.shape)
        self.steps = self.strides and (ctypes.c_int64 * len(self.shape))(*self.strides)
        tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = self.address, CUDA, self.gpu, len(self.shape)
        tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset = 2, 32, 1, 0
        tensor.shape = ctypes.cast(self.dims, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64)) if self.steps else None

    def __dlpack_device__(self):
        return (CUDA, self.gpu)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        self.managed = Managed(1, 1, None, DELETER(lambda _: setattr(self, "deleted", self.deleted + 1)), int(self.read_only))
        self.fill(self.managed.tensor)
        return CAPSULE(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def library(name, **functions):
    """A class of tensors whose library is called `name`, with the functions of the array API."""

    made = []

    def empty(shape, dtype=None, device=None):
        made.append(kind(shape, gpu=int(str(device or "cuda:0")[5:] or 0)))
        return made[-1]

    namespace = types.SimpleNamespace(empty=empty, float32="float32", made=made, **functions)
    kind = type("Tensor", (Tensor,), {"__module__": name, "__array_namespace__": lambda self: namespace})
    return kind, namespace


class DlpackTensors(unittest.TestCase):
    def setUp(self):
        self.model = load("sum", "cuda")
        self.kind, self.namespace = library("somearrays")

    def test_the_fake_driver(self):
        self.assertEqual(self.model.device, "cuda:0 Fake GPU")
        self.assertIsInstance(self.model.stream, int)

    def test_results_are_of_the_library_and_nothing_is_copied(self):
        x = self.kind((5, 4))
        y = self.model(x)
        self.assertIs(y, self.namespace.made[0])
        self.assertEqual((y.shape, y.gpu), ((5, 4), 0))
        self.assertEqual((x.deleted, y.deleted), (1, 1))  # given back after the run
        context = self.model.context()
        context(x)
        self.assertEqual(x.streams[-1], context.stream)  # where the run goes, which then is waited for
        self.assertEqual(self.namespace.made[-1].streams, [context.stream])

    def test_results_of_a_library_without_functions_are_in_host_memory_of_fusec(self):
        y = self.model(Tensor((5, 4)))
        self.assertIsInstance(y, fusec.Tensor)
        self.assertEqual(y.__dlpack_device__(), (CPU, 0))

    def test_other_gpus_and_models_on_the_cpu(self):
        with self.assertRaisesRegex(fusec.BadInput, '^input "x" is on cuda:1, but the model runs on cuda:0 Fake GPU$'):
            self.model(self.kind((5, 4), gpu=1))
        with self.assertRaisesRegex(fusec.BadInput, '^input "x" is on a GPU, but the model runs on cpu'):
            load("sum")(self.kind((5, 4)))
        with self.assertRaisesRegex(fusec.BadInput, '^output "y" is on cuda:1, but the model runs on cuda:0'):
            self.model.run_into(self.kind((5, 4), gpu=1), self.kind((5, 4)))

    def test_run_into(self):
        x, y = self.kind((5, 4)), self.kind((5, 4))
        self.model.run_into(y, x)
        self.assertEqual((x.deleted, y.deleted), (1, 1))
        for bad, message in (
            (self.kind((5, 4), read_only=True), "read-only"),
            (self.kind((5, 4), strides=(8, 1)), "not contiguous"),
            (self.kind((5, 4), address=(1 << 40) + 4), "multiple of 16 bytes"),
            (self.kind((5, 4), address=x.address + 16), "shares memory"),
        ):
            with self.assertRaisesRegex(fusec.BadInput, message):
                self.model.run_into(bad, x)
            self.assertEqual(bad.deleted, 1)

    def test_host_and_device_tensors_together(self):
        pair = load("pair", "cuda")
        a, b = np.zeros((2, 3), np.float32), self.kind((2, 5))
        both, twice = pair(a, b)
        self.assertIsInstance(both, self.kind)
        self.assertIsInstance(twice, self.kind)
        y = np.zeros((5, 4), np.float32)
        self.model.run_into(y, self.kind((5, 4)))  # a copy to the host
        y = self.kind((5, 4))
        self.model.run_into(y, np.zeros((5, 4), np.float32))
        self.assertEqual(y.deleted, 1)
        self.assertIsInstance(self.model(np.zeros((5, 4), np.float32)), np.ndarray)

    def test_what_must_be_copied(self):
        copies = []

        def asarray(tensor, copy):
            self.assertTrue(copy)
            copies.append(self.kind(tensor.shape))
            return copies[-1]

        self.namespace.asarray = asarray
        for x, why in (
            (self.kind((5, 4), strides=(8, 2)), "not contiguous"),
            (self.kind((5, 4), address=(1 << 40) + 4), "does not start at a multiple of 16 bytes"),
        ):
            model = load("sum", "cuda")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(2):
                    model(x)
            self.assertEqual(len(caught), 1)
            self.assertIn(why, str(caught[0].message))
            self.assertEqual((x.deleted, copies[-1].deleted), (2, 1))
            with self.assertRaisesRegex(fusec.BadInput, "strict"):
                load("sum", "cuda", strict=True)(x)
        self.assertEqual(len(copies), 4)

    def test_dims_of_one_and_empty_tensors_have_any_strides(self):
        load("sum", "cuda", strict=True)(self.kind((1, 4), strides=(99, 1)))


class StreamOrderedTensors(unittest.TestCase):
    """Tensors of CuPy, whose memory is given back in the order of streams."""

    def setUp(self):
        self.stream = 0x5000
        cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=self.stream))
        self.kind, self.namespace = library("cupy", cuda=cuda)
        sys.modules["cupy"] = self.namespace
        self.addCleanup(sys.modules.pop, "cupy")

    def test_runs_are_enqueued_on_the_current_stream(self):
        model = load("sum", "cuda")
        x = self.kind((5, 4))
        y = model(x)
        self.stream = 0
        model(x)
        # DLPack's name of the default stream is 1.
        self.assertEqual((x.streams, y.streams), ([0x5000, 1], [0x5000]))
        model.synchronize()


def exchanging_library(current):
    """A class of tensors whose type has the function table of DLPack 1.3, as PyTorch's has; it records the calls."""
    asked = types.SimpleNamespace(streams=[], allocated=[], current=current)
    signature = ctypes.CFUNCTYPE

    class Exchanged(Tensor):
        def __dlpack__(self, **_):
            raise AssertionError("the table is faster")

    @signature(ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p, ctypes.c_void_p)
    def allocate(prototype, out, context, set_error):
        wanted = prototype.contents
        made = Exchanged([wanted.shape[axis] for axis in range(wanted.ndim)], gpu=wanted.device_id)
        made.managed = Managed(1, 3)
        made.fill(made.managed.tensor)
        asked.allocated.append(made)
        out[0] = ctypes.pointer(made.managed)
        return 0

    @signature(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def managed_from_object(tensor, out):
        return -1

    @signature(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    def object_from_managed(managed, out):
        made = next(made for made in asked.allocated if ctypes.addressof(made.managed) == managed)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        out[0] = id(made)
        return 0

    @signature(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(DLTensor))
    def tensor_from_object(tensor, out):
        ctypes.cast(tensor, ctypes.py_object).value.fill(out.contents)
        return 0

    @signature(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def current_stream(kind, gpu, out):
        asked.streams.append((kind, gpu))
        out[0] = asked.current
        return 0

    class Table(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p)] + [
            (name, ctypes.c_void_p) for name in ("allocate", "managed_from_object", "object_from_managed", "tensor_from_object", "stream")
        ]

    functions = [allocate, managed_from_object, object_from_managed, tensor_from_object, current_stream]
    table = Table(1, 3, None, *(ctypes.cast(function, ctypes.c_void_p) for function in functions))
    newer = Table(2, 0, ctypes.addressof(table))  # a later version, which names the one that is known here
    KEPT.extend([functions, table, newer])
    Exchanged.__dlpack_c_exchange_api__ = CAPSULE(ctypes.addressof(newer), b"dlpack_exchange_api", None)
    return Exchanged, asked


class ExchangedTensors(unittest.TestCase):
    def test_a_call_needs_no_call_of_python(self):
        kind, asked = exchanging_library(current=0x7000)
        model = load("sum", "cuda")
        x = kind((5, 4))
        y = model(x)
        self.assertIs(y, asked.allocated[0])
        self.assertEqual((y.shape, y.gpu, asked.streams), ((5, 4), 0, [(CUDA, 0)]))
        y = kind((5, 4))
        model.run_into(y, x)
        with self.assertRaisesRegex(fusec.BadInput, "shares memory"):
            model.run_into(x, x)

    def test_streams_of_two_libraries(self):
        pair = load("pair", "cuda")
        one, asked = exchanging_library(current=0x7000)
        third = library("somearrays")[0]((2, 5))
        pair(one((2, 3)), third)
        self.assertEqual(third.streams, [0x7000])  # the table's library orders nothing, so its stream it is
        other, asked = exchanging_library(current=0x7000)
        pair(one((2, 3)), other((2, 5)))
        asked.current = 0x8000
        with self.assertRaisesRegex(fusec.BadInput, "two libraries that work on different streams"):
            pair(one((2, 3)), other((2, 5)))
