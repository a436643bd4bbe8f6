"""fusec.compile(per_request=...): inputs of one user that all items share, and inputs of several users."""

import os
import pathlib
import tempfile
import unittest

import fusec
import numpy as np

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "dlrm_dot.ts.onnx"


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plain = cls.compiled("plain")
        random = np.random.default_rng(0)
        cls.users = random.standard_normal((3, 13)).astype(np.float32)
        cls.ids = random.integers(0, 2, (7, 26))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compiled(cls, name, **flags):
        return fusec.compile(MODEL, os.path.join(cls.folder.name, name), target="cpu", cpu_level="native", **flags)

    @property
    def first_input(self):
        with fusec.load(self.plain) as model:
            return model.inputs[0].name

    def test_one_user_is_shared_by_all_items(self):
        artifact = self.compiled("one", per_request=self.first_input)
        with fusec.load(self.plain) as plain, fusec.load(artifact) as model:
            expected = plain(np.repeat(self.users[:1], 7, axis=0), self.ids)
            np.testing.assert_allclose(model(self.users[:1], self.ids), expected, rtol=1e-5)
            with self.assertRaisesRegex(fusec.BadInput, "dim 0 is 3, expected 1"):
                model(self.users, self.ids)
        self.assertTrue(artifact.verify(model=MODEL, dims={"batch": [5]}).passed)

    def test_items_choose_among_users(self):
        artifact = self.compiled("mapped", per_request=[self.first_input], request_map=True)
        request_of_item = np.array([2, 0, 1, 1, 2, 0, 0])
        with fusec.load(self.plain) as plain, fusec.load(artifact) as model:
            expected = plain(self.users[request_of_item], self.ids)
            np.testing.assert_allclose(model(self.users, self.ids, request_of_item), expected, rtol=1e-5)
            request_of_item[3] = 3
            with self.assertRaisesRegex(fusec.BadInput, r'index 3 at position \[3\] of "request_of_item" is outside -3..2'):
                model(self.users, self.ids, request_of_item)
