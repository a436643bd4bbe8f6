"""Tests sharded models of fusec.serve on Ray: four shards, each in actors of its own, with faults and updates under load. nightly.sh runs
it, in an environment with Ray."""

import asyncio
import collections
import contextlib
import io
import json
import os
import pathlib
import re
import signal
import unittest
import unittest.mock
import urllib.request

import fusec
import numpy as np
import onnx
import ray
from fusec.serve import GatewayOptions, RequestError, Unavailable, _shard_deployment, app
from fusec.serve._changes import Change
from fusec.serve._shard_deployment import RayShards
from fusec.serve._shards import LocalShards, Rows, ShardedModel
from ray import serve
from ray.cluster_utils import Cluster
from serve_ray import MODEL, QUICK, RAY_OPTIONS, TOKEN, Client, Load, free_port, kill, replicas_of, request, wait_until
from support import FOLDER
from tritonclient.utils import InferenceServerException

REPOSITORY = FOLDER / "sharded_repository"
ARTIFACTS = (REPOSITORY / "sharded", REPOSITORY / "sharded_tuesday")  # of the same model, with other weights
SHARDS = 4


def shard(path, folder):
    fusec.shard(path, SHARDS, folder, target="cpu", cpu_level="native", replicate_below=0)


def make_artifacts():
    """A DLRM in four shards, and the same with other weights."""
    REPOSITORY.mkdir()
    changed = onnx.load(MODEL)
    for tensor in changed.graph.initializer:
        if len(tensor.dims) == 2:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * np.float32(-0.5), tensor.name))
    onnx.save(changed, FOLDER / "changed.onnx")
    with contextlib.redirect_stderr(io.StringIO()):
        shard(MODEL, ARTIFACTS[0])
        fusec.refit(ARTIFACTS[0], FOLDER / "changed.onnx", ARTIFACTS[1])


def run_app(port, **options):
    application = app(
        REPOSITORY / "sharded",
        names=["dlrm"],
        device="cpu",
        gateway=GatewayOptions(str(REPOSITORY), "secret"),
        model_options={"num_replicas": 2, **QUICK, **options.pop("model_options", {})},
        shard_options={"ray_actor_options": {"num_cpus": 0.25}, **QUICK, **options.pop("shard_options", {})},
        gateway_options=options.pop("gateway_options", None),
    )
    serve.run(application, name="fusec")


