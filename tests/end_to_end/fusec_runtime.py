"""A thin face of the runtime's C ABI for test scripts: load an artifact, run it on numpy arrays."""
import ctypes

import numpy

_DTYPES = ["float32", "float16", None, "float64", "int8", "int16", "int32", "int64",
           "uint8", "uint16", "uint32", "uint64", "bool"]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("dims", ctypes.POINTER(ctypes.c_char_p))]


class Program:
    def __init__(self, library, artifact, device="cpu"):
        self.rt = ctypes.CDLL(library)
        self.rt.fusec_last_error.restype = ctypes.c_char_p
        self.rt.fusec_get_output.restype = ctypes.c_void_p
        self.program, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self.rt.fusec_load(artifact.encode(), device.encode() if device else None,
                                       ctypes.byref(self.program)))
        self._check(self.rt.fusec_create_context(self.program, ctypes.byref(self.context)))
        self.inputs = self._infos(self.rt.fusec_input_count, self.rt.fusec_input_info)
        self.outputs = self._infos(self.rt.fusec_output_count, self.rt.fusec_output_info)

    def _check(self, status):
        if status != 0:
            raise RuntimeError(f"{status}: {self.rt.fusec_last_error().decode()}")

    def _infos(self, count, info):
        infos = []
        for i in range(count(self.program)):
            item = TensorInfo()
            self._check(info(self.program, i, ctypes.byref(item)))
            infos.append(item)
        return infos

    def run(self, arrays):
        """arrays: one numpy array per input, in order. Returns one per output (bf16 as uint16)."""
        keep = [numpy.ascontiguousarray(a) for a in arrays]
        for i, array in enumerate(keep):
            dims = (ctypes.c_int64 * array.ndim)(*array.shape)
            self._check(self.rt.fusec_bind_input(self.context, i, ctypes.c_void_p(array.ctypes.data), dims,
                                                 array.ndim, 0))
        self._check(self.rt.fusec_run(self.context))
        results = []
        for i, info in enumerate(self.outputs):
            dims = (ctypes.c_int64 * max(info.rank, 1))()
            self._check(self.rt.fusec_output_dims(self.context, i, dims))
            size = ctypes.c_size_t()
            data = self.rt.fusec_get_output(self.context, i, ctypes.byref(size))
            raw = ctypes.string_at(data, size.value) if size.value else b""
            dtype = _DTYPES[info.dtype] or "uint16"
            results.append(numpy.frombuffer(raw, dtype).reshape(list(dims)[:info.rank]))
        return results

    def __del__(self):
        if self.context:
            self.rt.fusec_destroy_context(self.context)
        if self.program:
            self.rt.fusec_unload(self.program)
