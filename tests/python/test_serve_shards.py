"""Sharded models in fusec.serve, with their shards in this process: answers are those of the whole model, each with one set of weights."""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import io
import shutil
import unittest
import unittest.mock

import fusec
import numpy as np
import onnx
import onnx.parser
from fusec.serve import BatchOptions, RequestError, Unavailable, _shards
from fusec.serve.__main__ import parser, shard_options
from fusec.serve._changes import Change
from fusec.serve._shard_server import ShardedModelServer, ShardServer
from fusec.serve._shards import PartHolder, LocalShards, ShardedManifest, ShardedModel, is_sharded
from support import FOLDER, ROOT, artifact, run_python


@functools.cache
def embeddings(seed=0):
    """A model with a look-up of one id per row, a bag of three ids, a table that stays in the dense part, and one that is cut by rows."""
    random = np.random.default_rng(seed)
    graph = onnx.parser.parse_graph(
        "g (float[batch, 4] x, int64[batch] id, int64[batch, 3] bag, int64[batch] few) => (float[batch, 4] one, float[batch, 4] sums)"
        " <int64[1] axes = {1}> { one = Gather<axis=0>(single, id) many = Gather<axis=0>(bagged, bag)"
        " pooled = ReduceSum<keepdims=0>(many, axes) small = Gather<axis=0>(kept, few) part = Add(small, x) sums = Add(part, pooled) }"
    )
    for name, rows in (("single", 1000), ("bagged", 4000), ("kept", 50)):
        graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal((rows, 4), np.float32), name))
    path = FOLDER / f"embeddings_{seed}.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@functools.cache
def whole(path):
    with contextlib.redirect_stderr(io.StringIO()):
        return fusec.load(fusec.compile(path, FOLDER / f"whole_{path.stem}", target="cpu", cpu_level="native"), "cpu")


@functools.cache
def sharded(path, shards=2, keep="1kb"):
    with contextlib.redirect_stderr(io.StringIO()):
        return fusec.shard(path, shards, FOLDER / f"sharded_{path.stem}", target="cpu", cpu_level="native", replicate_below=keep).path


@functools.cache
def tuesday():
    """The sharded embeddings with the weights of another seed."""
    with contextlib.redirect_stderr(io.StringIO()):
        return fusec.refit(sharded(embeddings()), embeddings(1), FOLDER / "tuesday").path


def request(rows, seed=0, most=(1000, 4000, 50)):
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, 4), np.float32)
    ids, bags, few = (random.integers(0, limit, shape) for limit, shape in zip(most, ((rows,), (rows, 3), (rows,))))
    return {"x": x, "id": ids, "bag": bags, "few": few}


class CommandLine(unittest.TestCase):
    def options(self, *flags):
        return shard_options(parser().parse_args(flags))

    def test_flags_become_options_of_ray(self):
        self.assertEqual(self.options(), {"ray_actor_options": {"num_cpus": 1.0, "num_gpus": 0.0}})
        flags = (
            "--shard-replicas 3 --shard-cpus 0.5 --shard-gpus 0.25 --shard-memory 1000 --shard-resource ssd=1 --shard-resource rack_2=0.5"
        )
        resources = {"num_cpus": 0.5, "num_gpus": 0.25, "memory": 1000, "resources": {"ssd": 1.0, "rack_2": 0.5}}
        self.assertEqual(self.options(*flags.split()), {"num_replicas": 3, "ray_actor_options": resources})
        for wrong in ("ssd", "=1", "ssd=", "ssd=much"):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                self.options("--shard-resource", wrong)
            self.assertIn(f"{wrong!r} is no NAME=COUNT", said.getvalue())


