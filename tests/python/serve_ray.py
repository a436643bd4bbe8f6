"""Tests fusec.serve on Ray, with Triton's client: answers, updates under load, and faults. nightly.sh runs it, in an environment with
Ray."""

import asyncio
import collections
import contextlib
import http.client
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import fusec
import numpy as np
import onnx
import ray
import tritonclient.grpc
import tritonclient.http as triton
from fusec.serve import BatchOptions, DirectOptions, GatewayOptions, RequestError, app
from fusec.serve._server import ModelServer
from ray import serve
from ray.cluster_utils import Cluster
from support import FOLDER, ROOT, resident_bytes
from tritonclient.utils import InferenceServerException

MODEL = ROOT / "models" / "dlrm_dot.ts.onnx"
TOKEN = {"Authorization": "Bearer secret"}
REPOSITORY = FOLDER / "repository"
QUICK = {"health_check_period_s": 1, "health_check_timeout_s": 5, "graceful_shutdown_timeout_s": 5}
RAY_OPTIONS = {"address": "local", "num_cpus": 8, "include_dashboard": False, "log_to_driver": False, "logging_level": "error"}


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def make_artifacts():
    """Makes dlrm, the same with other weights, a small model that is loaded later, and a LoRA model."""
    REPOSITORY.mkdir(exist_ok=True)
    changed = onnx.load(MODEL)
    for tensor in changed.graph.initializer:
        if len(tensor.dims) == 2:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * np.float32(0.5), tensor.name))
    onnx.save(changed, FOLDER / "changed.onnx")
    with contextlib.redirect_stderr(io.StringIO()):
        fusec.compile(MODEL, REPOSITORY / "dlrm", target="cpu", cpu_level="native")
        fusec.refit(REPOSITORY / "dlrm", FOLDER / "changed.onnx", REPOSITORY / "dlrm_tuesday")
        fusec.compile(
            ROOT / "models/lora_mlp.ts.onnx", REPOSITORY / "lora", target="cpu", cpu_level="native", adapters={"slots": 2, "rank": 5}
        )


class Client:
    """A client of Triton's for one thread."""

    def __init__(self, port):
        self.http = triton.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=30, connection_timeout=30)
        self.retries = 0

    def infer(self, tensors, name="dlrm", attempts=1, **more):
        inputs = []
        for key, array in tensors.items():
            inputs.append(triton.InferInput(key, array.shape, {"f": "FP32", "i": f"INT{8 * array.itemsize}"}[array.dtype.kind]))
            inputs[-1].set_data_from_numpy(array)
        for attempt in range(attempts):
            try:
                answer = self.http.infer(name, inputs, **more)
                break
            except (InferenceServerException, http.client.HTTPException, OSError):
                if attempt + 1 == attempts:
                    raise
                self.retries += 1
                time.sleep(0.5)
        return answer.as_numpy("out0"), int(answer.get_response()["model_version"])


def request(random, rows):
    return {"in0": random.standard_normal((rows, 13), np.float32), "in1": random.integers(0, 3, (rows, 26))}


class Load:
    """Threads that send requests as fast as they are answered, and compare every answer with those of the artifacts."""

    def __init__(self, port, artifacts=("dlrm", "dlrm_tuesday"), threads=4, attempts=1, most_rows=5):
        self._port, self._attempts, self._most_rows = port, attempts, most_rows
        self._models = [fusec.load(REPOSITORY / name, "cpu") for name in artifacts]
        self._stop = threading.Event()
        self.answers, self.failures, self.wrong, self.retries = collections.Counter(), [], 0, 0
        self._threads = [threading.Thread(target=self._ask, args=(seed,)) for seed in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, seed):
        random, client = np.random.default_rng(seed), Client(self._port)
        while not self._stop.is_set():
            tensors = request(random, int(random.integers(1, self._most_rows + 1)))
            try:
                scores, version = client.infer(tensors, attempts=self._attempts)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                continue
            finally:
                self.retries += client.retries
                client.retries = 0
            self.answers[version] += 1
            if not any(np.allclose(scores, model(**tensors), atol=1e-5) for model in self._models):
                self.wrong += 1

    def more(self, count=20):
        """Returns when there are this many further answers, or a failure."""
        enough = sum(self.answers.values()) + count
        wait_until(lambda: sum(self.answers.values()) >= enough or self.failures, 120)

    def check(self, test):
        test.assertEqual((self.failures[:3], self.wrong), ([], 0))