def processes_of(deployment):
    """Its replicas that are running."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().rstrip(b"\0 ") == f"ray::ServeReplica:fusec:{deployment}".encode():
                found.append(int(path.parent.name))
    return found


class LosesReplicas:
    """A Ray handle whose replicas die during the first calls, and which answers later calls."""

    def __init__(self, deaths, answer):
        self._deaths, self._answer = deaths, answer
        self.look_up = self.try_change = self

    async def remote(self, *_):
        if self._deaths:
            self._deaths -= 1
            raise ray.exceptions.ActorDiedError()
        return await self._answer()


class Asking(unittest.IsolatedAsyncioTestCase):
    """Tests how the dense part calls shards, without a cluster."""

    def shards(self, *handles):
        if not REPOSITORY.exists():
            make_artifacts()
        return RayShards("dlrm", str(ARTIFACTS[0]), list(handles), None)

    async def test_a_look_up_is_sent_again_and_counted(self):
        rows = Rows(has_weights=False)

        async def answer():
            return rows

        shards = self.shards(LosesReplicas(0, answer), LosesReplicas(3, answer))
        for number in (0, 1):
            self.assertIs(await asyncio.wrap_future(shards.look_up(number, {}, "")), rows)
        self.assertEqual({name: count for name, count in shards.retries.items() if count}, {"shard_1": 3})

    async def test_a_shard_that_does_not_answer(self):
        async def never():
            await asyncio.sleep(3600)

        with unittest.mock.patch.object(_shard_deployment, "PATIENCE_S", 0.3):
            shards = self.shards(LosesReplicas(0, never), LosesReplicas(10**6, never))
            for number in (0, 1):
                with self.assertRaisesRegex(Unavailable, f"shard_{number} has not answered in 0.3 s"):
                    await asyncio.wrap_future(shards.look_up(number, {}, ""))

    async def test_a_change_that_a_shard_refuses(self):
        async def taken():
            return None

        async def refused():
            return RequestError("its tables are others")

        shards = self.shards(LosesReplicas(1, taken), LosesReplicas(1, refused))
        with self.assertRaisesRegex(RequestError, "^shard_1: its tables are others$"):
            await shards.try_change(Change("weights", path="none"))


class Served(unittest.TestCase):
    """Four shards in two replicas each, behind two of the dense part."""

    @classmethod
    def setUpClass(cls):
        if not REPOSITORY.exists():
            make_artifacts()
        cls.port = free_port()
        ray.init(**RAY_OPTIONS)
        serve.start(http_options={"host": "127.0.0.1", "port": cls.port})
        run_app(cls.port)

    @classmethod
    def tearDownClass(cls):
        serve.shutdown()
        ray.shutdown()

    def setUp(self):
        self.client = Client(self.port)
        names = ["dlrm", *(f"dlrm shard {number}" for number in range(SHARDS))]
        wait_until(lambda: all(len(processes_of(name)) == 2 for name in names) and self.client.http.is_server_ready(), 180)

    def counts(self):
        """The counters of /metrics, over all replicas."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as page:
            found = collections.Counter()
            for name, value in re.findall(r"^fusec_(\w+)\{.*\} (\S+)$", page.read().decode(), re.M):
                found[name] += float(value)
        return found

    def weights(self, name):
        url = f"http://127.0.0.1:{self.port}/admin/models/dlrm/weights"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps({"artifact": name}).encode(), TOKEN)) as answer:
            return int(json.loads(answer.read())["model_version"])

    def rows(self, table, ids, rows):
        tensors = [{"name": "ids", "datatype": "INT64", "shape": [len(ids)], "data": ids}]
        tensors += [{"name": "rows", "datatype": "FP32", "shape": [len(ids), len(rows[0])], "data": rows}]
        body = json.dumps({"inputs": tensors, "parameters": {"table": table}}).encode()
        url = f"http://127.0.0.1:{self.port}/admin/models/dlrm/rows"
        with urllib.request.urlopen(urllib.request.Request(url, body, TOKEN)) as answer:
            return int(json.loads(answer.read())["model_version"])

    def test_answers_are_those_of_the_whole_model(self):
        """Answers have the same bits if both models run in actors: Ray gives these one thread, and oneDNN's sums depend on the number of
        threads."""
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(MODEL, REPOSITORY / "whole", target="cpu", cpu_level="native")
        self.client.http.load_model("whole", headers=TOKEN)
        wait_until(lambda: self.client.http.is_model_ready("whole"))
        for seed in range(5):
            tensors = request(np.random.default_rng(seed), 1 + 100 * seed)
            np.testing.assert_array_equal(self.client.infer(tensors)[0], self.client.infer(tensors, "whole")[0])
        self.client.http.unload_model("whole", headers=TOKEN)
        tensors["in1"][3, 2] = 500
        with self.assertRaisesRegex(InferenceServerException, r"shard_\d: .*index 500 at position \[3, 2\] of \"in1\" is outside"):
            self.client.infer(tensors)

    def test_a_shard_is_killed(self):
        """A look-up that its replica had begun is sent again and counted; one that it had not begun is sent again by Ray."""
        with Load(self.port, ARTIFACTS, most_rows=20_000) as load:
            for number in range(SHARDS):
                load.more(10)
                victim = processes_of(f"dlrm shard {number}")[0]
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda: len(set(processes_of(f"dlrm shard {number}")) - {victim}) == 2, 120)
            load.more()
        load.check(self)
        retries = self.counts()["shard_retries_total"]
        print(f"{sum(load.answers.values())} answers while {SHARDS} replicas of shards were killed, {retries:.0f} look-ups after a retry")

    def test_all_replicas_of_a_shard_are_killed(self):
        """Its requests wait until Ray has started a new replica."""
        with Load(self.port, ARTIFACTS) as load:
            load.more()
            kill("dlrm shard 1")
            kill("dlrm shard 1")
            load.more()
        load.check(self)

    def test_a_dense_replica_is_killed(self):
        with Load(self.port, ARTIFACTS) as load:
            load.more()
            kill("dlrm")
            load.more()
            wait_until(lambda: len(replicas_of("dlrm")) == 2)
            load.more()
        load.check(self)

    def test_new_weights_under_load(self):
        """Each answer comes from one artifact; mixed parts of both would give different answers."""
        tensors = request(np.random.default_rng(0), 4)
        models = [fusec.load(path, "cpu") for path in ARTIFACTS]
        torn = ShardedModel(ARTIFACTS[0], "cpu", LocalShards(ARTIFACTS[0], "cpu"))
        torn.shards.parts[0].use(ARTIFACTS[1])
        torn.shards.parts[0].retire()
        torn.shards.parts[0].current.weights = torn.artifact.weights  # as if it had the others
        mixed = torn.context()(*tensors.values())[0]
        self.assertFalse(any(np.allclose(mixed, model(**tensors), atol=1e-5) for model in models))

        versions = []
        with Load(self.port, ARTIFACTS, threads=8) as load:
            load.more()
            for path, model in list(zip(ARTIFACTS, models))[::-1] * 4:
                versions.append(self.weights(path.name))
                np.testing.assert_allclose(self.client.infer(tensors)[0], model(**tensors), atol=1e-5)
                load.more(5)
            load.more()
        load.check(self)
        counts = self.counts()
        print(f"{sum(load.answers.values())} answers during 8 changes of weights, {counts['shard_reruns_total']:.0f} runs that asked again")
        self.assertGreaterEqual(len(load.answers), 4)
        self.assertEqual(versions, list(range(versions[0], versions[0] + 8)))

    def test_who_starts_later_has_the_new_weights(self):
        self.weights("sharded_tuesday")
        for name in ("dlrm shard 2", "dlrm"):
            kill(name)
            wait_until(lambda: len(replicas_of(name)) == 2)
        wait_until(self.client.http.is_server_ready)
        with Load(self.port, ARTIFACTS[1:]) as load:
            load.more(50)
        load.check(self)
        self.weights("sharded")

    def test_rows(self):
        tensors = request(np.random.default_rng(0), 4)
        before, _ = self.client.infer(tensors)
        self.rows("tables.7.weight", [0, 1, 2], [[9.0] * 16] * 3)
        changed = ShardedModel(ARTIFACTS[0], "cpu", LocalShards(ARTIFACTS[0], "cpu"))
        for part in changed.shards.parts:
            part.update_rows("tables.7.weight", np.arange(3), np.full((3, 16), 9, np.float32))
        expected = changed.context()(*tensors.values())[0]
        self.assertFalse(np.allclose(before, expected, atol=1e-3))
        for _ in range(20):
            np.testing.assert_allclose(self.client.infer(tensors)[0], expected, atol=1e-5)
        with self.assertRaisesRegex(urllib.request.HTTPError, "400"):
            self.rows("tables.7.weight", [200], [[9.0] * 16])
        self.weights("sharded")
        np.testing.assert_array_equal(self.client.infer(tensors)[0], before)

    def test_it_is_unloaded_and_loaded_and_another_is_loaded_beside_it(self):
        http, tensors = self.client.http, request(np.random.default_rng(0), 2)
        expected, _ = self.client.infer(tensors)
        http.load_model("sharded_tuesday", headers=TOKEN)
        wait_until(lambda: http.is_model_ready("sharded_tuesday"))
        other, _ = self.client.infer(tensors, "sharded_tuesday")
        np.testing.assert_allclose(other, fusec.load(ARTIFACTS[1], "cpu")(**tensors), atol=1e-5)
        http.unload_model("dlrm", headers=TOKEN)
        with self.assertRaisesRegex(InferenceServerException, 'model "dlrm" is not loaded'):
            self.client.infer(tensors)
        http.load_model("dlrm", headers=TOKEN)
        np.testing.assert_array_equal(self.client.infer(tensors)[0], expected)
        http.unload_model("sharded_tuesday", headers=TOKEN)


class Nodes(unittest.TestCase):
    def test_a_node_is_removed(self):
        """Each node has a replica of each shard and one of the dense part."""
        if not REPOSITORY.exists():
            make_artifacts()
        cluster, port = (
            Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"head": 1}, "include_dashboard": False}),
            free_port(),
        )
        self.addCleanup(cluster.shutdown)
        lost = cluster.add_node(num_cpus=4, resources={"models": 5})
        cluster.add_node(num_cpus=4, resources={"models": 5})
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        self.addCleanup(ray.shutdown)
        self.addCleanup(serve.shutdown)
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        placed = {"num_replicas": 2, "max_replicas_per_node": 1, "ray_actor_options": {"num_cpus": 0.5, "resources": {"models": 1}}}
        # What the lost gateway had read of a client, that would have to ask again.
        run_app(
            port,
            model_options=placed,
            shard_options=placed,
            gateway_options={"ray_actor_options": {"num_cpus": 0, "resources": {"head": 1}}},
        )
        self.assertEqual([len(replicas_of(f"dlrm shard {number}")) for number in range(SHARDS)], [2] * SHARDS)
        with Load(port, ARTIFACTS) as load:
            load.more()
            cluster.remove_node(lost)
            load.more(60)
        load.check(self)