class Parts(unittest.TestCase):
    """Artifacts of fusec shard, run part by part."""

    def check(self, path, folder, tensors, **tolerance):
        names = {info.name for info in whole(path).inputs}
        model = ShardedModel(folder, "cpu", LocalShards(folder, "cpu"))
        self.assertEqual((model.inputs, model.outputs, model.dims), (whole(path).inputs, whole(path).outputs, whole(path).dims))
        context = model.context()
        for rows in tensors:
            self.assertEqual(set(rows), names)
            expected = whole(path)(**rows)
            expected = expected if isinstance(expected, tuple) else (expected,)
            for one, other in zip(context(*(rows[info.name] for info in model.inputs)), expected, strict=True):
                if tolerance:
                    np.testing.assert_allclose(one, other, **tolerance)
                else:
                    np.testing.assert_array_equal(one, other)

    def test_one_id_has_the_same_bits(self):
        path, random = ROOT / "models/dlrm_dot.ts.onnx", np.random.default_rng(0)
        folder = sharded(path, 4, "0")
        self.assertTrue(is_sharded(folder) and not is_sharded(artifact("sum")))
        self.check(path, folder, [dlrm_request(random, rows) for rows in (1, 100, 0, 7)])

    def test_bags_and_tables_that_are_cut(self):
        self.check(embeddings(), sharded(embeddings()), [request(rows) for rows in (3, 0, 200)], rtol=1e-6, atol=1e-6)
        one, _ = whole(embeddings())(**request(5))
        model = ShardedModel(sharded(embeddings()), "cpu", LocalShards(sharded(embeddings()), "cpu"))
        np.testing.assert_array_equal(model.context()(*request(5).values())[0], one)

    def test_tables_that_are_cut_by_columns(self):
        path, random = FOLDER / "wide.onnx", np.random.default_rng(0)
        graph = onnx.parser.parse_graph(
            "g (int64[batch, 3] bag, float[batch, 1] x) => (float[batch, 80] sums) <int64[1] axes = {1}>"
            " { rows = Gather(table, bag) pooled = ReduceSum<keepdims=0>(rows, axes) sums = Add(pooled, x) }"
        )
        graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal((100, 80), np.float32), "table"))
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        folder, bag = sharded(path, 3), random.integers(0, 100, (50, 3))
        plan = ShardedManifest(folder).plan["shards"]
        columns = [(table["first_column"], table["end_column"]) for shard in plan for table in shard["tables"]]
        self.assertEqual(sorted(columns), [(0, 26), (26, 53), (53, 80)])
        tensors = {"bag": bag, "x": random.standard_normal((50, 1), np.float32)}
        self.check(path, folder, [tensors])

        shards, rows = LocalShards(folder, "cpu"), random.standard_normal((2, 80), np.float32)
        for part in shards.parts:
            part.update_rows("table", np.array([3, 99]), rows)
        whole(path).update_rows("table", np.array([3, 99]), rows)
        bag[:, 0] = 99
        (answer,) = ShardedModel(folder, "cpu", shards).context()(*tensors.values())
        np.testing.assert_array_equal(answer, whole(path)(**tensors))

    def test_sizes_that_only_a_run_tells(self):
        path = FOLDER / "asked.onnx"
        graph = onnx.parser.parse_graph(
            "g (int64[n] id, bool[n] is_asked, float[n, 4] x) => (float[k, 4] rows, int64[1, k] places, float[n, 4] twice)"
            " <int64[1] all = {-1}> { places = NonZero(is_asked) where = Reshape(places, all) asked = Gather(id, where)"
            " rows = Gather(table, asked) twice = Add(x, x) }"
        )
        graph.initializer.append(onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((500, 4), np.float32), "table"))
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        random = np.random.default_rng(0)
        self.check(
            path,
            sharded(path),
            [
                {"id": random.integers(0, 500, n), "is_asked": random.random(n) < 0.5, "x": random.standard_normal((n, 4), np.float32)}
                for n in (4, 0, 1, 100)
            ],
        )

    def test_a_shard_gets_one_message_with_what_it_reads_and_all_get_theirs_at_once(self):
        folder = sharded(embeddings())
        shards, asked = LocalShards(folder, "cpu"), {}

        class Late:
            def look_up(self, number, inputs, weights):
                asked.setdefault(number, []).append((set(inputs), concurrent.futures.Future(), inputs, weights))
                if len(asked) == len(shards.parts):
                    for shard, [(_, answer, inputs, weights)] in reversed(asked.items()):
                        answer.set_result(shards.look_up(shard, inputs, weights).result())
                return asked[number][0][1]

        results = ShardedModel(folder, "cpu", Late()).context()(*request(4).values())
        np.testing.assert_allclose(results[1], whole(embeddings())(**request(4))[1], rtol=1e-6, atol=1e-6)
        reads = {number: set(part.inputs) for number, part in enumerate(ShardedManifest(folder).shards)}
        self.assertEqual({number: names for number, [(names, *_)] in asked.items()}, reads)
        self.assertNotIn("x", set().union(*reads.values()))

    def test_ids_outside_a_table(self):
        folder = sharded(embeddings())
        context = ShardedModel(folder, "cpu", LocalShards(folder, "cpu")).context()
        for name, number in (("id", 1000), ("bag", 4000), ("few", 50)):
            tensors = request(3)
            tensors[name].flat[1] = number
            where = "" if name == "few" else "^shard_[01]: .*"
            with self.assertRaisesRegex(fusec.BadInput, where + r"at position \[.*\] of "):
                context(*tensors.values())
        context(*request(3).values())

    def test_parts_of_another_artifact(self):
        with self.assertRaisesRegex(fusec.BadArtifact, "is not sharded"):
            ShardedModel(artifact("sum"), "cpu", None)
        part = PartHolder(sharded(embeddings()), 0, "cpu")
        for other in (sharded(ROOT / "models/dlrm_dot.ts.onnx", 4, "0"), artifact("sum"), FOLDER / "none"):
            with self.assertRaises(fusec.BadArtifact):
                part.use(other)
        damaged = shutil.copytree(tuesday(), FOLDER / "damaged")
        shutil.copytree(sharded(embeddings()) + "/shard_0", damaged / "shard_0", dirs_exist_ok=True)
        with self.assertRaisesRegex(fusec.BadArtifact, "is not the file that the manifest beside the part says"):
            part.check(damaged)
        shutil.copytree(tuesday() + "/shard_0", damaged / "shard_0", dirs_exist_ok=True)
        (damaged / "shard_0/weights.safetensors").write_bytes(b"")
        with self.assertRaisesRegex(fusec.BadArtifact, "weights.safetensors"):
            part.check(damaged)
        part.use(tuesday())

    def test_a_shard_with_other_weights_is_asked_again(self):
        folder = sharded(embeddings())
        shards = LocalShards(folder, "cpu")
        model = ShardedModel(folder, "cpu", shards)
        expected, context = whole(embeddings())(**request(3)), model.context()
        asked = []

        class Lagging:
            """The second shard has other weights in its first three calls."""

            def look_up(self, number, inputs, weights):
                asked.append(number)
                other = number == 1 and asked.count(1) <= 3
                return shards.look_up(number, inputs, "others" if other else weights)

        model.shards = Lagging()
        np.testing.assert_allclose(context(*request(3).values())[1], expected[1], rtol=1e-6, atol=1e-6)
        self.assertEqual((model.reruns, asked), (3, [0, 1] * 4))
        shards.parts[1].use(tuesday())
        context(*request(3).values())  # it has both
        self.assertEqual(model.reruns, 3)
        shards.parts[1].retire()
        model.shards = shards
        with unittest.mock.patch.object(_shards, "PATIENCE_S", 0.05), self.assertRaisesRegex(Unavailable, "in 0.05 s"):
            context(*request(3).values())