KILLED = set()


def replicas_of(deployment):
    """The names of its actors, without those that were killed."""
    names = {actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)} - KILLED
    return sorted(name for name in names if name.startswith(f"SERVE_REPLICA::fusec#{deployment}#"))


def kill(deployment):
    victim = replicas_of(deployment)[0]
    KILLED.add(victim)
    ray.kill(ray.get_actor(victim, namespace="serve"))


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"it did not hold within {seconds} s")
        time.sleep(0.1)


class Served(unittest.TestCase):
    """Two replicas of a DLRM behind two gateways."""

    direct = DirectOptions()

    @classmethod
    def setUpClass(cls):
        if not REPOSITORY.exists():
            make_artifacts()
        cls.port = free_port()
        ray.init(**RAY_OPTIONS)
        serve.start(http_options={"host": "127.0.0.1", "port": cls.port})
        cls.run_app()

    @classmethod
    def run_app(cls, replicas=2):
        application = app(
            REPOSITORY / "dlrm",
            device="cpu",
            batch=BatchOptions(max_rows=64, max_delay_ms=100),
            gateway=GatewayOptions(str(REPOSITORY), "secret", max_body_bytes=1 << 20, body_timeout_s=5),
            model_options={"num_replicas": replicas, **QUICK},
            gateway_options={"num_replicas": 2, **QUICK},
            direct=cls.direct,
        )
        serve.run(application, name="fusec")

    @classmethod
    def tearDownClass(cls):
        serve.shutdown()
        ray.shutdown()

    def setUp(self):
        self.client = Client(self.port)
        wait_until(lambda: all(len(replicas_of(name)) == 2 for name in ("dlrm", "Gateway")) and self.client.http.is_server_ready())

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as page:
            return page.read().decode()

    def post(self, path, body):
        headers = {**TOKEN, "content-type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), headers)
        ) as answer:
            return json.loads(answer.read())

    def test_the_client_of_triton(self):
        http = self.client.http
        self.assertTrue(http.is_server_live() and http.is_model_ready("dlrm") and not http.is_model_ready("none"))
        self.assertEqual(http.get_server_metadata()["name"], "fusec")
        self.assertEqual([tensor["name"] for tensor in http.get_model_metadata("dlrm")["inputs"]], ["in0", "in1"])
        self.assertIn("dynamic_batching", http.get_model_config("dlrm"))
        tensors = request(np.random.default_rng(0), 3)
        with fusec.load(REPOSITORY / "dlrm", "cpu") as model:
            expected = model(**tensors)
        answers = []
        for packed in (None, "gzip", "deflate"):
            more = {"request_compression_algorithm": packed, "response_compression_algorithm": packed, "request_id": "7"}
            for outputs in (None, [triton.InferRequestedOutput("out0", True)], [triton.InferRequestedOutput("out0", False)]):
                answers.append(self.client.infer(tensors, outputs=outputs, **more)[0])
        for answer in answers:
            np.testing.assert_allclose(answer, expected, rtol=1e-6)
        many = [http.async_infer("dlrm", self._inputs(request(np.random.default_rng(i), 1))) for i in range(8)]
        self.assertEqual([handle.get_result().as_numpy("out0").shape for handle in many], [(1, 1)] * 8)

    def _inputs(self, tensors):
        inputs = [triton.InferInput("in0", tensors["in0"].shape, "FP32"), triton.InferInput("in1", tensors["in1"].shape, "INT64")]
        for tensor, array in zip(inputs, tensors.values()):
            tensor.set_data_from_numpy(array, binary_data=False)
        return inputs

    def test_models_come_and_go(self):
        http = self.client.http
        with self.assertRaisesRegex(InferenceServerException, "Authorization"):
            http.load_model("lora")
        with self.assertRaisesRegex(InferenceServerException, 'there is no model "lora"'):
            http.get_model_metadata("lora")
        http.load_model("lora", headers=TOKEN)
        wait_until(lambda: http.is_model_ready("lora"))
        tensors = {"in0": np.ones((2, 16), np.float32), "adapter_id": np.array([-1, 0], np.int32)}
        scores, version = self.client.infer(tensors, "lora")
        with fusec.load(REPOSITORY / "lora", "cpu") as model:
            np.testing.assert_allclose(scores, model(**tensors), rtol=1e-5)
        states = lambda: {model["name"]: model["state"] for model in http.get_model_repository_index()}
        self.assertEqual(states(), {"dlrm": "READY", "dlrm_tuesday": "UNAVAILABLE", "lora": "READY"})
        http.unload_model("lora", headers=TOKEN)
        self.assertEqual(states()["lora"], "UNAVAILABLE")
        with self.assertRaisesRegex(InferenceServerException, 'model "lora" is not loaded'):
            self.client.infer(tensors, "lora")
        http.load_model("lora", headers=TOKEN)
        again, later = self.client.infer(tensors, "lora")
        np.testing.assert_array_equal(again, scores)
        self.assertEqual(later, version + 2)

    def test_an_artifact_that_is_damaged_is_not_loaded(self):
        shutil.copytree(REPOSITORY / "lora", REPOSITORY / "damaged")
        self.addCleanup(shutil.rmtree, REPOSITORY / "damaged")
        with open(REPOSITORY / "damaged/weights.safetensors", "r+b") as file:
            file.truncate(100)
        with self.assertRaisesRegex(InferenceServerException, 'model "damaged" does not load: .*weights.safetensors'):
            self.client.http.load_model("damaged", headers=TOKEN)
        self.assertTrue(self.client.http.is_server_ready())

    def test_handles_of_ray(self):
        handle = serve.get_deployment_handle("dlrm", "fusec")
        tensors = request(np.random.default_rng(1), 4)
        self.assertEqual(handle.predict.remote(tensors).result()["out0"].shape, (4, 1))
        with self.assertRaisesRegex(RequestError, "index 99"):
            handle.predict.remote({**tensors, "in1": np.full((4, 26), 99)}).result()

    def test_new_weights_under_load(self):
        with Load(self.port) as load:
            load.more()
            versions = []
            for name in ("dlrm_tuesday", "dlrm") * 3:
                versions.append(self.post("/admin/models/dlrm/weights", {"artifact": name})["model_version"])
                load.more(5)
            load.more()
        load.check(self)
        self.assertGreaterEqual(len(load.answers), 3)
        self.assertEqual(versions, sorted(versions, key=int))
        self.assertEqual(max(load.answers), int(versions[-1]))

    def test_new_weights_reach_all_replicas_and_those_that_come_later(self):
        self.post("/admin/models/dlrm/weights", {"artifact": "dlrm_tuesday"})
        kill("dlrm")
        wait_until(lambda: len(replicas_of("dlrm")) == 2)
        wait_until(self.client.http.is_server_ready)
        with Load(self.port, ["dlrm_tuesday"]) as load:
            load.more()
        load.check(self)
        with Load(self.port, ["dlrm_tuesday", "dlrm"]) as load:
            self.post("/admin/models/dlrm/weights", {"artifact": "dlrm"})
        load.check(self)

    def test_the_ledger_may_be_lost(self):
        version = int(self.post("/admin/models/dlrm/weights", {"artifact": "dlrm"})["model_version"])
        with Load(self.port) as load:
            kill("Ledger")
            wait_until(lambda: self.client.http.get_model_metadata("dlrm")["versions"] == [str(version)])
            self.assertEqual(int(self.post("/admin/models/dlrm/weights", {"artifact": "dlrm"})["model_version"]), version + 1)
        load.check(self)

    def test_a_replica_is_killed(self):
        """Repeats the fault until it happens during a request, which is then sent to another replica."""
        with Load(self.port, threads=12) as load:
            for _ in range(8):
                load.more()
                kill("dlrm")
                wait_until(lambda: len(replicas_of("dlrm")) == 2)
                (retries,) = re.findall(r'^fusec_retries_total{model="dlrm"} (\d+)', self.metrics(), re.M)
                if int(retries):
                    break
        load.check(self)
        print(f"{sum(load.answers.values())} answers while replicas were killed, {retries} after a retry")
        self.assertGreater(int(retries), 0)

    def test_a_gateway_is_killed(self):
        """A client may have to repeat its request, since requests that the killed process had read are lost."""
        with Load(self.port, attempts=10) as load:
            load.more()
            kill("Gateway")
            wait_until(lambda: len(replicas_of("Gateway")) == 2)
            load.more()
        load.check(self)

    def test_clients_that_misbehave(self):
        head = b"POST /v2/models/dlrm/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        with Load(self.port) as load:
            stalled = [self._raw(head % 100 + b"{") for _ in range(20)]
            for _ in range(20):
                self._raw(head % 1000 + b"{}").close()
                self._raw(np.random.default_rng(0).bytes(2000)).close()
            with self._raw(head % (10 << 30)) as huge:
                self.assertIn(b" 413 ", huge.recv(1000))
            chunked = head.split(b"Content")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
            with self._raw(chunked) as flood:
                with contextlib.suppress(OSError):
                    for _ in range(100):
                        flood.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
                self.assertIn(b" 413 ", flood.recv(1000))
            for connection in stalled:
                with connection:
                    self.assertIn(b" 408 ", connection.recv(1000))
            row = [{"name": "in0", "datatype": "FP32", "shape": [1, 13], "data": [0] * 13}]
            row += [{"name": "in1", "datatype": "INT64", "shape": [1, 26], "data": [0] * 26}]
            body = json.dumps({"inputs": row}).encode()
            # Clients disconnect while their requests wait for others; some of them before they run.
            wait_until(lambda: self._hang_up(head % len(body) + body) or 'status="499"' in self.metrics())
        load.check(self)

    def _hang_up(self, data):
        connections = [self._raw(data) for _ in range(20)]
        time.sleep(0.05)
        for connection in connections:
            connection.close()

    def _raw(self, data):
        connection = socket.create_connection(("127.0.0.1", self.port), 20)
        connection.sendall(data)
        return connection


