"""Replicas of fusec.serve that listen themselves: the tests of Ray's proxies at their ports, and what is theirs alone. nightly.sh runs it, in
an environment with Ray."""

import concurrent.futures
import signal
import subprocess
import sys
import threading
import time
import unittest

import fusec
import numpy as np
import serve_grpc
import serve_ray
import tritonclient.grpc
from fusec.serve import DirectOptions
from serve_ray import REPOSITORY, TOKEN, Client, Load, free_port, kill, make_artifacts, replicas_of, request, wait_until
from tritonclient.utils import InferenceServerException


class Http(serve_ray.Served):
    """Two replicas of a DLRM that share a port. A client asks again when its connection breaks: nobody else has read its request."""

    @classmethod
    def setUpClass(cls):
        cls.direct = DirectOptions(http=("127.0.0.1", free_port()))
        super().setUpClass()
        _, cls.port = cls.direct.http

    def test_a_replica_is_killed(self):
        with Load(self.port, threads=12, attempts=20) as load:
            for _ in range(4):
                load.more()
                kill("dlrm")
                load.more()
                wait_until(lambda: len(replicas_of("dlrm")) == 2)
        load.check(self)
        self.assertGreater(load.retries, 0)
        print(f"{sum(load.answers.values())} answers while replicas that listen were killed, {load.retries} of them asked for again")

    def test_replicas_come_and_go(self):
        with Load(self.port, threads=12, attempts=20) as load:
            for replicas in (1, 2):
                load.more()
                self.run_app(replicas)
                wait_until(lambda: len(replicas_of("dlrm")) == replicas)
            load.more()
        load.check(self)
        print(f"{sum(load.answers.values())} answers while Ray ended a replica that listens, {load.retries} of them asked for again")

    def test_every_replica_knows_every_model(self):
        http = self.client.http
        http.load_model("dlrm_tuesday", headers=TOKEN)
        tensors, expected = request(np.random.default_rng(0), 2), {}
        for name in ("dlrm", "dlrm_tuesday"):
            wait_until(lambda: http.is_model_ready(name))
            with fusec.load(REPOSITORY / name, "cpu") as model:
                expected[name] = model(**tensors)
        for _ in range(12):  # connections: each is some replica's, of either model
            client = Client(self.port)
            for name, scores in expected.items():
                np.testing.assert_allclose(client.infer(tensors, name)[0], scores, rtol=1e-5)
        http.unload_model("dlrm_tuesday", headers=TOKEN)

    def test_deadlines(self):
        with self.assertRaisesRegex(InferenceServerException, "no answer within 1 ms"):
            self.client.infer(request(np.random.default_rng(0), 1), timeout=1000)  # of the 100 ms that a batch waits for others


class Grpc(serve_grpc.Served):
    @classmethod
    def setUpClass(cls):
        cls.direct = DirectOptions(grpc=("127.0.0.1", free_port()))
        super().setUpClass()
        _, cls.port = cls.direct.grpc

    def test_big_bodies(self):
        """gRPC itself refuses them before they are read."""
        self.check(request(np.random.default_rng(0), 50_000))  # 13 MB
        with self.assertRaisesRegex(InferenceServerException, "larger than max") as caught:
            self.client.infer("dlrm", serve_grpc.inputs_of(request(np.random.default_rng(0), 300_000)))
        self.assertEqual(caught.exception.status(), "StatusCode.RESOURCE_EXHAUSTED")

    def test_a_replica_is_killed(self):
        """Its clients ask again."""
        stop = threading.Event()

        def ask(seed):
            random, count, retries = np.random.default_rng(seed), 0, 0
            while not stop.is_set():
                tensors = request(random, 2)
                while True:
                    try:
                        self.check(tensors)
                        break
                    except InferenceServerException as error:
                        self.assertEqual(error.status(), "StatusCode.UNAVAILABLE")
                        retries += 1
                        time.sleep(0.1)
                count += 1
            return count, retries

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            asking = [threads.submit(ask, seed) for seed in range(8)]
            for _ in range(3):
                time.sleep(1)
                kill("dlrm")
                wait_until(lambda: len(replicas_of("dlrm")) == 2)
            time.sleep(1)
            stop.set()
            counts, retries = zip(*(future.result() for future in asking))
        self.assertGreater(min(counts), 3)
        print(f"{sum(counts)} answers of gRPC while replicas that listen were killed, {sum(retries)} of them asked for again")


class CommandLine(unittest.TestCase):
    def test_replicas_listen_where_they_are_told(self):
        if not REPOSITORY.exists():
            make_artifacts()
        ports = [free_port() for _ in range(3)]
        command = [sys.executable, "-m", "fusec.serve", f"ranker={REPOSITORY / 'dlrm'}", "--device", "cpu"]
        for flag, port in zip(("--http", "--direct-http", "--direct-grpc"), ports):
            command += [flag, f"127.0.0.1:{port}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
            self.addCleanup(server.kill)
            for line in server.stderr:
                if f"direct HTTP on port {ports[1]} and direct gRPC on port {ports[2]} has ranker" in line:
                    break
            tensors = request(np.random.default_rng(0), 2)
            answers = [Client(port).infer(tensors, "ranker")[0] for port in ports[:2]]
            with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{ports[2]}") as client:
                answers.append(client.infer("ranker", serve_grpc.inputs_of(tensors)).as_numpy("out0"))
            for answer in answers[1:]:
                np.testing.assert_array_equal(answer, answers[0])
            server.send_signal(signal.SIGINT)
            server.stderr.read()
        self.assertEqual(server.returncode, 0)