def dlrm_request(random, rows):
    return {"in0": random.standard_normal((rows, 13), np.float32), "in1": random.integers(0, 3, (rows, 26))}


LIMIT = 150 << 20  # bytes of address space that a process may use in addition to those at its start
IN_A_LIMITED_PROCESS = """
import pathlib, resource, sys
import fusec, numpy as np
from fusec.serve._shards import PartHolder, look_up
path, number, ids, rows, limit = sys.argv[1:]
size = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(limit),) * 2)
if number == "whole":
    fusec.load(path, "cpu")
else:
    shard = PartHolder(path, int(number), "cpu")
    shard.use(path)
    np.save(rows, look_up(shard, {"id": np.load(ids)}, shard.current.weights).arrays[0])
"""


class LimitedShards:
    """Shards in processes of their own, each of which is limited to less memory than the whole table takes."""

    def __init__(self, path):
        self._path, self._threads = path, concurrent.futures.ThreadPoolExecutor(1)

    def look_up(self, number, inputs, weights):
        return self._threads.submit(self._look_up, number, inputs)

    def _look_up(self, number, inputs):
        np.save(FOLDER / "ids.npy", inputs["id"])
        done = run_python(IN_A_LIMITED_PROCESS, self._path, number, FOLDER / "ids.npy", FOLDER / "rows.npy", LIMIT)
        assert done.returncode == 0, done.stderr
        return _shards.Rows((np.load(FOLDER / "rows.npy"),))


