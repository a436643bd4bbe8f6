"""Model.load_adapter: LoRA adapters in slots, from files as PEFT saves them."""

import os
import pathlib
import tempfile
import unittest

import fusec
import numpy as np
from support import save_adapter

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"


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

    def test_what_is_wrong_is_said(self):
        with fusec.load(self.artifact) as model:
            with self.assertRaisesRegex(fusec.BadUsage, r"slot 2 is outside 0\.\.1"):
                model.load_adapter(2, self.folder.name)
            with self.assertRaisesRegex(fusec.BadInput, "adapter_model.safetensors"):
                model.load_adapter(1, self.folder.name)
            wrong = self.save("wrong", {"layers.1.lora_A.weight": np.zeros((2, 16))})
            with self.assertRaisesRegex(fusec.BadInput, 'tensor "layers.1.lora_A.weight" belongs to a layer that has no slots'):
                model.load_adapter(1, wrong)

    def test_slots_are_for_models_with_adapters(self):
        with self.assertRaisesRegex(fusec.BadUsage, "no low-rank adapters"):
            fusec.compile(MODELS / "lola.ts.onnx", os.path.join(self.folder.name, "lola"), target="cpu", adapters="slots=2,rank=4")

