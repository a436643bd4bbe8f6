"""Makes the models of this folder from small torch modules of the DLRM and LoRA families, with both exporters.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch onnx onnxscript
    /tmp/torch/bin/python tests/end_to_end/models/export.py [NAME ...]

The committed files were made with torch 2.15 (2.13 for bi_lstm, dien and gru4rec), which gives the same files again, except for names of values
in the dynamo exports of EmbeddingBag, which depend on Python's hashes (PYTHONHASHSEED). Tables and widths are tiny, since only ops and
shapes are tested.
"""

import os
import sys

import torch

from interaction_models import AutoInt, Cin, DcnMixture, DeepFm, DotTriangle, Experts, TwoTowers
from lookup_models import Bags, EmbeddingBags, IdList, IndexHash, OffsetBags, Requests
from lora_models import LoraAttention, LoraLlama, LoraPerRow
from recurrent_models import BiLstm, Dien, Gru4Rec
from sequence_models import Din, Encoder

MODELS = {
    "auto_int": AutoInt, "bags": Bags, "bi_lstm": BiLstm, "cin": Cin, "dcn_mixture": DcnMixture, "deep_fm": DeepFm,
    "dien": Dien, "din": Din, "dot_triangle": DotTriangle, "embedding_bags": EmbeddingBags, "encoder": Encoder,
    "experts": Experts, "gru4rec": Gru4Rec, "id_list": IdList, "index_hash": IndexHash,
    "lora_attention": LoraAttention, "lora_llama": LoraLlama, "lora_per_row": LoraPerRow,
    "offset_bags": OffsetBags, "requests": Requests, "two_towers": TwoTowers,
}  # fmt: skip


def export(name, kind, exporter):
    """Exports a model; exporter: ts or dynamo, with .float16 or .bfloat16 appended for a model of that type."""
    torch.manual_seed(7)
    how, _, dtype = exporter.partition(".")
    model, inputs = kind().eval(), kind.inputs()
    if dtype:
        model = model.to(getattr(torch, dtype))
        inputs = tuple(x.to(getattr(torch, dtype)) if x.is_floating_point() else x for x in inputs)
    names = list(model.forward.__code__.co_varnames[1 : len(inputs) + 1])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.{exporter}.onnx")
    if how == "ts":
        torch.onnx.export(model, inputs, path, dynamo=False, input_names=names, output_names=["y"],
                          dynamic_axes=dict(zip(names, kind.dims)), opset_version=17)  # fmt: skip
    else:
        dims = {d: torch.export.Dim(d) for shape in kind.dims for d in shape.values()}
        shapes = tuple({axis: dims[d] for axis, d in shape.items()} for shape in kind.dims)
        torch.onnx.export(model, inputs, path, dynamo=True, dynamic_shapes=shapes, verbose=False,
                          input_names=names, output_names=["y"], external_data=False)  # fmt: skip
        strip(path)


def strip(path):
    """Removes the stack traces that dynamo writes for every node, which contain folders of this machine."""
    import onnx

    def strip_graph(graph):
        for node in graph.node:
            kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    strip_graph(attribute.g)
        del graph.value_info[:]

    model = onnx.load(path)
    strip_graph(model.graph)
    onnx.save(model, path)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        for exporter in MODELS[name].exporters:
            export(name, MODELS[name], exporter)