def start_serve(test):
    """Starts Ray and its HTTP proxy until the test ends; returns the port."""
    if not REPOSITORY.exists():
        make_artifacts()
    port = free_port()
    ray.init(**RAY_OPTIONS)
    test.addCleanup(ray.shutdown)
    test.addCleanup(serve.shutdown)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    return port


class UserConfig(unittest.TestCase):
    def test_weights_come_from_ray_and_others_lie_above(self):
        port = start_serve(self)
        configured = {"user_config": {"weights": str(REPOSITORY / "dlrm_tuesday")}, **QUICK}
        serve.run(
            app(REPOSITORY / "dlrm", device="cpu", gateway=GatewayOptions(str(REPOSITORY), "secret"), model_options=configured),
            name="fusec",
        )
        with Load(port, ["dlrm_tuesday"], threads=1) as load:
            load.more()
        load.check(self)
        path = f"http://127.0.0.1:{port}/admin/models/dlrm/weights"
        urllib.request.urlopen(urllib.request.Request(path, b'{"artifact": "dlrm"}', TOKEN)).close()
        kill("dlrm")
        wait_until(lambda: replicas_of("dlrm"))
        wait_until(Client(port).http.is_server_ready)
        with Load(port, ["dlrm"], threads=1) as load:
            load.more()
        load.check(self)


