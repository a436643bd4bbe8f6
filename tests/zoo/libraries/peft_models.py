"""Small random models of the transformers library, without and with PEFT's adapters: encoders, decoders, encoder-decoders, a vision
model."""

import peft
import torch
import transformers

from model import Model, floats, ids, mask

WORDS, WIDTH, HEADS, POSITIONS = 60, 32, 4, 48
SMALL = dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=64,
             max_position_embeddings=POSITIONS)  # fmt: skip
GROUPED = SMALL | dict(num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)

TOKENS, MASK = ids("input_ids", "batch", "seq", below=WORDS, lowest=3), mask("attention_mask", "batch", "seq")

ENCODERS = {
    "BERT": ("Bert", SMALL, "query value"),
    "DistilBERT": ("DistilBert", dict(vocab_size=WORDS, dim=WIDTH, n_layers=2, n_heads=HEADS, hidden_dim=64, max_position_embeddings=POSITIONS), "q_lin v_lin"),
    "RoBERTa": ("Roberta", SMALL | dict(pad_token_id=1), "query value"),
    "XLM-RoBERTa": ("XLMRoberta", SMALL | dict(pad_token_id=1), "query value"),
    "MPNet": ("MPNet", SMALL | dict(pad_token_id=1), "q v"),
    "ELECTRA": ("Electra", SMALL | dict(embedding_size=16), "query value"),
    "ALBERT": ("Albert", SMALL | dict(embedding_size=16), "query value"),
    "DeBERTa-v2": ("DebertaV2", SMALL | dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True),
                   "query_proj value_proj"),
    "ModernBERT": ("ModernBert", GROUPED | dict(local_attention=8, cls_token_id=1, sep_token_id=2), "Wqkv"),
    "NomicBERT-like": ("Ernie", SMALL, "query value"),
    "CamemBERT": ("Camembert", SMALL | dict(pad_token_id=1), "query value"),
    "MobileBERT": ("MobileBert", SMALL | dict(embedding_size=16, intra_bottleneck_size=32, true_hidden_size=32), "query value"),
    "ConvBERT": ("ConvBert", SMALL | dict(embedding_size=16), "query value"),
    "RoFormer": ("RoFormer", SMALL | dict(embedding_size=16), "query value"),
    "FNet": ("FNet", dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, intermediate_size=64, max_position_embeddings=POSITIONS), ""),
    "SqueezeBERT": ("SqueezeBert", SMALL | dict(embedding_size=WIDTH), ""),
}  # fmt: skip

DECODERS = {
    "GPT-2": ("GPT2", dict(vocab_size=WORDS, n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=POSITIONS), "c_attn"),
    "OPT": ("OPT", dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, ffn_dim=64, max_position_embeddings=POSITIONS,
                        word_embed_proj_dim=WIDTH), "q_proj v_proj"),
    "GPT-NeoX": ("GPTNeoX", SMALL, "query_key_value"),
    "GPT-Neo": ("GPTNeo", dict(vocab_size=WORDS, hidden_size=WIDTH, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=HEADS, window_size=4,
                               max_position_embeddings=POSITIONS), "q_proj v_proj"),
    "BLOOM": ("Bloom", dict(vocab_size=WORDS, hidden_size=WIDTH, n_layer=2, n_head=HEADS), "query_key_value"),
    "Llama": ("Llama", GROUPED, "q_proj v_proj"),
    "Mistral": ("Mistral", GROUPED | dict(sliding_window=8), "q_proj v_proj"),
    "Qwen2": ("Qwen2", GROUPED, "q_proj v_proj"),
    "Qwen3": ("Qwen3", GROUPED | dict(head_dim=8), "q_proj v_proj"),
    "Gemma": ("Gemma", GROUPED | dict(head_dim=8), "q_proj v_proj"),
    "Gemma2": ("Gemma2", GROUPED | dict(head_dim=8, sliding_window=8, query_pre_attn_scalar=8), "q_proj v_proj"),
    "Phi": ("Phi", GROUPED, "q_proj v_proj"),
    "Phi3": ("Phi3", GROUPED, "qkv_proj"),
    "StableLM": ("StableLm", GROUPED, "q_proj v_proj"),
    "OLMo": ("Olmo", GROUPED, "q_proj v_proj"),
    "Cohere": ("Cohere", GROUPED, "q_proj v_proj"),
    "Falcon": ("Falcon", dict(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, alibi=False), "query_key_value"),
    "Mixtral": ("Mixtral", GROUPED | dict(num_local_experts=4, num_experts_per_tok=2), "q_proj v_proj"),
}  # fmt: skip

CROSSED = {
    "T5": ("T5", dict(vocab_size=WORDS, d_model=WIDTH, d_kv=8, d_ff=64, num_layers=2, num_heads=HEADS), "q v"),
    "BART": ("Bart", dict(vocab_size=WORDS, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                          encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=POSITIONS), "q_proj v_proj"),
}  # fmt: skip

