"""The families of models/suite_graphs.py as JAX functions of (weights by PyTorch's name, inputs...)."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

ALPHA = 0.5
EPSILON = 1e-5


def linear(p, name, x):
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def lora(p, name, x):
    y = linear(p, f"{name}.linear", x)
    return y + ALPHA * (x @ p[f"{name}.A"] @ p[f"{name}.B"]) if f"{name}.A" in p else y


def mlp(p, name, x):
    layer = 0
    while f"{name}.{layer}.weight" in p:
        x = jax.nn.relu(x) if layer else x
        x = linear(p, f"{name}.{layer}", x)
        layer += 2
    return x


def rows_of(p, table, ids):
    """A look-up without the range checks of ids that XLA adds by default."""
    return p[f"tables.{table}.weight"].at[ids].get(mode="promise_in_bounds", wrap_negative_indices=False)


def look_up(p, config, ids):
    if "bags" not in config:
        return [rows_of(p, i, ids[:, i]) for i in range(len(config["rows"]))]
    ends = np.cumsum(config["bags"])
    return [rows_of(p, i, ids[:, end - size:end]).sum(1) for i, (end, size) in enumerate(zip(ends, config["bags"]))]


def layer_norm(x, weight=None, bias=None):
    """Layer normalization with statistics in float32, as in the other frameworks."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    y = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
    if weight is not None:
        y = y * weight.astype(jnp.float32) + bias.astype(jnp.float32)
    return y.astype(x.dtype)


def lecture(config, p, dense, sparse):
    hashed = (sparse + 1) % jnp.asarray(config["rows"], jnp.int32)
    x = jnp.concatenate([mlp(p, "bottom", dense), *look_up(p, config, hashed)], 1)
    z = (x[:, :, None] * x[:, None, :]).reshape(x.shape[0], -1)
    return jax.nn.sigmoid(mlp(p, "top", z)).squeeze()


def dot(config, p, dense, sparse):
    d = jax.nn.relu(mlp(p, "bottom", dense))
    t = jnp.stack([d, *look_up(p, config, sparse)], 1)
    rows, columns = np.tril_indices(t.shape[1], -1)
    z = jnp.einsum("bid,bjd->bij", t, t)[:, rows, columns]
    return jax.nn.sigmoid(mlp(p, "top", jnp.concatenate([d, z], 1)))


def dcnv2(config, p, dense, sparse):
    d = jax.nn.relu(mlp(p, "bottom", dense))
    x0 = x = jnp.concatenate([d, *look_up(p, config, sparse)], 1)
    for i in range(config["crosses"]):
        x = x0 * linear(p, f"w.{i}", linear(p, f"v.{i}", x)) + x
    return jax.nn.sigmoid(mlp(p, "top", x))


def lora_mlp(config, p, x):
    return jax.nn.sigmoid(lora(p, "layers.2", jax.nn.relu(lora(p, "layers.0", x))))


def lola(config, p, x):
    return jax.nn.gelu(linear(p, "dense", layer_norm(x)), approximate=True)


def attention(q, k, v):
    """Causal attention; uses cuDNN's flash attention where it is available, since PyTorch uses its own."""
    if q.dtype == jnp.float16 and jax.default_backend() == "gpu":
        try:
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
        except (NotImplementedError, RuntimeError, ValueError) as error:
            print(f"no attention of cuDNN, so XLA's: {error}", file=sys.stderr)
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla")


def lora_block(config, p, x):
    batch, tokens, width = x.shape
    heads = config["heads"]
    y = lora(p, "qkv", layer_norm(x, p["n1.weight"], p["n1.bias"])).reshape(batch, tokens, 3, heads, width // heads)
    a = attention(y[:, :, 0], y[:, :, 1], y[:, :, 2])
    x = x + lora(p, "o", a.reshape(batch, tokens, width))
    y = jax.nn.gelu(linear(p, "up", layer_norm(x, p["n2.weight"], p["n2.bias"])), approximate=True)
    return x + linear(p, "down", y)


FAMILIES = {"lecture": lecture, "dot": dot, "dcnv2": dcnv2, "lora_mlp": lora_mlp, "lola": lola,
            "lora_block": lora_block}


def function_of(family, config):
    function = FAMILIES[family]
    return lambda weights, *inputs: function(config, weights, *inputs)