class Memory(unittest.TestCase):
    def test_a_table_that_is_larger_than_what_a_process_may_take_up(self):
        table = np.arange(48 << 20, dtype=np.float32).reshape(-1, 48)
        self.assertGreater(table.nbytes, LIMIT)
        graph = onnx.parser.parse_graph("g (int64[batch] id) => (float[batch, 48] row) { row = Gather<axis=0>(huge, id) }")
        graph.initializer.append(onnx.numpy_helper.from_array(table, "huge"))
        path = FOLDER / "huge.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        ids = np.random.default_rng(0).integers(0, len(table), 1000)
        (row,) = ShardedModel(sharded(path, 4), "cpu", LimitedShards(sharded(path, 4))).context()(ids)
        np.testing.assert_array_equal(row, table[ids])
        refused = run_python(IN_A_LIMITED_PROCESS, whole(path).path, "whole", "", "", LIMIT)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, "(?i)memory")


class LocalServed:
    """ShardServers in this process and its event loop."""

    def __init__(self, path):
        self.servers = [ShardServer("m", str(path), number, "cpu") for number in range(len(ShardedManifest(path).shards))]
        self.retries, self._loop = {}, asyncio.get_running_loop()

    def look_up(self, number, inputs, weights):
        return asyncio.run_coroutine_threadsafe(self.servers[number].look_up(inputs, weights), self._loop)

    async def try_change(self, change):
        for server in self.servers:
            await server.try_change(change)

    async def wait_applied(self, version):
        while any(server.log.version < version for server in self.servers):
            await asyncio.sleep(0.001)


