"""Tests replicas of fusec.serve that listen themselves: the tests of Ray's proxies against their ports, and tests of their own. nightly.sh
runs it, in an environment with Ray."""

import asyncio
import concurrent.futures
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import fusec
import numpy as np
import serve_grpc
import serve_ray
import tritonclient.grpc
from fusec.serve import BatchOptions, DirectOptions, _tracing
from fusec.serve._direct import DirectServer
from fusec.serve._gateway import Gateway
from fusec.serve._http_listener import Listener
from fusec.serve._server import ModelServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serve_ray import REPOSITORY, TOKEN, Client, Load, free_port, kill, make_artifacts, replicas_of, request, wait_until
from support import artifact
from test_serve_http import LocalBackend, body_of
from test_serve_listener import lookup
from tritonclient.utils import InferenceServerException


class Http(serve_ray.Served):
    """Two replicas of a DLRM that share a port. A client repeats its request when its connection breaks, since nobody else has read it."""

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
        for _ in range(12):  # each connection goes to some replica, of either model
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
        """gRPC itself rejects them before they are read."""
        self.check(request(np.random.default_rng(0), 50_000))  # 13 MB
        with self.assertRaisesRegex(InferenceServerException, "larger than max") as caught:
            self.client.infer("dlrm", serve_grpc.inputs_of(request(np.random.default_rng(0), 300_000)))
        self.assertEqual(caught.exception.status(), "StatusCode.RESOURCE_EXHAUSTED")

    def test_a_replica_is_killed(self):
        """Its clients repeat their requests."""
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


class Listening(unittest.IsolatedAsyncioTestCase):
    """One replica, without Ray, whose batches wait for others."""

    async def asyncSetUp(self):
        self.port = free_port()
        self.server = ModelServer("lookup", artifact("lookup"), "cpu", BatchOptions(max_delay_ms=500, max_queue=2))
        await self.server.start()
        self.addAsyncCleanup(self.server.close)
        gateway = Gateway(LocalBackend({"lookup": self.server}))
        self.direct = DirectServer(gateway, DirectOptions(("127.0.0.1", self.port)), self.server)
        await self.direct.start()
        self.addAsyncCleanup(self.direct.close)

    async def ask(self):
        """A connection that has sent a request."""
        body, headers = body_of({"ids": np.array([1])})
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.addCleanup(writer.close)
        lines = [f"{name}: {value}" for name, value in {"host": "x", "content-length": len(body), **headers}.items()]
        writer.write("\r\n".join(["POST /v2/models/lookup/infer HTTP/1.1", *lines, "", ""]).encode() + body)
        return reader, writer

    async def statuses(self, *readers):
        return sorted([int((await reader.readline()).split()[1]) for reader in readers])

    async def test_one_more_than_may_wait_gets_429(self):
        connections = [await self.ask() for _ in range(3)]
        self.assertEqual(await self.statuses(*(reader for reader, _ in connections)), [200, 200, 429])

    async def test_a_request_whose_client_hangs_up_is_not_run(self):
        _, writer = await self.ask()
        await asyncio.sleep(0.2)
        writer.close()
        await asyncio.sleep(0.8)
        self.assertEqual(dict(self.server.metrics.requests), {499: 1})
        self.assertEqual(self.server.statistics().runs, 0)

    async def test_it_answers_what_it_has_read_before_it_goes(self):
        idle, _ = await asyncio.open_connection("127.0.0.1", self.port)
        reader, _ = await self.ask()
        await asyncio.sleep(0.2)
        await self.direct.close()
        self.assertEqual(await self.statuses(reader), [200])
        self.assertEqual(await idle.read(), b"")
        with self.assertRaises(ConnectionRefusedError):
            await self.ask()
        with self.assertRaisesRegex(RuntimeError, "has ended"):
            self.direct.check()

    async def test_a_port_that_another_program_has(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            other = DirectServer(Gateway(LocalBackend({})), DirectOptions(taken.getsockname()))
            with self.assertRaisesRegex(OSError, "in use"):
                await other.start()
            other = DirectServer(Gateway(LocalBackend({})), DirectOptions(grpc=taken.getsockname()))
            with self.assertRaises(RuntimeError):
                await other.start()


class Spans(unittest.IsolatedAsyncioTestCase):
    """Of OpenTelemetry: each request has one, whether or not it is for the model of the replica."""

    async def test_each_request_has_one(self):
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        server = ModelServer("lookup", artifact("lookup"), "cpu", BatchOptions(max_delay_ms=0))
        await server.start()
        self.addAsyncCleanup(server.close)
        with (
            unittest.mock.patch.object(_tracing.trace, "get_tracer_provider", lambda: provider),
            unittest.mock.patch.object(_tracing, "_next_look", 0.0),
            unittest.mock.patch.object(_tracing, "_is_seen", False),
            unittest.mock.patch.object(_tracing, "_tracer", provider.get_tracer("fusec.serve")),
        ):
            for local in (server, None):
                listener = Listener(Gateway(LocalBackend({"lookup": server})), local)
                listener.start("127.0.0.1", 0)
                for id in (1, 9, 1):
                    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                    writer.write(lookup(id))
                    await reader.readline()
                    writer.close()
                await listener.close(10)
        found = [(span.name, span.attributes["model"], span.status.is_ok, len(span.events)) for span in exporter.get_finished_spans()]
        good, bad = ("fusec.infer", "lookup", True, 0), ("fusec.infer", "lookup", False, 1)
        self.assertEqual(found, 2 * [good, bad, good])


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