class Nodes(unittest.TestCase):
    def test_a_node_is_removed(self):
        if not REPOSITORY.exists():
            make_artifacts()
        cluster, port = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}), free_port()
        self.addCleanup(cluster.shutdown)
        lost = cluster.add_node(num_cpus=2, resources={"models": 1})
        cluster.add_node(num_cpus=2, resources={"models": 1})
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        self.addCleanup(ray.shutdown)
        self.addCleanup(serve.shutdown)
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        placed = {"num_replicas": 2, "max_replicas_per_node": 1, "ray_actor_options": {"num_cpus": 1, "resources": {"models": 1}}}
        serve.run(app(REPOSITORY / "dlrm", device="cpu", model_options={**placed, **QUICK}), name="fusec")
        self.assertEqual(len(replicas_of("dlrm")), 2)  # one on each of these nodes, which have room for one
        # If Ray placed the gateway on that node, the requests that it had accepted are lost, and their clients repeat them.
        with Load(port, attempts=3) as load:
            load.more()
            cluster.remove_node(lost)
            load.more(60)
        load.check(self)


class Memory(unittest.IsolatedAsyncioTestCase):
    async def test_it_stays_the_same_over_a_million_requests(self):
        if not REPOSITORY.exists():
            make_artifacts()
        asyncio.get_running_loop().set_debug(False)
        server = ModelServer("dlrm", REPOSITORY / "dlrm", "cpu", BatchOptions(max_queue=10_000))
        await server.start()
        requests = [request(np.random.default_rng(seed), 1 + seed % 3) for seed in range(1000)]
        requests[7]["in1"][0, 0] = 10**6  # one in a thousand fails

        async def ask(count):
            for _ in range(count // len(requests)):
                await asyncio.gather(*map(server.predict, requests), return_exceptions=True)

        await ask(200_000)
        before = resident_bytes()
        await ask(1_000_000)
        grown = resident_bytes() - before
        print(f"memory grew by {grown} bytes over {sum(server.metrics.requests.values())} requests")
        # Memory comes in steps of up to 2 MB, a large page; the smallest object in each request would be 16 MB.
        self.assertLess(grown, 8 << 20)
        self.assertEqual(server.metrics.requests[400], server.metrics.refused_inputs)
        await server.close()


class Example(unittest.TestCase):
    def test_it_runs_as_its_page_says(self):
        self.run_example()

    def test_it_runs_sharded(self):
        self.run_example("--sharded")

    def run_example(self, *flags):
        port = free_port()
        program = pathlib.Path(fusec.__file__).parent / "bin"
        environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{program}:{os.environ['PATH']}"}
        up = [ROOT / "examples/serve_ray/up.sh", *flags, FOLDER / "-".join(["ranker", *flags]), "--http", f"127.0.0.1:{port}"]
        with subprocess.Popen(up, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment) as server:
            self.addCleanup(server.kill)
            for line in server.stderr:
                if "/v2 has ranker" in line:
                    break
            threading.Thread(target=server.stderr.read, daemon=True).start()
            load = [sys.executable, ROOT / "examples/serve_ray/load.py", "9", f"127.0.0.1:{port}"]
            done = subprocess.run(load, capture_output=True, text=True, env=environment, timeout=120)
            server.send_signal(signal.SIGINT)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for text in ("tuesday is version 2 in all replicas", "monday is version 3 in all replicas", "0 failed", "'3': "):
            self.assertIn(text, done.stdout)


class CommandLine(unittest.TestCase):
    def test_it_serves_until_it_is_interrupted(self):
        if not REPOSITORY.exists():
            make_artifacts()
        port, start = free_port(), time.monotonic()
        grpc_port = free_port()
        command = [sys.executable, "-m", "fusec.serve", f"ranker={REPOSITORY / 'dlrm'}", "--http", f"127.0.0.1:{port}", "--device", "cpu"]
        command += ["--grpc", f"0.0.0.0:{grpc_port}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
            for line in server.stderr:
                if f"/v2 and gRPC on port {grpc_port} has ranker" in line:
                    break
            print(f"serves after {time.monotonic() - start:.1f} s")
            scores, _ = Client(port).infer(request(np.random.default_rng(0), 2), "ranker")
            self.assertEqual(scores.shape, (2, 1))
            with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{grpc_port}") as client:
                self.assertTrue(client.is_model_ready("ranker"))
            server.send_signal(signal.SIGINT)
            server.stderr.read()
        self.assertEqual(server.returncode, 0)
