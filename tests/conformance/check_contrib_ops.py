#!/usr/bin/env python3
"""Compares fusec with onnxruntime for onnxruntime's own ops (domain com.microsoft) and those of ai.onnx.ml, on the CPU or, with --cuda, on a GPU.

    check_contrib_ops.py FUSEC [PATTERN] [--cuda sm_90a]

Every case is a node with random inputs. The cases of a group are compiled as one model, whose outputs are compared with onnxruntime's: floats
by their relative L2 distance, codes of quantized tensors by at most one step. PATTERN, a regular expression, selects cases by name. At the end,
every op that `fusec --list-ops` names must have had a case.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ml_cases import ML, ml

GROUPS = {}
TOLERANCE = 2e-5  # relative L2
DOMAIN = "com.microsoft"
rng = np.random.default_rng(7)


def real(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def codes(*shape, low=0, high=256, dtype=np.uint8):
    return rng.integers(low, high, shape).astype(dtype)


def scale(value):
    return np.array(value, np.float32)


def case(group, op, inputs, outputs=1, *, name="", constant=(), dims=None, tolerance=TOLERANCE, domain=DOMAIN, kept=None, **attributes):
    """A node: `inputs` are named arrays, None for one that is left out; those of `constant` are initializers. `dims` gives inputs symbolic dims.
    `kept` of an output selects the elements that are compared."""
    label = f"{op}{'_' + name if name else ''}"
    assert all(label != other["label"] for cases in GROUPS.values() for other in cases), label
    GROUPS.setdefault(group, []).append(dict(label=label, op=op, inputs=inputs, outputs=outputs, constant=constant, dims=dims or {},
                                             tolerance=tolerance, domain=domain, kept=kept, attributes=attributes))


def activations():
    x = real(5, 7, 24)
    case("activations", "Gelu", dict(X=x), dims=dict(X=("n", 7, 24)))
    case("activations", "BiasGelu", dict(A=x, B=real(24)))
    case("activations", "FastGelu", dict(X=x), name="plain")
    case("activations", "FastGelu", dict(X=x, bias=real(24)), name="bias")
    case("activations", "QuickGelu", dict(X=x), name="default")
    case("activations", "QuickGelu", dict(X=x), name="alpha", alpha=1.3)


def products():
    case("products", "FusedMatMul", dict(A=real(3, 4, 5), B=real(5, 6)), name="plain", alpha=0.5)
    case("products", "FusedMatMul", dict(A=real(2, 4, 5), B=real(2, 4, 6)), name="transposed_a", transA=1)
    case("products", "FusedMatMul", dict(A=real(2, 4, 5), B=real(2, 6, 5)), name="transposed_b", transB=1, dims=dict(A=("b", 4, 5), B=("b", 6, 5)))
    case("products", "FusedMatMul", dict(A=real(4, 2, 3, 5), B=real(2, 3, 6, 5)), name="first_dim_a", transBatchA=1, transB=1)
    case("products", "FusedMatMul", dict(A=real(2, 3, 4, 5), B=real(6, 2, 3, 5)), name="first_dim_b", transBatchB=1, transB=1, alpha=0.5)
    case("products", "FusedMatMul", dict(A=real(5, 3, 4), B=real(3, 5, 6)), name="first_dim_transposed", transBatchA=1, transA=1)
    case("products", "TransposeMatMul", dict(A=real(5, 4), B=real(6, 5)), transA=1, transB=1, alpha=2.0)
    for activation, more in (("Relu", {}), ("LeakyRelu", dict(activation_alpha=0.2)), ("Tanh", {}), ("Sigmoid", {}),
                             ("HardSigmoid", dict(activation_alpha=0.3, activation_beta=0.4))):
        case("products", "FusedGemm", dict(A=real(4, 5), B=real(6, 5), C=real(6)), name=activation, activation=activation, alpha=0.7, beta=0.3,
             transB=1, **more)
    for activation, more in (("Relu", {}), ("LeakyRelu", dict(activation_params=[0.2])), ("Clip", dict(activation_params=[-0.5, 0.5])),
                             ("HardSigmoid", dict(activation_params=[0.3, 0.4]))):
        case("products", "FusedConv", dict(X=real(2, 3, 8), W=real(4, 3, 3), B=real(4)), name=activation, activation=activation, kernel_shape=[3],
             pads=[1, 1], strides=[2], **more)
    case("products", "FusedConv", dict(X=real(2, 3, 8, 8), W=real(4, 3, 3, 3), B=real(4), Z=real(2, 4, 6, 6)), name="sum", activation="Relu")


def norms():
    x, y = real(3, 5, 32), real(3, 5, 32)
    weights = dict(gamma=real(32), beta=real(32))
    case("norms", "SkipLayerNormalization", dict(input=x, skip=y, **weights), name="plain", epsilon=1e-5, dims=dict(input=("b", "s", 32), skip=("b", "s", 32)))
    case("norms", "SkipLayerNormalization", dict(input=x, skip=y, **weights, bias=real(32)), outputs=[0, 3], name="sum", epsilon=1e-5)
    case("norms", "SkipLayerNormalization", dict(input=x, skip=real(1, 5, 32), gamma=real(32)), name="broadcast")
    case("norms", "SkipSimplifiedLayerNormalization", dict(input=x, skip=y, gamma=real(32)), outputs=[0, 3], name="sum", epsilon=1e-6)
    case("norms", "SkipSimplifiedLayerNormalization", dict(input=x, skip=y, gamma=real(32), bias=real(32)), name="bias", epsilon=1e-6)
    # onnxruntime writes these without a domain.
    case("norms", "SimplifiedLayerNormalization", dict(X=x, scale=real(32)), name="default_domain", domain="", epsilon=1e-6, axis=-1, stash_type=1)
    case("old_norms", "LayerNormalization", dict(X=x, Scale=real(32), B=real(32)), name="opset_14", domain="", epsilon=1e-6, axis=-1)
    tables = dict(word_embedding=real(40, 32), position_embedding=real(12, 32), segment_embedding=real(2, 32), **weights)
    ids = codes(3, 5, high=40, dtype=np.int32)
    segments = codes(3, 5, high=2, dtype=np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], np.int32)
    case("norms", "EmbedLayerNormalization", dict(input_ids=ids, segment_ids=segments, **tables, mask=mask), outputs=[0, 1, 2], name="all", constant=tuple(tables),
         dims=dict(input_ids=("b", "s"), segment_ids=("b", "s"), mask=("b", "s")))
    case("norms", "EmbedLayerNormalization", dict(input_ids=ids, segment_ids=None, word_embedding=real(40, 32), position_embedding=real(12, 32),
                                                  segment_embedding=None, **weights, mask=None, position_ids=codes(3, 5, high=12, dtype=np.int32)),
         outputs=[0, 1], name="positions")


def attention():
    batch, length, heads, size = 3, 7, 4, 8
    width = heads * size
    x, w, b = real(batch, length, width), real(width, 3 * width) / 6, real(3 * width)
    lengths = np.array([3, 7, 5], np.int32)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    dims = dict(input=("batch", "length", width))
    past = real(2, batch, heads, 4, size)

    def own(name, inputs, outputs=1, **more):
        every = dict(input=x, weights=w, bias=b, mask_index=None, past=None, attention_bias=None)
        case("attention", "Attention", {**every, **inputs}, outputs, name=name, num_heads=heads, tolerance=5e-5, **more)

    own("plain", {}, dims=dims)
    own("causal", {}, dims=dims, unidirectional=1)
    own("mask", dict(mask_index=mask), dims=dict(dims, mask_index=("batch", "length")))
    own("mask3", dict(mask_index=np.tril(np.ones((batch, length, length), np.int32))))
    own("lengths", dict(mask_index=lengths), mask_filter_value=-5000.0)
    own("begins", dict(mask_index=np.array([3, 7, 5, 1, 0, 2], np.int32)))
    own("bias", dict(attention_bias=real(batch, heads, length, length)))
    own("bias_of_all", dict(attention_bias=real(1, heads, length, length), mask_index=mask))
    own("past", dict(past=past), [0, 1], unidirectional=1)
    own("masked_past", dict(past=past, mask_index=np.concatenate([np.ones((batch, 4), np.int32), mask], 1)), [0, 1], unidirectional=1, scale=0.3)
    own("sizes", dict(weights=real(width, 2 * width + 16) / 6, bias=real(2 * width + 16)), qkv_hidden_sizes=[width, width, 16])

    def multi(name, inputs, outputs=1, **more):
        every = dict(query=real(batch, length, width), key=real(batch, 5, width), value=real(batch, 5, width), bias=None, key_padding_mask=None,
                     attention_bias=None, past_key=None, past_value=None)
        case("attention", "MultiHeadAttention", {**every, **inputs}, outputs, name=name, num_heads=heads, tolerance=5e-5, **more)

    multi("plain", {}, dims=dict(query=("batch", "q", width), key=("batch", "k", width), value=("batch", "k", width)))
    multi("bias", dict(bias=real(3 * width)))
    multi("mask", dict(key_padding_mask=mask[:, :5]))
    multi("lengths", dict(key_padding_mask=np.array([3, 5, 1], np.int32)))
    multi("attention_bias", dict(attention_bias=real(1, heads, length, 5)), scale=0.2)
    multi("causal", dict(key=real(batch, length, width), value=real(batch, length, width)), unidirectional=1)
    multi("cached", dict(key=real(batch, heads, 5, size), value=real(batch, heads, 5, size)))
    multi("past", dict(past_key=real(batch, heads, 4, size), past_value=real(batch, heads, 4, size)), [0, 1, 2])
    multi("present", dict(bias=real(3 * width)), [0, 1, 2])

    # A cache: a first prompt of several lengths, and then one token for each sequence.
    kv_heads, capacity, size, width = 2, 16, 16, 64
    angles = np.arange(capacity)[:, None] / 100.0 ** (np.arange(size // 2) / (size // 2))
    caches = dict(cos_cache=np.cos(angles).astype(np.float32), sin_cache=np.sin(angles).astype(np.float32))

    def grouped(name, new, past, totals, outputs=(0, 1, 2), packed=False, rotary=1, longest=None, extra=None, resident=None, **more):
        totals = np.array(totals, np.int32)
        longest = longest or int(totals.max())
        inputs = dict(query=real(batch, new, width), key=real(batch, new, kv_heads * size), value=real(batch, new, kv_heads * size))
        if packed:
            inputs = dict(query=real(batch, new, (heads + 2 * kv_heads) * size), key=None, value=None)
        inputs |= dict(past_key=real(batch, kv_heads, past, size), past_value=real(batch, kv_heads, past, size), seqlens_k=totals - 1,
                       total_sequence_length=np.array(longest, np.int32))
        inputs |= caches if rotary else dict(cos_cache=None, sin_cache=None)
        inputs |= extra or {}
        # What onnxruntime leaves behind a sequence is undefined.
        valid = np.arange(past if resident else max(longest, past)) < np.array(resident or totals)[:, None]
        rows = np.arange(new) < (totals[:, None] if past == 0 or new == longest else np.full((batch, 1), new))
        kept = {0: np.broadcast_to(rows[:, :, None], (batch, new, width)),
                1: np.broadcast_to(valid[:, None, :, None], (batch, kv_heads, valid.shape[1], size))}
        case("attention", "GroupQueryAttention", inputs, list(outputs), name=name, num_heads=heads, kv_num_heads=kv_heads, do_rotary=rotary,
             constant=("total_sequence_length", *caches), tolerance=5e-5, kept={0: kept[0], 1: kept[1], 2: kept[1]}, **more)

    grouped("prompt", 6, 0, [3, 6, 5])
    grouped("prompt_packed", 6, 0, [6, 6, 6], packed=True)
    grouped("token", 1, 6, [7, 7, 7])
    grouped("token_uneven", 1, 6, [4, 7, 6])
    grouped("window", 1, 9, [10, 8, 10], local_window_size=4)
    grouped("prompt_window", 9, 0, [9, 9, 9], local_window_size=4)
    grouped("interleaved", 6, 0, [6, 6, 6], rotary_interleaved=1)
    grouped("softcap", 1, 6, [7, 7, 7], softcap=2.0, scale=0.7)
    grouped("no_rotary", 1, 6, [7, 5, 7], rotary=0)
    grouped("shared_buffer", 1, capacity, [7, 5, 9])
    # A cache that holds a window of 4 positions and some more; what lies behind the last position is undefined.
    held = lambda totals, rows: [t if t <= rows else t - (rows - 3) * -(-(t - rows) // (rows - 3)) for t in totals]  # noqa: E731
    for name, new, rows, totals in (("prompt", 9, 6, [9, 9, 9]), ("short_prompt", 3, 6, [3, 3, 3]), ("token", 1, 6, [14, 7, 3]), ("tight", 1, 4, [14, 5, 3])):
        grouped("windowed_" + name, new, rows, totals, local_window_size=4, sliding_window_cache=1, resident=held(totals, rows))

    rotary = {name: cache[:, :4].copy() for name, cache in caches.items()}
    width, size = 32, 8
    positions = codes(batch, length, high=capacity, dtype=np.int64)
    case("attention", "RotaryEmbedding", dict(input=x, position_ids=positions, **rotary), name="rows")
    case("attention", "RotaryEmbedding", dict(input=x, position_ids=np.array([3], np.int64), **rotary), name="offset")
    case("attention", "RotaryEmbedding", dict(input=real(batch, heads, length, size), position_ids=positions, **rotary), name="heads", interleaved=1)
    case("attention", "RotaryEmbedding", dict(input=x, position_ids=positions, cos_cache=caches["cos_cache"][:, :2].copy(),
                                              sin_cache=caches["sin_cache"][:, :2].copy()), name="partial", num_heads=heads, rotary_embedding_dim=4)


def quantized():
    step, zero = scale(0.02), np.array(120, np.uint8)
    a, b = codes(4, 16), codes(16, 6)
    case("quantized", "QuantizeLinear", dict(x=real(5, 6), y_scale=scale(0.0001), y_zero_point=np.array(300, np.uint16)), name="u16")
    case("quantized", "DequantizeLinear", dict(x=codes(5, 6, high=60000, dtype=np.uint16), x_scale=scale(0.0001), x_zero_point=np.array(300, np.uint16)), name="u16")
    case("quantized", "DequantizeLinear", dict(x=codes(5, 6), x_scale=np.abs(real(6)), x_zero_point=codes(6)), name="axis", axis=1)
    scales = dict(a_scale=step, a_zero_point=zero)
    case("quantized", "QGemm", dict(A=a, **scales, B=b, b_scale=step, b_zero_point=zero, C=codes(6, low=-900, high=900, dtype=np.int32), y_scale=scale(0.3),
                                    y_zero_point=zero), name="codes", dims=dict(A=("n", 16)))
    case("quantized", "QGemm", dict(A=a, **scales, B=codes(6, 16, low=-63, high=64, dtype=np.int8), b_scale=np.abs(real(6)) * scale(0.02),
                                    b_zero_point=np.zeros(6, np.int8), C=codes(6, low=-900, high=900, dtype=np.int32)), name="reals", transB=1, alpha=0.5)
    # Of 7 bits: without instructions for it, onnxruntime's products of bytes saturate sums of two products at 16 bits.
    signed = codes(16, 6, low=-63, high=64, dtype=np.int8)
    case("quantized", "MatMulIntegerToFloat", dict(A=a, B=signed, a_scale=step, b_scale=np.abs(real(6)), a_zero_point=zero, b_zero_point=np.array(3, np.int8),
                                                   bias=real(6)), name="bias")
    case("quantized", "MatMulIntegerToFloat", dict(A=codes(2, 4, 16), B=signed, a_scale=step, b_scale=step, a_zero_point=zero), name="batch")
    case("quantized", "DynamicQuantizeMatMul", dict(A=real(4, 16), B=signed, b_scale=step, b_zero_point=np.array(3, np.int8), bias=real(6)), name="bias")
    case("quantized", "DynamicQuantizeMatMul", dict(A=real(2, 4, 16), B=b, b_scale=step), name="plain")
    between = dict(X=codes(3, 4, 6, 6), X_scale=step, X_zero_point=zero)
    to = dict(Y_scale=scale(0.01), Y_zero_point=zero)
    case("quantized", "QLinearAdd", dict(A=a, A_scale=step, A_zero_point=zero, B=codes(16), B_scale=scale(0.03), B_zero_point=zero, C_scale=scale(0.05), C_zero_point=zero))
    case("quantized", "QLinearMul", dict(A=a, A_scale=step, A_zero_point=zero, B=codes(4, 16), B_scale=scale(0.03), B_zero_point=zero, C_scale=scale(0.05), C_zero_point=zero))
    case("quantized", "QLinearSigmoid", dict(**between, Y_scale=scale(1 / 256), Y_zero_point=np.array(0, np.uint8)))
    case("quantized", "QLinearLeakyRelu", dict(X=codes(4, 9, low=-128, high=128, dtype=np.int8), X_scale=step, X_zero_point=np.array(-5, np.int8), Y_scale=step,
                                               Y_zero_point=np.array(9, np.int8)), alpha=0.3)
    case("quantized", "QLinearSoftmax", dict(**between, Y_scale=scale(1 / 256), Y_zero_point=np.array(0, np.uint8)), opset=13, axis=-1)
    case("quantized", "QLinearGlobalAveragePool", dict(**between, **to))
    case("quantized", "QLinearAveragePool", dict(**between, **to), kernel_shape=[3, 3], strides=[2, 2])
    case("quantized", "QLinearWhere", dict(condition=codes(4, 9, high=2, dtype=bool), X=codes(4, 9), x_scale=step, x_zero_point=zero, Y=codes(4, 9), y_scale=scale(0.01),
                                           y_zero_point=zero, z_scale=step, z_zero_point=zero))
    case("quantized", "QLinearConcat", dict(Y_scale=step, Y_zero_point=zero, a=codes(4, 9), a_scale=scale(0.01), a_zero=zero, b=codes(4, 3), b_scale=scale(0.03), b_zero=zero),
         axis=1)
    heads, width = 4, 32
    case("quantized", "QAttention", dict(input=codes(2, 5, width), weight=codes(width, 3 * width, low=-63, high=64, dtype=np.int8), bias=real(3 * width),
                                         input_scale=step, weight_scale=scale(0.01), mask_index=np.array([3, 5], np.int32), input_zero_point=zero,
                                         weight_zero_point=np.array(2, np.int8)), num_heads=heads, tolerance=1e-4)
    tables = dict(word_embedding_quant=codes(40, 16), position_embedding_quant=codes(12, 16), segment_embedding=codes(2, 16), gamma_quant=codes(16), beta_quant=codes(16))
    names = ("word_embedding", "position_embedding", "segment_embedding", "gamma", "beta")
    case("quantized", "QEmbedLayerNormalization", dict(input_ids=codes(3, 5, high=40, dtype=np.int32), segment_ids=codes(3, 5, high=2, dtype=np.int32), **tables,
                                                       mask=np.ones((3, 5), np.int32), **{n + "_scale": scale(0.02) for n in names},
                                                       **{n + "_zero_point": zero for n in names}), outputs=[0, 1], epsilon=1e-5)

    def blocks(name, bits, n, k, size, zeros=None, groups=False, rows=3, **more):
        count, held = -(-k // size), size * bits // 8
        inputs = dict(A=real(rows, k), B=codes(n, count, held), scales=np.abs(real(n, count)) + np.float32(0.1))
        inputs["zero_points"] = None if zeros is None else codes(n, -(-count * bits // 8)) if zeros == "codes" else real(n, count) + np.float32(2 ** (bits - 1))
        inputs["g_idx"] = rng.permutation(np.arange(k) // size).astype(np.int32) if groups else None
        inputs["bias"] = real(n)
        case("quantized", "MatMulNBits", inputs, name=name, bits=bits, N=n, K=k, block_size=size, constant=("B", "scales", "zero_points", "g_idx"), **more)

    blocks("four", 4, 10, 64, 32)
    blocks("four_zeros", 4, 10, 96, 32, "codes")
    blocks("four_rest", 4, 6, 50, 16, "codes")
    blocks("eight", 8, 10, 64, 32, "codes")
    blocks("real_zeros", 4, 10, 64, 16, "reals")
    blocks("groups", 4, 10, 64, 16, groups=True)  # with zero points, onnxruntime's CPU kernel of groups takes 8 for all of them
    # Weights that are large enough to stay packed.
    blocks("packed", 4, 72, 96, 32, "codes")
    blocks("packed_rest", 4, 90, 98, 16, "codes")
    blocks("packed_many_rows", 4, 72, 96, 32, rows=40)
    blocks("packed_real_zeros", 4, 80, 96, 16, "reals")
    blocks("packed_groups", 4, 80, 96, 16, groups=True)
    for kind, k in ((0, 64), (1, 48)):
        case("quantized", "MatMulBnb4", dict(A=real(3, k), B=codes(10 * k // 2), absmax=np.abs(real(-(-10 * k // 32)))), name=f"type_{kind}", N=10, K=k, block_size=32,
             quant_type=kind, transB=1, constant=("B", "absmax"))
    case("quantized", "GatherBlockQuantized", dict(data=codes(20, 16), indices=codes(3, 2, high=20, dtype=np.int64), scales=np.abs(real(20, 2))), bits=4, block_size=16,
         gather_axis=0, quantize_axis=1, constant=("data", "scales"))


def tensors():
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        case("tensors", "MurmurHash3", dict(X=codes(40, low=0, high=2**31, dtype=dtype)), name=dtype.__name__, seed=42)
    case("tensors", "MurmurHash3", dict(X=real(40)), name="float", positive=0)
    case("tensors", "MurmurHash3", dict(X=codes(40, low=-2**62, high=2**62, dtype=np.int64)), name="wide", positive=0, seed=7)
    case("tensors", "CDist", dict(A=real(5, 8), B=real(6, 8)), name="squared")
    case("tensors", "CDist", dict(A=real(5, 8), B=real(6, 8)), name="root", metric="euclidean")
    case("tensors", "ExpandDims", dict(X=real(3, 4), axis=np.array(-1, np.int32)), constant=("axis",))
    case("tensors", "GatherND", dict(data=real(4, 5), indices=codes(3, 2, high=4, dtype=np.int64)))
    case("tensors", "Pad", dict(data=real(3, 4), pads=np.array([1, 0, 2, 3], np.int64), value=real(1)), constant=("pads",))
    case("tensors", "Range", dict(start=np.array(2, np.int64), limit=np.array(9, np.int64)), constant=("start", "limit"))
    case("tensors", "Trilu", dict(X=real(4, 5), k=np.array(1, np.int64)), constant=("k",), upper=0)


def t5_buckets(queries, keys, both, count, most):
    """The bucket of every query and key, as T5Attention._relative_position_bucket of the transformers library defines it."""
    ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    first = np.zeros_like(ahead)
    if both:
        count //= 2
        first = (ahead > 0) * count
    distance = np.abs(ahead) if both else -np.minimum(ahead, 0)
    exact = count // 2
    far = exact + (np.log(np.maximum(distance, 1) / exact) / np.log(most / exact) * (count - exact)).astype(int)
    return first + np.where(distance < exact, distance, np.minimum(far, count - 1))


def attended(q, k, v, causal=False):
    """Attention of tensors [batch, positions, heads, size]."""
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)
    return y.reshape(*y.shape[:2], -1).astype(np.float32)


def blocks_of(n, k, size, bits):
    """Bytes and scales of a matrix [n, k], as MatMulNBits has them, and the matrix."""
    count = -(-k // size)
    numbers, scales = codes(n, count, size, high=2**bits), np.abs(real(n, count)) / 8
    apart = numbers.reshape(n, count, -1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint8)
    matrix = (numbers.astype(np.float32) - 2 ** (bits - 1)) * scales[..., None]
    return np.bitwise_or.reduce(apart, -1).astype(np.uint8), scales, matrix.reshape(n, -1)[:, :k]


# onnxruntime has no kernel for the CPU of these ops, or of these forms of them; the answers are NumPy's.
def without_kernel():
    a, b = real(3, 5, 2), real(3, 5, 2)
    complex_a, complex_b = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    pairs = lambda x: np.stack([x.real, x.imag], -1).astype(np.float32)  # noqa: E731
    case("numpy", "ComplexMul", dict(A=a, B=b), kept=dict(answers=[pairs(complex_a * complex_b)]))
    case("numpy", "ComplexMulConj", dict(A=a, B=b), kept=dict(answers=[pairs(complex_a * complex_b.conj())]))
    data = codes(3, 4, 5)
    case("numpy", "ReduceSumInteger", dict(data=data), kept=dict(answers=[data.sum(1, dtype=np.uint32)]), axes=[1], keepdims=0)
    x, y = codes(3, 4), codes(3, 4)
    case("numpy", "MulInteger", dict(A=x, A_zero_point=np.array(3, np.uint8), B=y, B_zero_point=np.array(7, np.uint8)),
         kept=dict(answers=[(x.astype(np.int32) - 3) * (y.astype(np.int32) - 7)]))
    case("numpy", "MulInteger", dict(A=x, A_zero_point=None, B=y), name="without_zero_points", kept=dict(answers=[x.astype(np.int32) * y]))
    codes_in = codes(3, 4, 6)
    means = np.round(((codes_in.astype(np.float32) - 120) * np.float32(0.02)).mean(2) / np.float32(0.01)) + 100
    case("numpy", "QLinearReduceMean", dict(X=codes_in, X_scale=scale(0.02), X_zero_point=np.array(120, np.uint8), Y_scale=scale(0.01), Y_zero_point=np.array(100, np.uint8)),
         kept=dict(answers=[np.clip(means, 0, 255).astype(np.uint8)]), axes=[2], keepdims=0)
    p, q = real(2, 4, 5), real(2, 5, 6)
    case("numpy", "FusedMatMulActivation", dict(A=p, B=q), kept=dict(answers=[np.maximum(0.5 * (p @ q), 0)]), activation="Relu", alpha=0.5)
    packed, query, keys = real(2, 5, 4, 3, 8), real(2, 3, 32), real(2, 5, 4, 2, 8)
    case("numpy", "MultiHeadAttention", dict(query=packed, key=None, value=None), name="packed", num_heads=4, kept=dict(answers=[attended(*np.moveaxis(packed, 3, 0))]))
    case("numpy", "MultiHeadAttention", dict(query=query, key=keys, value=None), name="packed_keys", num_heads=4,
         kept=dict(answers=[attended(query.reshape(2, 3, 4, 8), *np.moveaxis(keys, 3, 0))]))
    query, key, value, weights = real(2, 5, 4, 8), real(2, 5, 2, 8), real(2, 5, 2, 8), [real(8), real(8)]
    normal = [x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight for x, weight in zip((query, key), weights)]
    case("numpy", "GroupQueryAttention", dict(query=query.reshape(2, 5, 32), key=key.reshape(2, 5, 16), value=value.reshape(2, 5, 16), past_key=None, past_value=None,
                                              seqlens_k=np.array([4, 4], np.int32), total_sequence_length=np.array(5, np.int32), cos_cache=None, sin_cache=None,
                                              position_ids=None, attention_bias=None, head_sink=None, k_scale=None, v_scale=None, q_norm_weight=weights[0],
                                              k_norm_weight=weights[1]), name="norms", num_heads=4, kv_num_heads=2,
         kept=dict(answers=[attended(normal[0], np.repeat(normal[1], 2, 2), np.repeat(value, 2, 2), causal=True)]))
    for both in (0, 1):
        table = real(32, 4)
        most = 40 + 88 * both
        case("numpy", "RelativePositionBias", dict(bias_table=table, query_length=np.array(20, np.int64), key_length=np.array(20, np.int64)),
             name=f"bidirectional_{both}", constant=("query_length", "key_length"), is_bidirectional=both, max_distance=most,
             kept=dict(answers=[table[t5_buckets(20, 20, both, 32, most)].transpose(2, 0, 1)[None]]))
    gated = lambda gate, up, alpha=1.0, beta=0.0, limit=np.inf: (  # noqa: E731
        np.minimum(gate, limit) / (1 + np.exp(-alpha * np.minimum(gate, limit))) * (np.clip(up, -limit, limit) + beta))
    x, up, w = real(3, 5, 24), real(3, 5, 24), real(24, 22)
    case("numpy", "SwiGLU", dict(gate=x, up=up), kept=dict(answers=[gated(x, up)]))
    case("numpy", "SwiGLU", dict(gate=x), name="halves", dims=dict(gate=("n", 5, 24)), activation_alpha=1.7, activation_beta=1.0, limit=0.9,
         kept=dict(answers=[gated(x[..., :12], x[..., 12:], 1.7, 1.0, 0.9)]))
    case("numpy", "RouterGateUpProj", dict(X=x, W=w), 2, router_size=6, limit=2.0, constant=("W",),
         kept=dict(answers=[(x @ w)[..., :6], gated((x @ w)[..., 6:14], (x @ w)[..., 14:], limit=2.0)]))
    x = real(3, 80)
    for name, rank, bits, lora_bits, adapter in (("", 40, 4, 8, True), ("rank_4", 4, 8, 4, True), ("no_adapter", 4, 2, 8, False)):
        parts = [blocks_of(96, 80, 16, bits), blocks_of(rank, 80, 32, lora_bits), blocks_of(96, rank, 32, lora_bits)]
        y = x @ parts[0][2].T + (x @ parts[1][2].T @ parts[2][2].T if adapter else 0)
        names = ("W", "scales", "lora_A", "lora_A_scales", "lora_B", "lora_B_scales")
        inputs = dict(X=x, **dict(zip(names, (array for part in parts for array in part[:2]))))
        if not adapter:
            inputs["lora_B"] = inputs["lora_B"][:, :0]
        case("numpy", "MatMulNBitsQLoRA", inputs, name=name, N=96, K=80, bits=bits, block_size=16, lora_bits=lora_bits, lora_block_size=32,
             constant=names, dims=dict(X=("rows", 80)), kept=dict(answers=[y.astype(np.float32)]))
    x, gamma = real(4, 32), real(32)
    case("numpy", "LayerNormalization", dict(X=x, Scale=gamma), name="own_domain", epsilon=1e-5,
         kept=dict(answers=[(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma]))


def model_of(group, cases):
    nodes, inputs, constants, outputs, data = [], [], [], [], {}
    for one in cases:
        label, names = one["label"], []
        for key, array in one["inputs"].items():
            name = "" if array is None else f"{label}.{key}"
            names.append(name)
            if array is None:
                continue
            if key in one["constant"]:
                constants.append(numpy_helper.from_array(array, name))
                continue
            dims = [f"{label}_{dim}" if isinstance(dim, str) else dim for dim in one["dims"].get(key, array.shape)]
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
            data[name] = array
        while names and not names[-1]:
            names.pop()
        wanted = range(one["outputs"]) if isinstance(one["outputs"], int) else one["outputs"]
        results = [f"{label}.out{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
        nodes.append(helper.make_node(one["op"], names, results, name=label, domain=one["domain"], **one["attributes"]))
        outputs += [onnx.ValueInfoProto(name=result) for result in results if result]
    graph = helper.make_graph(nodes, group, inputs, outputs, constants)
    opset = 14 if group == "old_norms" else 21
    opsets = {"": opset, DOMAIN: 1, ML: 5 if group == "ml_ensembles" else 3}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in opsets.items()], ir_version=10), data


def answers_of(model, cases, data):
    for one in cases:
        if isinstance(one["kept"], dict) and "answers" in one["kept"]:
            assert all("answers" in other["kept"] for other in cases)
            return {f"{one['label']}.out{i}": answer for one in cases for i, answer in enumerate(one["kept"]["answers"])}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, data)))


def difference(ours, theirs, one, i):
    """A text that says how an output is wrong; "" if it is right."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{list(ours.shape)}, expected {theirs.dtype}{list(theirs.shape)}"
    if one["kept"] and i in one["kept"]:
        ours, theirs = ours[one["kept"][i]], theirs[one["kept"][i]]
    if ours.dtype.kind in "iu" and one["op"].startswith("Q") and ours.dtype.itemsize == 1:
        apart = np.abs(ours.astype(int) - theirs.astype(int))
        return "" if apart.max(initial=0) <= 1 and apart.mean() <= 0.05 else f"{apart.max()} steps apart, {apart.mean():.3f} in the mean"
    if ours.dtype.kind != "f":
        return "" if (ours == theirs).all() else f"{(ours != theirs).sum()} of {ours.size} elements differ"
    if not np.isfinite(ours).all():
        return "not finite"
    distance = np.linalg.norm(ours.astype(float) - theirs) / max(np.linalg.norm(theirs.astype(float)), 1e-30)
    return "" if distance <= one["tolerance"] else f"relative L2 {distance:.2g}, expected {one['tolerance']:.2g} or less"


