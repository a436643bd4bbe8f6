"""Exports one model with one of torch's exporters, and draws inputs for judging it."""

import numpy
import onnx
import torch

from model import Called

EXPORTERS = ("ts", "dynamo")  # TorchScript (dynamo=False), and torch.export (dynamo=True)
OPSETS = {"ts": 17, "dynamo": 20}


def export(model, exporter, folder):
    """Writes model.onnx, and inputs.N.npz for each of the model's sizes, with the names of the inputs that are left in the graph."""
    called = prepared(model)
    data = model.data(model.sizes[0], seed=1)
    names = [one.name for one in model.inputs]
    path = str(folder / "model.onnx")
    with torch.no_grad():
        outputs = [f"out{i}" for i in range(len(called(*data)))]
        if exporter == "ts":
            torch.onnx.export(called, data, path, dynamo=False, input_names=names, output_names=outputs,
                              opset_version=OPSETS[exporter], do_constant_folding=True,
                              dynamic_axes={one.name: one.dynamic for one in model.inputs})  # fmt: skip
        else:
            torch.onnx.export(called, data, path, dynamo=True, input_names=names, output_names=outputs, verbose=False,
                              opset_version=OPSETS[exporter], external_data=False,
                              dynamic_shapes=(tuple(one.dynamic for one in model.inputs),))  # fmt: skip
    kept = {value.name for value in onnx.load(path, load_external_data=False).graph.input}
    for i, sizes in enumerate(model.sizes):
        data = dict(zip(names, model.data(sizes, seed=i + 2)))
        numpy.savez(folder / f"inputs.{i}.npz", **{name: data[name].numpy() for name in names if name in kept})


def prepared(model):
    """The model as a function of tensors, for inference, with the same random weights in every process."""
    torch.manual_seed(7)
    module = model.make().eval()
    spread(module)
    return Called(module, model.call)


def warm_up(folder):
    """Loads the modules that both exporters load at their first use, before the forks, each of which would load them again."""
    from model import Model, floats

    for exporter in EXPORTERS:
        export(Model("warm_up", lambda: torch.nn.Linear(2, 2), [floats("x", "batch", 2)]), exporter, folder)


def spread(module):
    """Makes weights random that a library initializes at or near zero, since they would make every answer right."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.is_floating_point() and (weight.numel() < 2 or weight.std() < 0.02):
                weight.add_(torch.randn_like(weight) * 0.1)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(torch.randn_like(buffer) * 0.1)
