"""Batching in fusec.serve: joined requests get the same answers as alone, and a request that fails or is canceled does not affect
others."""

import asyncio
import contextlib
import gc
import io
import os
import pathlib
import threading
import time
import unittest
import unittest.mock

import fusec
import numpy as np
from fusec.serve import BatchOptions, DeadlineExceeded, QueueFull, RequestError, Unavailable, _batcher
from fusec.serve._batcher import Lane
from fusec.serve._changes import Change
from fusec.serve._server import ModelServer
from fusec.serve._signature import OutputRows, Request, Signature, TensorSpec
from support import FOLDER, artifact

MODELS = pathlib.Path(__file__).resolve().parents[1] / "end_to_end" / "models"
WAITS = BatchOptions(max_delay_ms=50)  # long enough that requests sent together are joined


def compiled(name, path, **flags):
    folder = FOLDER / f"serve_{name}"
    if not folder.exists():
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(path, folder, target="cpu", cpu_level="native", **flags)
    return folder


class Stuck:
    """A lane that holds its batches until it is told to continue."""

    def __init__(self, server):
        self.go, self.batches = threading.Event(), []
        (lane,) = server._loaded.batcher.lanes
        self._run, lane.run = lane.run, self

    def __call__(self, requests):
        self.batches.append(requests)
        self.go.wait(30)
        return self._run(requests)


