"""fusec.shard: the plan, the parts, and the program that consists of the parts."""

import contextlib
import io
import pathlib
import unittest

import fusec
import numpy as np
from support import FOLDER, ROOT

MODEL = ROOT / "models" / "dlrm_dot.ts.onnx"


class Shard(unittest.TestCase):
    def setUp(self):
        self.said = io.StringIO()
        redirection = contextlib.redirect_stderr(self.said)
        redirection.__enter__()
        self.addCleanup(redirection.__exit__, None, None, None)

    def test_it_answers_as_the_whole_does(self):
        random = np.random.default_rng(0)
        dense, ids = random.standard_normal((40, 13), np.float32), random.integers(0, 3, (40, 26))
        whole = fusec.compile(MODEL, FOLDER / "unsharded", target="cpu", cpu_level="native").load("cpu")
        sharded = fusec.shard(
            MODEL, 3, FOLDER / "sharded", target="cpu", cpu_level="native", replicate_below="1KB", plan_dims={"batch": 64},
            profile={"in1": ids},
        )  # fmt: skip
        self.assertIn("built", self.said.getvalue())
        model = sharded.load("cpu")
        np.testing.assert_array_equal(model(dense, ids), whole(dense, ids))
        self.assertEqual([pathlib.Path(part.path).name for part in sharded.parts], ["shard_0", "shard_1", "shard_2", "dense"])
        plan = sharded.plan
        self.assertEqual((plan["dims"], plan["profile"]), ({"batch": 64}, True))
        tables = [table["table"] for shard in plan["shards"] for table in shard["tables"]]
        self.assertEqual(len(tables) + len(plan["kept"]), 26)
        self.assertEqual(len(model.tables), 26)
        self.assertIn("shard_2", sharded._repr_html_())

        table = next(table for table in model.tables if table.name == tables[0])
        rows = np.full((2, table.columns), 0.25, np.float32)
        for each in (model, whole):
            each.update_rows(table.name, np.array([0, 2]), rows)
        np.testing.assert_array_equal(model(dense, ids), whole(dense, ids))

    def test_bad_arguments(self):
        for kind, message, shards, flags in (
            (fusec.BadUsage, "can be put on shards", 4096, {"replicate_below": 0}),
            (fusec.BadUsage, "--shard-memory: the tables take", 2, {"shard_memory": 50000, "replicate_below": 0}),
            (fusec.BadUsage, 'the model has batch', 2, {"plan_dims": {"rows": 3}}),
            (fusec.BadUsage, "keyword argument 'tune'", 2, {"tune": True}),
            (fusec.BadInput, 'has no array "in1"', 2, {"profile": {"ids": np.zeros((2, 26), np.int64)}}),
            (fusec.BadInput, "is outside the", 2, {"profile": {"in1": np.full((2, 26), 10**9)}}),
        ):
            with self.assertRaisesRegex(kind, message):
                fusec.shard(MODEL, shards, FOLDER / "bad", target="cpu", cpu_level="native", **flags)
            self.assertFalse((FOLDER / "bad").exists())

    def test_verbs_that_want_a_part_say_so(self):
        sharded = fusec.shard(MODEL, 2, FOLDER / "sharded_verbs", target="cpu", cpu_level="native", replicate_below=0)
        for verb in (sharded.explain, sharded.tune, sharded.report, sharded.rebuild):
            with self.assertRaisesRegex(fusec.BadUsage, "is sharded"):
                verb()
        with self.assertRaisesRegex(fusec.BadUsage, "is a part of the sharded artifact"):
            sharded.parts[0].refit(MODEL)


if __name__ == "__main__":
    unittest.main()
