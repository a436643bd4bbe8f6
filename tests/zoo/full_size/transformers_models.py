"""Models of the transformers library at the sizes of published ones, with random weights: for launches.py --full-size, which measures them.
They are too large for the interpreter that judges the models of libraries/."""

import torch
import transformers

from model import Input, Model, ids, mask

SIZES = ({"batch": 3, "seq": 40}, {"batch": 16, "seq": 128})
SPREAD = dict(initializer_range=0.03)  # weights that export.py leaves as they are

TEXT = {
    "MiniLM-L6_f16": ("Bert", dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536), torch.float16),
    "BERT-base_f16": ("Bert", {}, torch.float16),
    "BERT-base_f32": ("Bert", {}, torch.float32),
    "GPT-2_f16": ("GPT2", dict(use_cache=False), torch.float16),
    "Qwen2-0.5B_f16": ("Qwen2", dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                                     num_key_value_heads=2, vocab_size=151936, use_cache=False), torch.float16),
    "T5-small_encoder_f32": ("T5Encoder", dict(d_model=512, num_layers=6, num_heads=8, d_ff=2048), torch.float32),
}  # fmt: skip


def made(prefix, settings, dtype):
    config = getattr(transformers, prefix.removesuffix("Encoder") + "Config")(**SPREAD | settings)
    return lambda: getattr(transformers, prefix + "Model")(config).to(dtype)


def encode(net, tokens, ones):
    return net(input_ids=tokens, attention_mask=ones).last_hidden_state


def models():
    inputs = [ids("input_ids", "batch", "seq", below=1000, lowest=5), mask("attention_mask", "batch", "seq")]
    for name, (prefix, settings, dtype) in TEXT.items():
        yield Model(name, made(prefix, settings, dtype), inputs, encode, SIZES)
    pixels = Input("pixel_values", ("batch", 3, 224, 224), lambda sizes: torch.randn(sizes, dtype=torch.float16))
    yield Model("ViT-B16_f16", made("ViT", {}, torch.float16), [pixels], lambda net, x: net(pixel_values=x).last_hidden_state, SIZES)
