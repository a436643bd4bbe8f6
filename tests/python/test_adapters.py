"""Model.load_adapter: LoRA adapters in slots, from files as PEFT saves them."""

import json
import os
import pathlib
import shutil
import tempfile
import unittest

import fusec
import numpy as np
import onnx.numpy_helper
import onnx.parser
from support import save_adapter

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
WIDTH, RANK = 288, 2

# Attention with biases and with adapters of queries and values. Dots of names are written as "__".
ATTENTION = f'''<ir_version: 8, opset_import: ["" : 18]>
g (float[batch, 4, {WIDTH}] x) => (float[batch, 4, {WIDTH}] y) {{
  q0 = MatMul(x, q__weight) q1 = Add(q0, q__bias) q2 = MatMul(x, q__lora_A) q3 = MatMul(q2, q__lora_B) q = Add(q1, q3)
  k0 = MatMul(x, k__weight) k = Add(k0, k__bias) keys = Transpose<perm = [0, 2, 1]>(k)
  v0 = MatMul(x, v__weight) v1 = Add(v0, v__bias) v2 = MatMul(x, v__lora_A) v3 = MatMul(v2, v__lora_B) v = Add(v1, v3)
  scores = MatMul(q, keys) shares = Softmax<axis = -1>(scores) y = MatMul(shares, v)
}}'''


def attention_weights(random):
    weights = {}
    for layer in "qkv":
        weights[layer + ".weight"], weights[layer + ".bias"] = random.standard_normal((WIDTH, WIDTH)) / 20, random.standard_normal(WIDTH)
    for layer in "qv":
        weights[layer + ".lora_A"], weights[layer + ".lora_B"] = random.standard_normal((2, WIDTH, RANK)) / 20 * [[[1]], [[4]]]
        weights[layer + ".lora_B"] = weights[layer + ".lora_B"].T
    return {name: array.astype(np.float32) for name, array in weights.items()}