class Batches(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 10  # nothing is told of what the tests themselves compute

    async def served(self, path, options=WAITS):
        server = ModelServer("m", path, "cpu", options)
        await server.start()
        self.addAsyncCleanup(server.close)
        return server

    async def check_joined(self, server, requests):
        """All requests share one run, and each gets the same answer as alone."""
        joined = await asyncio.gather(*(server.predict(request) for request in requests))
        self.assertEqual(server.metrics.batch_requests.sum, len(requests))
        self.assertEqual(sum(server.metrics.batch_requests.counts), 1)
        for request, answer in zip(requests, joined):
            alone = server._loaded.model(**request)
            alone = alone if isinstance(alone, tuple) else (alone,)
            for one, other in zip(answer.values(), alone):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)

    async def test_rows_of_any_count(self):
        server = await self.served(artifact("pair"))
        random = np.random.default_rng(0)
        rows = lambda count: {"a": random.random((count, 3), np.float32), "b": random.random((count, 5), np.float32)}
        await self.check_joined(server, [rows(count) for count in (1, 4, 0, 2)])

    async def test_users_and_their_items(self):
        path = compiled("mapped", MODELS.parents[2] / "models/dlrm_dot.ts.onnx", per_request="in0", request_map=True)
        server = await self.served(path)
        random = np.random.default_rng(0)
        requests = []
        for users, items in ((1, 3), (2, 4), (3, 3)):
            map_of_items = random.integers(0, users, items)
            map_of_items[0] -= users  # counted from the end
            dense = random.random((users, 13), np.float32)
            requests.append({"in0": dense, "in1": random.integers(0, 3, (items, 26)), "request_of_item": map_of_items})
        await self.check_joined(server, requests)

    async def test_an_item_of_another_request_is_not_reached(self):
        path = compiled("mapped", MODELS.parents[2] / "models/dlrm_dot.ts.onnx", per_request="in0", request_map=True)
        server = await self.served(path)
        request = {"in0": np.zeros((1, 13), np.float32), "in1": np.zeros((2, 26), np.int64), "request_of_item": np.array([0, 0])}
        wrong = {**request, "request_of_item": np.array([0, 1])}
        good, bad, last = await asyncio.gather(*map(server.predict, (request, wrong, request)), return_exceptions=True)
        self.assertIn('index 1 at position [1] of "request_of_item" is outside -1..0', str(bad))
        np.testing.assert_array_equal(good["out0"], last["out0"])

    async def test_ragged_bags(self):
        server = await self.served(compiled("bags", MODELS / "embedding_bags.ts.onnx"))
        random = np.random.default_rng(0)
        requests = []
        for rows, first, second in ((1, 2, 3), (3, 5, 1), (2, 1, 4)):
            offsets = lambda count: np.concatenate([[0], np.sort(random.integers(0, count + 1, rows - 1))])
            requests.append(
                {
                    "dense": random.random((rows, 6), np.float32),
                    "first": random.integers(0, 20, first),
                    "first_offsets": offsets(first),
                    "weights": random.random(first, np.float32),
                    "second": random.integers(0, 20, second),
                    "second_offsets": offsets(second),
                    "third": random.integers(0, 20, (rows, 3)),
                }
            )
        await self.check_joined(server, requests)

    async def test_bags_with_the_end_of_the_last(self):
        server = await self.served(compiled("offsets", MODELS / "offset_bags.dynamo.onnx"))
        random = np.random.default_rng(0)
        request = lambda *offsets: {
            "bag_ids": random.integers(0, 9, offsets[-1]),
            "offsets": np.array(offsets),
            "weights": random.random(offsets[-1], np.float32),
        }
        await self.check_joined(server, [request(0, 2), request(0, 0, 3, 4), request(0, 1, 5)])
        # What begins behind the first id cannot stand behind another request: it runs alone, and means the same.
        late = {**request(0, 2, 4), "offsets": np.array([1, 2, 4])}
        answers = await asyncio.gather(server.predict(late), server.predict(request(0, 2)))
        np.testing.assert_allclose(answers[0]["y"], server._loaded.model(**late), rtol=1e-6)

    async def test_a_place_in_a_history_stays(self):
        server = await self.served(compiled("gru4rec", MODELS / "gru4rec.ts.onnx"))
        signature, random = server._loaded.signature, np.random.default_rng(0)
        requests = [dict(zip((spec.name for spec in signature.inputs), signature.example(rows, random).arrays)) for rows in (1, 3, 2)]
        await self.check_joined(server, requests)

    async def test_adapters_by_row(self):
        path = compiled("lora", MODELS.parents[2] / "models/lora_mlp.ts.onnx", adapters={"slots": 2, "rank": 5})
        server = await self.served(path)
        random = np.random.default_rng(0)
        ids = ([0], [-1, 1], [], [1, 0, -1])
        requests = [{"in0": random.random((len(i), 16), np.float32), "adapter_id": np.array(i, np.int32)} for i in ids]
        await self.check_joined(server, requests)

    async def test_requests_of_an_adapter_are_neighbours(self):
        path = compiled("lora", MODELS.parents[2] / "models/lora_mlp.ts.onnx", adapters={"slots": 2, "rank": 5})
        server = await self.served(path, BatchOptions(max_delay_ms=50, lanes=1))
        stuck = Stuck(server)
        requests = [{"in0": np.zeros((1, 16), np.float32), "adapter_id": np.array([i], np.int32)} for i in (1, -1, 0, 1)]
        answers = asyncio.gather(*(server.predict(request) for request in requests))
        while not stuck.batches:
            await asyncio.sleep(0.01)
        stuck.go.set()
        await answers
        names = [spec.name for spec in server._loaded.signature.inputs]
        ids = [int(request.arrays[names.index("adapter_id")][0]) for request in stuck.batches[0]]
        self.assertEqual(ids, [-1, 0, 1, 1])

    async def test_one_user_joins_only_the_same(self):
        server = await self.served(compiled("one", MODELS.parents[2] / "models/dlrm_dot.ts.onnx", per_request="in0"))
        users = np.eye(2, 13, dtype=np.float32)
        ids = np.zeros((2, 26), np.int64)
        requests = [{"in0": users[i : i + 1], "in1": ids} for i in (0, 1, 0, 1)]
        answers = await asyncio.gather(*map(server.predict, requests))
        self.assertEqual(sum(server.metrics.batch_requests.counts), 2)
        for request, answer in zip(requests, answers):
            np.testing.assert_allclose(answer["out0"], server._loaded.model(**request), rtol=1e-6)

    async def test_rows_that_depend_on_each_other_are_not_joined(self):
        for name in ("chosen", "tail", "mean"):
            with self.assertLogs("fusec.serve", "WARNING") as logs:
                server = await self.served(artifact(name))
            self.assertRegex(logs.output[0], "m: requests are not batched: ")
            self.assertFalse(server._loaded.signature.can_join)
        x = np.ones((2, 4), np.float32)
        answers = await asyncio.gather(*(server.predict({"x": i * x}) for i in range(3)))
        self.assertEqual([answer["y"][0] for answer in answers], [0, 1, 2])

    async def test_a_request_that_fails_leaves_its_neighbours(self):
        server = await self.served(artifact("lookup"))
        ids = [[0, 1], [5], [2], [-3, 1], [0, 0, 9], [1]]
        answers = await asyncio.gather(*(server.predict({"ids": np.array(i)}) for i in ids), return_exceptions=True)
        self.assertEqual(sum(server.metrics.batch_requests.counts), 1)
        for i, answer in zip(ids, answers):
            if max(i) > 2:
                self.assertEqual(answer.status, 400)
                self.assertIn(f'index {max(i)} at position [{i.index(max(i))}] of "ids" is outside -3..2', str(answer))
            else:
                np.testing.assert_array_equal(answer["rows"], [[i % 3 * 10, i % 3 * 10 + 1] for i in i])
        self.assertEqual(server.metrics.refused_inputs, 2)

    async def test_nobody_waits_when_all_have_asked(self):
        """A batch starts before the delay is over once all waiting clients have sent a request; with few clients, the delay applies."""
        with unittest.mock.patch.object(_batcher, "_LATELY_S", 0.25):
            server, request = await self.served(artifact("sum"), BatchOptions(max_delay_ms=100)), {"x": np.ones((1, 4), np.float32)}

        async def seconds(clients):
            start = time.perf_counter()
            await asyncio.gather(*(server.predict(request) for _ in range(clients)))
            return time.perf_counter() - start

        rounds = [await seconds(12) for _ in range(40)]
        self.assertGreater(rounds[0], 0.09)
        self.assertLess(sorted(rounds[10:])[15], 0.05)
        self.assertGreater(await seconds(3), 0.09)
        await asyncio.sleep(0.6)
        self.assertGreater(await seconds(12), 0.09)
        self.assertLess(server.statistics().runs, 46)

    async def test_a_request_that_is_answered_is_not_kept(self):
        """Its memory is freed with it, without the garbage collector."""
        server, request = await self.served(artifact("sum"), BatchOptions(max_delay_ms=0)), {"x": np.ones((1, 4), np.float32)}
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(5):
            await server.predict(request)
        await asyncio.sleep(0.05)  # a lane's thread may still end its call
        self.assertFalse([entry for entry in gc.get_objects() if isinstance(entry, Request)])

    async def test_the_queue_has_an_end_and_requests_leave_it(self):
        server = await self.served(artifact("sum"), BatchOptions(max_delay_ms=0, max_queue=3, lanes=1))
        stuck = Stuck(server)
        predict = lambda value, **more: asyncio.create_task(server.predict({"x": np.full((1, 4), value, np.float32)}, **more))
        running = predict(0)
        while not stuck.batches:
            await asyncio.sleep(0.001)
        cancelled, late, good = predict(1), predict(2, timeout_ms=20), predict(3)
        await asyncio.sleep(0)
        with self.assertRaisesRegex(QueueFull, "3 requests wait already"):
            await predict(4)
        cancelled.cancel()
        await asyncio.sleep(0)
        instead = predict(5)
        with self.assertRaisesRegex(DeadlineExceeded, "no answer within 20 ms"):
            await late
        stuck.go.set()
        self.assertEqual([(await answer)["y"][0, 0] for answer in (good, instead)], [13, 15])
        self.assertEqual((await running)["y"][0, 0], 10)
        self.assertEqual([len(batch) for batch in stuck.batches], [1, 2])
        self.assertEqual(server.metrics.requests, {200: 3, 429: 1, 499: 1, 504: 1})

    async def test_a_change_that_was_tried_is_not_applied_again(self):
        server = await self.served(artifact("sum"))
        with unittest.mock.patch.object(server, "_load", wraps=server._load) as load:
            await server.try_change(Change("load", path=os.fspath(artifact("pair"))))
            await server.follow([Change("load", path=os.fspath(artifact("pair")), version=2)])
            self.assertEqual((load.call_count, server.log.version), (1, 2))
            await server.follow([Change("load", path=os.fspath(artifact("pair")), version=3)])
            self.assertEqual((load.call_count, server.log.version), (2, 3))
        self.assertEqual(
            set(await server.predict({"a": np.zeros((1, 3), np.float32), "b": np.zeros((1, 5), np.float32)})), {"both", "twice"}
        )

    async def test_a_failure_of_the_model_is_told_and_looked_into(self):
        server = await self.served(artifact("sum"), BatchOptions(max_delay_ms=0, lanes=1))
        (lane,) = server._loaded.batcher.lanes
        context, lane._context = lane._context, unittest.mock.Mock(side_effect=fusec.NoDevice("the GPU is lost"))
        with self.assertLogs("fusec.serve", "ERROR"), self.assertRaisesRegex(RequestError, "the model failed: the GPU is lost") as caught:
            await server.predict({"x": np.zeros((1, 4), np.float32)})
        self.assertEqual(caught.exception.status, 500)
        with unittest.mock.patch.object(Lane, "run", side_effect=fusec.NoDevice("the GPU is lost")):
            with self.assertRaisesRegex(fusec.NoDevice, "the GPU is lost"):
                await server.check_health()
        lane._context = context
        await server.check_health()
        self.assertFalse(server._loaded.batcher.has_failed)
        self.assertEqual((await server.predict({"x": np.zeros((1, 4), np.float32)}))["y"][0, 0], 10)

    async def test_batches_have_a_most(self):
        server = await self.served(artifact("sum"), BatchOptions(max_delay_ms=20, max_rows=4))
        await asyncio.gather(*(server.predict({"x": np.zeros((rows, 4), np.float32)}) for rows in (3, 1, 2, 3, 9)))
        self.assertEqual(server.metrics.batch_rows.counts[:5], [0, 1, 2, 0, 1])  # 2; 3 and 3 + 1; 9 on its own

    async def test_a_cpu_takes_fewer_rows_than_a_gpu(self):
        server = await self.served(artifact("sum"), BatchOptions())
        self.assertEqual(server.config()["dynamic_batching"]["preferred_batch_size"], [1024])
        with unittest.mock.patch.object(fusec.Model, "device", "cuda:0 (sm_90)"):
            server = await self.served(artifact("sum"), BatchOptions())
        self.assertEqual(server.config()["dynamic_batching"]["preferred_batch_size"], [4096])

    async def test_statistics_are_true(self):
        """Two requests wait behind a stuck one, and share a run; one is rejected, and one is canceled while it waits."""
        server = await self.served(artifact("lookup"), BatchOptions(max_delay_ms=0, lanes=1))
        stuck = Stuck(server)
        ask = lambda *ids: asyncio.create_task(server.predict({"ids": np.array(ids)}))
        first = ask(0)
        while not stuck.batches:
            await asyncio.sleep(0.001)
        second, third, refused, gone = ask(1, 2), ask(1, 1, 1), ask(7), ask(2)
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0.01)
        stuck.go.set()
        await asyncio.wait([first, second, third, refused, gone])
        self.assertIsInstance(refused.exception(), RequestError)
        found = server.statistics().described("m", 1)
        of_requests = found["inference_stats"]
        # [second, third, refused] fails as one, then [second] and [third, refused], of which [third] is answered
        self.assertEqual((found["inference_count"], found["execution_count"]), (6, 3))
        self.assertEqual([batch["batch_size"] for batch in found["batch_stats"]], [1, 2, 3])
        self.assertEqual((of_requests["success"]["count"], of_requests["fail"]["count"]), (3, 2))
        self.assertEqual({of_requests[part]["count"] for part in ("queue", "compute_input", "compute_infer", "compute_output")}, {3})
        self.assertGreater(of_requests["queue"]["ns"], 2 * 40e6)
        for part in ("compute_input", "compute_infer", "compute_output"):
            self.assertGreater(of_requests[part]["ns"], 0)
            self.assertEqual(of_requests[part]["ns"], sum(batch[part]["ns"] for batch in found["batch_stats"]))  # each had a run of its own
        parts = sum(of_requests[part]["ns"] for part in ("queue", "compute_input", "compute_infer", "compute_output"))
        self.assertGreater(of_requests["success"]["ns"], parts)
        self.assertLess(abs(time.time() - found["last_inference"] / 1000), 60)

    async def test_requests_that_share_a_run_each_have_its_time(self):
        server = await self.served(artifact("sum"))
        await asyncio.gather(*(server.predict({"x": np.zeros((rows, 4), np.float32)}) for rows in (1, 2)))
        found = server.statistics().described("m", 1)
        (batch,) = found["batch_stats"]
        self.assertEqual((batch["batch_size"], batch["compute_infer"]["count"], found["inference_count"]), (3, 1, 3))
        of_requests = found["inference_stats"]["compute_infer"]
        self.assertEqual((of_requests["count"], of_requests["ns"]), (2, 2 * batch["compute_infer"]["ns"]))

    async def test_what_was_accepted_is_answered_before_the_end(self):
        server = ModelServer("m", artifact("sum"), "cpu", WAITS)
        await server.start()
        request = {"x": np.zeros((1, 4), np.float32)}
        waiting = asyncio.create_task(server.predict(request))
        await asyncio.sleep(0.001)
        await server.close()
        self.assertEqual((await waiting)["y"][0, 0], 10)
        with self.assertRaisesRegex(Unavailable, 'model "m" is not loaded'):
            await server.predict(request)

    async def test_what_is_wrong_with_a_request(self):
        server = await self.served(artifact("pair"))
        a, b = np.zeros((2, 3), np.float32), np.zeros((2, 5), np.float32)
        for tensors, text in (
            ({"a": a}, 'input "b" is missing, the model takes "a", "b"'),
            ({"a": a, "b": b, "c": b}, 'there is no input "c"'),
            ({"a": a, "b": b.astype(np.float64)}, 'input "b" is float64, expected float32'),
            ({"a": a, "b": b[0]}, r'input "b" has 1 dims, expected 2: "b" f32\[batch, 5\]'),
            ({"a": a, "b": b[:1]}, 'input "b" has 1 as dim 0, expected 2, as "batch" of another input'),
            ({"a": b, "b": b}, 'input "a" has 5 as dim 1, expected 3'),
            (
                {"a": np.zeros((70000, 3), np.float32), "b": np.zeros((70000, 5), np.float32)},
                '"batch" is 70000, the model takes 0 to 65536',
            ),
        ):
            with self.assertRaisesRegex(RequestError, text):
                await server.predict(tensors)


