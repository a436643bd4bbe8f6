"""More small random models of the transformers library: mixtures of experts, state spaces, speech, vision, time series; with LoRA where people
fine-tune them so. peft_models.py has the usual encoders and decoders."""

import transformers

from libraries.peft_models import GROUPED, HEADS, MASK, SMALL, TOKENS, WIDTH, WORDS, configured, encode, plain_and_adapted
from model import Model, floats, ids

# Experts as batched products: PyTorch 2.13 does not export the library's grouped products.
EXPERTS = GROUPED | dict(use_cache=False, experts_implementation="batched_mm")
LATENT = dict(num_key_value_heads=HEADS, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8)
ROUTED = dict(n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=1)
FEW = dict(num_experts=4, num_experts_per_tok=2)

MIXTURES = {
    "Qwen3-MoE": ("Qwen3Moe", FEW | dict(head_dim=8, moe_intermediate_size=16)),
    "OLMoE": ("Olmoe", FEW),
    "gpt-oss": ("GptOss", dict(head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4)),
    "DeepSeek-V2": ("DeepseekV2", LATENT | ROUTED),
    "DeepSeek-V3": ("DeepseekV3", LATENT | ROUTED | dict(n_group=2, topk_group=1)),
    "GraniteMoE": ("GraniteMoe", dict(num_local_experts=4, num_experts_per_tok=2)),
}  # fmt: skip

IMAGES = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=64, image_size=16, patch_size=4)
STAGES = dict(hidden_sizes=[16, 32], depths=[1, 1])
SPEECH = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=64, conv_dim=(16, 16), conv_stride=(5, 2),
              conv_kernel=(10, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)  # fmt: skip
WHISPER = dict(d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=64,
               decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=20, vocab_size=WORDS, pad_token_id=0, bos_token_id=1, eos_token_id=2,
               decoder_start_token_id=1, use_cache=False)  # fmt: skip
SERIES = dict(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, prediction_length=8)


def words(net, tokens):
    return net(input_ids=tokens).logits


def last_layer(net, x):
    return net(x).last_hidden_state


def models():
    for name, (prefix, settings) in MIXTURES.items():
        make = lambda p=prefix, s=settings: configured(p, EXPERTS | s, "ForCausalLM")
        attention = "kv_a_proj_with_mqa o_proj" if "kv_lora_rank" in settings else "q_proj v_proj"
        yield from plain_and_adapted(name, make, attention, [TOKENS], words)
    yield from state_spaces()
    yield from others_of_text()
    yield from speech()
    yield from vision()
    yield from series()


def state_spaces():
    spaces = dict(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, use_cache=False)
    yield from plain_and_adapted("Mamba", lambda: configured("Mamba", spaces | dict(state_size=4), "ForCausalLM"), "in_proj x_proj", [TOKENS], words)
    heads = dict(state_size=8, num_heads=4, head_dim=8, n_groups=2, chunk_size=4)
    yield from plain_and_adapted("Mamba2", lambda: configured("Mamba2", spaces | heads, "ForCausalLM"), "in_proj", [TOKENS], words)
    yield Model("RWKV", lambda: configured("Rwkv", spaces | dict(attention_hidden_size=16), "ForCausalLM"), [TOKENS], words)


def others_of_text():
    gemma = GROUPED | dict(head_dim=8, sliding_window=4, query_pre_attn_scalar=8, use_cache=False)
    yield from plain_and_adapted("Gemma3", lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**gemma)), "q_proj v_proj", [TOKENS], words)
    yield Model("BigBird", lambda: configured("BigBird", SMALL | dict(attention_type="original_full")), [TOKENS, MASK], encode)
    relative = dict(vocab_size=WORDS, d_model=WIDTH, n_layer=2, n_head=HEADS, d_inner=64)
    yield Model("XLNet", lambda: configured("XLNet", relative), [TOKENS, MASK], encode)
    clip = SMALL | dict(projection_dim=16, eos_token_id=2)
    yield from plain_and_adapted("CLIP_text", lambda: configured("CLIPText", clip, "ModelWithProjection"), "q_proj v_proj", [TOKENS],
                                 lambda net, tokens: net(input_ids=tokens).text_embeds)  # fmt: skip


def speech():
    spectrum, past = floats("input_features", "batch", 8, 40), ids("decoder_input_ids", "batch", 5, below=WORDS, lowest=3)
    yield from plain_and_adapted("Whisper", lambda: configured("Whisper", WHISPER, "ForConditionalGeneration"), "q_proj v_proj", [spectrum, past],
                                 lambda net, x, tokens: net(input_features=x, decoder_input_ids=tokens).logits)  # fmt: skip
    yield Model("Whisper_encoder", lambda: configured("Whisper", WHISPER).encoder, [spectrum], last_layer)
    wave = floats("input_values", "batch", 400)
    yield from plain_and_adapted("Wav2Vec2", lambda: configured("Wav2Vec2", SPEECH | dict(vocab_size=20), "ForCTC"), "q_proj v_proj", [wave],
                                 lambda net, x: net(x).logits)  # fmt: skip
    yield Model("HuBERT", lambda: configured("Hubert", SPEECH), [wave], last_layer)


def vision():
    images, larger = floats("pixel_values", "batch", 3, 16, 16), floats("pixel_values", "batch", 3, 32, 32)
    logits = lambda net, x: net(x).logits
    yield Model("SigLIP", lambda: configured("SiglipVision", IMAGES), [images], last_layer)
    yield from plain_and_adapted("CLIP_image", lambda: configured("CLIPVision", IMAGES | dict(projection_dim=16), "ModelWithProjection"), "q_proj v_proj",
                                 [images], lambda net, x: net(x).image_embeds)  # fmt: skip
    yield Model("BEiT", lambda: configured("Beit", IMAGES, "ForImageClassification"), [images], logits)
    swin = dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    yield Model("Swin", lambda: configured("Swin", swin, "ForImageClassification"), [larger], logits)
    yield Model("ConvNeXt", lambda: configured("ConvNext", STAGES | dict(num_stages=2), "ForImageClassification"), [larger], logits)
    yield Model("ResNet", lambda: configured("ResNet", STAGES | dict(embedding_size=16, layer_type="basic"), "ForImageClassification"), [larger], logits)


def series():
    values, forecast = floats("past_values", "batch", 32, 3), lambda net, x: net(past_values=x).prediction_outputs
    layers = dict(num_hidden_layers=2, num_attention_heads=2, ffn_dim=32)
    yield Model("PatchTST", lambda: configured("PatchTST", SERIES | layers, "ForPrediction"), [values], forecast)
    yield Model("PatchTSMixer", lambda: configured("PatchTSMixer", SERIES | dict(num_layers=2), "ForPrediction"), [values], forecast)
    trajectory = [floats("states", "batch", "seq", 5), floats("actions", "batch", "seq", 3), floats("rewards", "batch", "seq", 1),
                  floats("returns_to_go", "batch", "seq", 1), ids("timesteps", "batch", "seq", below=50), MASK]  # fmt: skip
    sizes = dict(state_dim=5, act_dim=3, hidden_size=WIDTH, n_layer=2, n_head=HEADS, max_ep_len=50)
    yield Model("DecisionTransformer", lambda: configured("DecisionTransformer", sizes), trajectory, lambda net, *x: net(*x).action_preds)