# The configurations of adapters; each is put on BERT, Llama and ViT, and LoRA on every model.
ADAPTERS = {
    "LoRA": lambda names: peft.LoraConfig(r=4, lora_alpha=8, target_modules=names),
    "rsLoRA": lambda names: peft.LoraConfig(r=4, lora_alpha=8, target_modules=names, use_rslora=True),
    "DoRA": lambda names: peft.LoraConfig(r=4, lora_alpha=8, target_modules=names, use_dora=True),
    "LoHa": lambda names: peft.LoHaConfig(r=4, alpha=8, target_modules=names),
    "LoKr": lambda names: peft.LoKrConfig(r=4, alpha=8, target_modules=names),
    "AdaLoRA": lambda names: peft.AdaLoraConfig(init_r=6, target_r=4, total_step=10, target_modules=names),
    "IA3": lambda names: peft.IA3Config(target_modules=names, feedforward_modules=[]),
    "VeRA": lambda names: peft.VeraConfig(r=8, target_modules=names[:1]),
    "OFT": lambda names: peft.OFTConfig(oft_block_size=4, r=0, target_modules=names),
    "BOFT": lambda names: peft.BOFTConfig(boft_block_size=4, target_modules=names),
    "HRA": lambda names: peft.HRAConfig(r=4, target_modules=names),
    "FourierFT": lambda names: peft.FourierFTConfig(n_frequency=16, target_modules=names),
    "LNTuning": lambda names: peft.LNTuningConfig(target_modules=["LayerNorm", "layernorm", "input_layernorm", "layernorm_before"]),
}


def configured(prefix, settings, kind="Model", **more):
    config = getattr(transformers, prefix + "Config")(**settings | more)
    config._attn_implementation = more.get("attn_implementation", "sdpa")
    try:
        return getattr(transformers, prefix + kind)(config)
    except ValueError:  # a model without sdpa
        config._attn_implementation = "eager"
        return getattr(transformers, prefix + kind)(config)


def adapted(make, adapter, names):
    """The model with the adapter, whose weights are random as after training (a fresh LoRA adds nothing)."""

    def made():
        net = peft.get_peft_model(make(), ADAPTERS[adapter](names.split()))
        with torch.no_grad():
            for name, weight in net.named_parameters():
                if weight.requires_grad and weight.is_floating_point():
                    weight.add_(torch.randn_like(weight) * 0.05)
        return net

    return made


def encode(net, tokens, ones):
    return net(input_ids=tokens, attention_mask=ones).last_hidden_state


def classify(net, tokens, ones):
    return net(input_ids=tokens, attention_mask=ones).logits


def decode(net, tokens, ones):
    return net(input_ids=tokens, attention_mask=ones, use_cache=False).last_hidden_state


def models():
    yield from encoders()
    yield from decoders()
    yield from crossed()
    yield from vision()


def plain_and_adapted(name, make, names, inputs, call):
    """The model, and the same with LoRA on its layers of those names, if there are any."""
    yield Model(name, make, inputs, call)
    if names:
        yield Model(f"{name}_LoRA", adapted(make, "LoRA", names), inputs, call)


def other_adapters(name, make, names, inputs, call):
    for adapter in ADAPTERS:
        if adapter != "LoRA":
            yield Model(f"{name}_{adapter}", adapted(make, adapter, names), inputs, call)


def encoders():
    for name, (prefix, settings, names) in ENCODERS.items():
        make = lambda p=prefix, s=settings: configured(p, s)
        call = encode if name != "FNet" else lambda net, tokens: net(input_ids=tokens).last_hidden_state
        inputs = [TOKENS, MASK] if name != "FNet" else [TOKENS]
        yield from plain_and_adapted(name, make, names, inputs, call)
    yield from other_adapters("BERT", lambda: configured("Bert", SMALL), "query value", [TOKENS, MASK], encode)
    yield Model("BERT_eager", lambda: configured("Bert", SMALL, attn_implementation="eager"), [TOKENS, MASK], encode)
    yield Model("BERT_classifier", lambda: configured("Bert", SMALL, "ForSequenceClassification"), [TOKENS, MASK], classify)
    yield Model("BERT_masked_words", lambda: configured("Bert", SMALL, "ForMaskedLM"), [TOKENS, MASK], classify)


def decoders():
    for name, (prefix, settings, names) in DECODERS.items():
        make = lambda p=prefix, s=settings: configured(p, s)
        yield from plain_and_adapted(name, make, names, [TOKENS, MASK], decode)
    yield from other_adapters("Llama", lambda: configured("Llama", GROUPED), "q_proj v_proj", [TOKENS, MASK], decode)
    yield Model("Llama_words", lambda: configured("Llama", GROUPED, "ForCausalLM"), [TOKENS, MASK],
                lambda net, tokens, ones: net(input_ids=tokens, attention_mask=ones, use_cache=False).logits)  # fmt: skip
    yield Model("Llama_classifier", lambda: configured("Llama", GROUPED, "ForSequenceClassification"), [TOKENS, MASK], classify)


def crossed():
    target = ids("decoder_input_ids", "batch", 5, below=WORDS, lowest=3)
    for name, (prefix, settings, names) in CROSSED.items():
        make = lambda p=prefix, s=settings: configured(p, s)
        call = lambda net, tokens, ones, past: net(input_ids=tokens, attention_mask=ones, decoder_input_ids=past, use_cache=False).last_hidden_state
        yield from plain_and_adapted(name, make, names, [TOKENS, MASK, target], call)
    yield Model("T5_encoder", lambda: transformers.T5EncoderModel(transformers.T5Config(**CROSSED["T5"][1])), [TOKENS, MASK], encode)


def vision():
    images = floats("pixel_values", "batch", 3, 32, 32)
    settings = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=64, image_size=32, patch_size=8)
    call = lambda net, x: net(pixel_values=x).last_hidden_state
    for name, prefix, names in (("ViT", "ViT", "q_proj v_proj"), ("DeiT", "DeiT", "q_proj v_proj"), ("DINOv2", "Dinov2", "q_proj v_proj")):
        make = lambda p=prefix: configured(p, settings)
        yield from plain_and_adapted(name, make, names, [images], call)
    yield from other_adapters("ViT", lambda: configured("ViT", settings), "q_proj v_proj", [images], call)