class Lengths(unittest.TestCase):
    """Of bags: no shift is needed, but they must add up to the ids of their request."""

    spec = lambda name, dim, **more: TensorSpec(name, "i64", np.dtype(np.int64), (dim,), **more)
    signature = Signature(
        (spec("ids", "n"), spec("lengths", "batch", counts="n", adds_up=True)),
        (spec("sums", "batch"),),
        {"n": (0, 100), "batch": (1, 100)},
        "batch",
        frozenset({"n", "batch"}),
        output_rows=(OutputRows("batch"),),
    )

    def request(self, ids, lengths):
        return self.signature.request({"ids": np.arange(ids), "lengths": np.array(lengths)})

    def test_requests_join_where_they_add_up(self):
        first, second = self.request(3, [1, 2]), self.request(2, [2])
        self.assertEqual(first.key, second.key)
        for wrong in (self.request(3, [1, 1]), self.request(3, [4, -1])):
            self.assertNotEqual(first.key, wrong.key)
        out = np.empty(3, np.int64)
        self.signature.join([first, second], 1, out)
        self.assertEqual((out.tolist(), self.signature.joined_sizes([first, second])), ([1, 2, 2], {"n": 5, "batch": 3}))
        answers = self.signature.split([np.array([3, 4, 5])], [first, second])
        self.assertEqual([answer[0].tolist() for answer in answers], [[3, 4], [5]])
        example = self.signature.example(4, np.random.default_rng(0))
        self.assertEqual(example.arrays[1].sum(), example.sizes["n"])