class Served(unittest.IsolatedAsyncioTestCase):
    """The dense part's server, and those of the shards."""

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 10  # nothing is told of what the tests themselves compute
        self.shards = LocalServed(sharded(embeddings()))
        for shard in self.shards.servers:
            await shard.start()
        options = BatchOptions(max_delay_ms=20)
        self.server = ShardedModelServer("m", str(sharded(embeddings())), self.shards, "cpu", options)
        await self.server.start()
        self.addAsyncCleanup(self.server.close)

    async def change(self, change, pause_s=0.0):
        """An update is first tried and then applied by one replica after the other, as Ray's replicas do in any order."""
        await self.server.try_change(change)
        change = dataclasses.replace(change, version=self.server.log.version + 1)
        dense = asyncio.create_task(self.server.follow([change]))
        for shard in self.shards.servers:
            await asyncio.sleep(pause_s)
            await shard.follow([change])
        await dense
        for shard in self.shards.servers:
            shard.retire(change.version)

    async def check(self, seed=0, rows=5):
        """The answer, against that of the whole model with the weights of a seed."""
        answer = await self.server.predict(request(rows))
        for one, other in zip(answer.values(), whole(embeddings(seed))(**request(rows)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)

    async def test_requests_are_joined_and_one_that_is_wrong_fails_alone(self):
        wrong = request(2)
        wrong["bag"][1, 2] = 5000
        requests = [request(rows, seed=rows) for rows in (1, 4, 3)] + [wrong]
        *answers, refused = await asyncio.gather(*map(self.server.predict, requests), return_exceptions=True)
        for tensors, answer in zip(requests, answers):
            np.testing.assert_allclose(answer["sums"], whole(embeddings())(**tensors)[1], rtol=1e-6, atol=1e-6)
        self.assertEqual((type(refused), refused.status), (RequestError, 400))
        self.assertRegex(str(refused), "^shard_[01]: .*index")
        self.assertEqual(self.server.metrics.batch_requests.sum, 4)
        samples = {name: value for name, labels, value in self.server.samples() if not labels}
        self.assertEqual((samples["shard_reruns_total"], samples["refused_inputs_total"]), (0, 1))
        self.assertGreater(samples["shards_seconds_count"], 1)

    async def test_answers_are_all_old_or_all_new_while_weights_change(self):
        expected = [whole(embeddings(seed))(**request(4)) for seed in (0, 1)]
        found, ended = collections.Counter(), False

        async def ask():
            while not ended:
                answer = list((await self.server.predict(request(4))).values())
                fits = [all(np.allclose(one, other, atol=1e-6) for one, other in zip(answer, whole)) for whole in expected]
                found[tuple(fits)] += 1

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        for seed in (1, 0, 1):
            await self.change(Change("weights", path=tuesday() if seed else sharded(embeddings())), pause_s=0.05)
            await self.check(seed)
        ended = True
        await asyncio.gather(*asking)
        self.assertEqual(set(found), {(True, False), (False, True)})
        self.assertEqual(self.server.log.version, 4)  # a batch that was under way when old weights were retired may have been run again

    async def test_weights_that_do_not_fit_change_nothing(self):
        for path in (sharded(ROOT / "models/dlrm_dot.ts.onnx", 4, "0"), artifact("sum"), FOLDER / "none"):
            with self.assertRaises(RequestError) as raised:
                await self.server.try_change(Change("weights", path=str(path)))
            self.assertEqual(raised.exception.status, 400)
            await self.check()

    async def test_rows_go_to_the_part_that_has_them(self):
        with fusec.load(sharded(embeddings()), "cpu") as model:
            self.assertEqual([info._replace(nbytes=0) for info in model.tables], list(self.server._loaded.model.tables))
        for name, rows in (("single", 1000), ("bagged", 4000), ("kept", 50)):
            await self.change(Change("rows", name, ids=np.arange(rows), rows=np.full((rows, 4), 7, np.float32)))
            with self.assertRaisesRegex(RequestError, f'id {rows} is outside the {rows} rows of table "{name}"'):
                await self.server.try_change(Change("rows", name, ids=np.array([0, rows]), rows=np.zeros((2, 4), np.float32)))
        answer = await self.server.predict(request(3))
        np.testing.assert_array_equal(answer["one"], np.full((3, 4), 7))
        np.testing.assert_allclose(answer["sums"], np.full((3, 4), 4 * 7) + request(3)["x"], rtol=1e-6)
        await self.change(Change("weights", path=tuesday()))
        await self.check(1)

    async def test_it_is_unloaded_and_loaded(self):
        await self.change(Change("unload"))
        with self.assertRaises(Unavailable):
            await self.check()
        self.assertFalse(any(server.is_ready for server in [*self.shards.servers, self.server]))
        with self.assertRaisesRegex(RequestError, "is not the served program with other weights"):
            await self.change(Change("load", path=str(sharded(ROOT / "models/dlrm_dot.ts.onnx", 4, "0"))))
        await self.change(Change("load", path=tuesday()))
        await self.check(1)
        await self.change(Change("load"))
        await self.check(0)

    async def test_who_comes_later_begins_with_the_weights_of_the_log(self):
        change = Change("weights", path=tuesday(), version=2)
        for i, shard in enumerate(self.shards.servers):
            self.shards.servers[i] = ShardServer("m", str(sharded(embeddings())), i, "cpu")
            await self.shards.servers[i].start([change])
            await self.shards.servers[i].follow([change])
        self.server = ShardedModelServer("m", str(sharded(embeddings())), self.shards, "cpu")
        await self.server.start([change])
        self.addAsyncCleanup(self.server.close)
        await self.server.follow([change])
        await self.check(1)
        self.assertEqual(self.server._loaded.model.reruns, 0)

    async def test_shards_that_do_not_answer(self):
        self.shards.look_up = lambda *_: self._failed(Unavailable("shard_0 has not answered in 30 s"))
        with self.assertRaisesRegex(Unavailable, "shard_0") as raised:
            await self.check()
        self.assertEqual(raised.exception.status, 503)
        await self.server.check_health()  # it is not the dense part that has to start again
        del self.shards.look_up
        await self.check()

    def _failed(self, error):
        future = concurrent.futures.Future()
        future.set_exception(error)
        return future
