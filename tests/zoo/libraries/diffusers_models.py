"""Small random models of the diffusers library, with PEFT's LoRA on their attention, as people share styles for them."""

import diffusers
import peft
import torch

from model import Model, floats, ids

BLOCKS = dict(layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4)
TEXT = dict(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=24, attention_head_dim=8)
AUTOENCODER = dict(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                   block_out_channels=(16, 32), latent_channels=4, norm_num_groups=8, sample_size=16)  # fmt: skip
PATCHES = dict(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8, patch_size=2)
SD3 = dict(sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
           joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=16)  # fmt: skip
FLUX = dict(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
            pooled_projection_dim=32, axes_dims_rope=[4, 4, 8])  # fmt: skip
LATENTS = floats("latents", "batch", 4, 8, 8)


def with_lora(make, names):
    """The model with random LoRA weights on the layers of these names."""

    def made():
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=names.split())
        net = peft.inject_adapter_in_model(config, make())
        with torch.no_grad():
            for name, weight in net.named_parameters():
                if "lora_" in name:
                    weight.copy_(0.05 * torch.randn_like(weight))
        return net

    return made


def both(name, make, inputs, call, names="to_q to_k to_v to_out.0"):
    yield Model(name, make, inputs, call)
    yield Model(f"{name}_LoRA", with_lora(make, names), inputs, call)


def unet():
    upward = dict(up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), sample_size=8, in_channels=4, out_channels=4)
    return diffusers.UNet2DConditionModel(**BLOCKS | TEXT | upward)


def models():
    words = floats("text", "batch", 7, 24)
    yield from both("UNet", unet, [LATENTS, ids("timestep", "batch", below=1000), words], lambda net, x, t, text: net(x, t, text, return_dict=False)[0])
    dit = lambda: diffusers.DiTTransformer2DModel(**PATCHES, norm_num_groups=4, num_embeds_ada_norm=10)
    yield from both("DiT", dit, [LATENTS, ids("timestep", "batch", below=10), ids("label", "batch", below=10)],
                    lambda net, x, t, label: net(x, t, label, return_dict=False)[0])  # fmt: skip
    yield from both("SD3", lambda: diffusers.SD3Transformer2DModel(**SD3),
                    [LATENTS, floats("text", "batch", 5, 32), floats("pooled", "batch", 16), floats("timestep", "batch")],
                    lambda net, x, text, pooled, t: net(hidden_states=x, encoder_hidden_states=text, pooled_projections=pooled, timestep=t, return_dict=False)[0])  # fmt: skip
    places = [floats("image_places", 16, 3), floats("text_places", 5, 3)]
    yield from both("Flux", lambda: diffusers.FluxTransformer2DModel(**FLUX),
                    [floats("latents", "batch", 16, 4), floats("text", "batch", 5, 32), floats("pooled", "batch", 32), floats("timestep", "batch"), *places],
                    lambda net, x, text, pooled, t, at, of_text: net(hidden_states=x, encoder_hidden_states=text, pooled_projections=pooled, timestep=t, img_ids=at,
                                                                     txt_ids=of_text, return_dict=False)[0], names="to_q to_k to_v")  # fmt: skip
    autoencoder = lambda: diffusers.AutoencoderKL(**AUTOENCODER)
    yield Model("Autoencoder_decoder", autoencoder, [LATENTS], lambda net, z: net.decode(z, return_dict=False)[0])
    yield Model("Autoencoder_encoder", autoencoder, [floats("images", "batch", 3, 16, 16)], lambda net, x: net.encode(x, return_dict=False)[0].mean)