def check(fusec, group, cases, folder, gpu):
    model, data = model_of(group, cases)
    file, artifact = folder / f"{group}.onnx", folder / group
    onnx.save(model, file)
    np.savez(folder / f"{group}.npz", **data)
    for command in ([fusec, file, "-o", artifact, "--target", gpu or "cpu"],
                    [fusec, "run", artifact, "--device", "cuda" if gpu else "cpu", "--input", folder / f"{group}.npz", "--output", folder / f"{group}_out"]):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            return [f"{group}: {done.stderr.strip()}"]
    try:
        theirs = answers_of(model, cases, data)
    except Exception as error:  # noqa: BLE001 (onnxruntime has many kinds)
        return [f"{group}: onnxruntime: {error}"]
    ours = {name: np.load(folder / f"{group}_out" / f"{name}.npy") for name in theirs}
    failures = []
    for one in cases:
        for name, expected in theirs.items():
            if name.rpartition(".out")[0] == one["label"]:
                wrong = difference(ours[name], expected, one, int(name.rpartition(".out")[2]))
                failures += [f"{name}: {wrong}"] if wrong else []
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fusec")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--cuda", metavar="TARGET", help="compile for this GPU and run there")
    arguments = parser.parse_args()
    fusec, pattern = arguments.fusec, arguments.pattern
    for make in (activations, products, norms, attention, quantized, tensors, without_kernel):
        make()
    ml(case, rng)
    failures, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for group, cases in GROUPS.items():
            cases = [one for one in cases if re.search(pattern, one["label"])]
            count += len(cases)
            if cases:
                failures += check(fusec, group, cases, pathlib.Path(folder), arguments.cuda)
    if not pattern:
        listed = subprocess.run([fusec, "--list-ops"], capture_output=True, text=True, check=True).stdout
        named = set(re.findall(rf"(?:{DOMAIN}|{ML})\.(\w+)", listed))
        tested = {one["op"] for cases in GROUPS.values() for one in cases}
        failures += [f"{op}: listed, but not tested" for op in sorted(named - tested)]
        failures += [f"{op}: tested, but not listed" for op in sorted(tested - named)]
    for failure in failures:
        print("FAIL", failure)
    print(f"{count} cases, {len(failures)} failures")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