def attend(x, weights, adapter):
    def layer(name):
        y = x @ weights[name + ".weight"] + weights[name + ".bias"]
        return y + x @ adapter[name + ".lora_A"] @ adapter[name + ".lora_B"] if name + ".lora_A" in adapter else y

    scores = layer("q") @ layer("k").T
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True) @ layer("v")


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.artifact = os.path.join(cls.folder.name, "lora")
        fusec.compile(MODELS / "lora_mlp.ts.onnx", cls.artifact, target="cpu", cpu_level="native", adapters={"slots": 2, "rank": 4 + 1})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def save(self, name, tensors, **config):
        return save_adapter(os.path.join(self.folder.name, name), tensors, **config)

    def test_rows_take_the_adapters_of_their_slots(self):
        random = np.random.default_rng(0)
        a, b = random.standard_normal((2, 16)), random.standard_normal((8, 2))
        prefix = "base_model.model.layers.0.lora_"
        adapter = self.save("peft", {prefix + "A.weight": a, prefix + "B.weight": b}, peft_type="LORA", lora_alpha=4, r=2)
        x = random.standard_normal((4, 16)).astype(np.float32)
        ids = np.array([1, -1, 0, 1], np.int32)
        with fusec.load(self.artifact) as model:
            self.assertEqual(model.adapter_slots, 2)
            empty = model(x, ids)
            model.load_adapter(1, adapter)
            loaded = model(x, ids)
            self.assertTrue(np.all(np.any(loaded != empty, axis=1) == (ids == 1)))
            np.testing.assert_array_equal(model(x, np.full(4, -1, np.int32))[0], empty[0])
            model.unload_adapter(1)
            np.testing.assert_array_equal(model(x, ids), empty)

    def test_layers_of_the_same_rows_share_their_banks(self):
        random = np.random.default_rng(1)
        weights = attention_weights(random)
        model = onnx.parser.parse_model(ATTENTION)
        for node in model.graph.node:
            node.input[:] = [name.replace("__", ".") for name in node.input]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
        path = os.path.join(self.folder.name, "attention.onnx")
        onnx.save(model, path)
        both, own, queries = attention_weights(random), weights, attention_weights(random)
        queries = {name: array for name, array in queries.items() if name.startswith("q.lora")}
        adapters = [own, both, queries, {}]
        x = random.standard_normal((5, 4, WIDTH)).astype(np.float32)
        ids = np.array([0, 2, 1, -1, 2], np.int32)
        changed = {name: array * (2 if name in ("q.lora_B", "v.weight") else 1) for name, array in weights.items()}
        new_weights = os.path.join(self.save("changed", changed), "adapter_model.safetensors")
        for target in ("cpu",) + (("native",) if os.environ.get("FUSEC_TEST_DEVICE") == "cuda" else ()):
            artifact = os.path.join(self.folder.name, "attention_" + target)
            fusec.compile(path, artifact, target=target, cpu_level="native", adapters={"slots": 3, "rank": RANK})
            sites = json.loads(pathlib.Path(artifact, "manifest.json").read_text())["adapters"]["sites"]
            self.assertEqual([site["banks"]["first_output"] for site in sites], [0, 2 * WIDTH])
            with fusec.load(artifact, "cpu" if target == "cpu" else "cuda") as model:
                for slot, adapter in ((1, both), (2, queries)):
                    tensors = {name: array.T for name, array in adapter.items() if "lora" in name}
                    folder = self.save(f"{target}_{slot}", {name + ".weight": array for name, array in tensors.items()}, r=RANK, lora_alpha=RANK)
                    model.load_adapter(slot, folder)
                y = model(x, ids)
                for row, slot in enumerate(ids):
                    np.testing.assert_allclose(y[row], attend(x[row], weights, adapters[slot]), rtol=1e-3, atol=1e-4)
                model.unload_adapter(2)
                y = model(x, ids)
                np.testing.assert_allclose(y[1], attend(x[1], weights, {}), rtol=1e-3, atol=1e-4)
                np.testing.assert_allclose(y[2], attend(x[2], weights, both), rtol=1e-3, atol=1e-4)
            refit = fusec.refit(artifact, new_weights, output=artifact + "_refit", model=path)
            with fusec.load(refit, "cpu" if target == "cpu" else "cuda") as model:
                np.testing.assert_allclose(model(x, ids)[0], attend(x[0], changed, changed), rtol=1e-3, atol=1e-4)

    def test_what_is_wrong_is_said(self):
        with fusec.load(self.artifact) as model:
            with self.assertRaisesRegex(fusec.BadUsage, r"slot 2 is outside 0\.\.1"):
                model.load_adapter(2, self.folder.name)
            with self.assertRaisesRegex(fusec.BadInput, "adapter_model.safetensors"):
                model.load_adapter(1, self.folder.name)
            wrong = self.save("wrong", {"layers.1.lora_A.weight": np.zeros((2, 16))})
            with self.assertRaisesRegex(fusec.BadInput, 'tensor "layers.1.lora_A.weight" belongs to a layer that has no slots'):
                model.load_adapter(1, wrong)

    def test_a_layer_may_have_banks_for_each_target(self):
        folder = os.path.join(self.folder.name, "two_banks")
        shutil.copytree(self.artifact, folder)
        path = pathlib.Path(folder, "manifest.json")
        manifest = json.loads(path.read_text())
        del manifest["hash"]
        manifest["adapters"]["sites"] += manifest["adapters"]["sites"]
        path.write_text(json.dumps(manifest))
        a, b = np.ones((2, 16)), np.ones((8, 2))
        adapter = self.save("ones", {"layers.0.lora_A.weight": a, "layers.0.lora_B.weight": b}, lora_alpha=2, r=2)
        x, ids = np.ones((2, 16), np.float32), np.array([1, -1], np.int32)
        results = []
        for artifact in (self.artifact, folder):
            with fusec.load(artifact) as model:
                model.load_adapter(1, adapter)
                results.append(model(x, ids))
        np.testing.assert_array_equal(*results)
        self.assertFalse(np.array_equal(results[0][0], results[0][1]))

    def test_slots_are_for_models_with_adapters(self):
        with self.assertRaisesRegex(fusec.BadUsage, "no low-rank adapters"):
            fusec.compile(MODELS / "lola.ts.onnx", os.path.join(self.folder.name, "lola"), target="cpu", adapters="slots=2,rank=4")

