"""fusec.serve over gRPC with Triton's client, first in a server of this process and then on Ray. nightly.sh runs it, in an environment with
Ray."""

import asyncio
import concurrent.futures
import contextlib
import json
import socket
import threading
import time
import unittest
import unittest.mock
import urllib.request

import fusec
import grpc
import numpy as np
import ray
import tritonclient.grpc as triton
from fusec.serve import GRPC_SERVICER, BatchOptions, DirectOptions, GatewayOptions, QueueFull, Unavailable, app
from fusec.serve._gateway import Gateway
from fusec.serve._grpc import GrpcGateway, add_to_server
from fusec.serve._http_protocol import HttpInfer
from fusec.serve._ledger import POLL_S
from fusec.serve._server import ModelServer
from ray import serve
from serve_ray import QUICK, RAY_OPTIONS, REPOSITORY, TOKEN, free_port, kill, make_artifacts, replicas_of, request, wait_until
from support import FOLDER, artifact
from test_serve_http import LocalBackend
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

AUTHORIZED = {name.lower(): value for name, value in TOKEN.items()}
DATATYPES = {"float32": "FP32", "float16": "FP16", "int64": "INT64", "bool": "BOOL"}
FIELDS = {"FP32": "fp32_contents", "INT64": "int64_contents", "BOOL": "bool_contents"}


def inputs_of(tensors):
    """Inputs as in Triton's client, whose bytes are sent in raw_input_contents."""
    inputs = []
    for name, array in tensors.items():
        inputs.append(triton.InferInput(name, list(array.shape), DATATYPES[array.dtype.name]))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def typed(model, tensors, **more):
    """A request whose elements are protobuf numbers."""
    message = service_pb2.ModelInferRequest(model_name=model, **more)
    for name, array in tensors.items():
        datatype = DATATYPES[array.dtype.name]
        entry = message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        getattr(entry.contents, FIELDS[datatype]).extend(array.ravel().tolist())
    return message


class Refused(Exception):
    """A gRPC status code and its message."""


class Methods(unittest.TestCase):
    """Tests the methods of a server in this process, whose event loop also runs the models."""

    options = GatewayOptions(repository=str(FOLDER), token="secret", max_body_bytes=1 << 20)

    def setUp(self):
        self.loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self.loop.run_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.loop.call_soon_threadsafe, self.loop.stop)
        self.servers = {}
        for name in ("sum", "lookup", "half", "bools"):
            self.servers[name] = ModelServer(name, artifact(name), "cpu", BatchOptions(max_delay_ms=0))
            self.wait(self.servers[name].start())
            self.addCleanup(lambda server=self.servers[name]: self.wait(server.close()))
        self.port = free_port()
        self.wait(self.serve())
        self.addCleanup(lambda: self.wait(self.server.stop(None)))
        self.client = triton.InferenceServerClient(f"127.0.0.1:{self.port}")
        self.addCleanup(self.client.close)
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.addCleanup(channel.close)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

    async def serve(self):
        self.server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        add_to_server(GrpcGateway(Gateway(LocalBackend(self.servers), self.options)), self.server)
        self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self.server.start()

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def check_refused(self, code, line, ask, *arguments, **more):
        with self.assertRaises((grpc.RpcError, InferenceServerException)) as caught:
            ask(*arguments, **more)
        error = caught.exception
        is_grpc = isinstance(error, grpc.RpcError)
        found, said = (error.code(), error.details()) if is_grpc else (error.status(), error.message())
        self.assertRegex(said, line)
        self.assertNotIn("\n", said)
        self.assertEqual(str(found), f"StatusCode.{code}")

    # ---- answers ----

    def test_what_a_server_and_its_models_say(self):
        client = self.client
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("sum"))
        self.assertEqual(client.get_server_metadata().name, "fusec")
        metadata = client.get_model_metadata("sum", as_json=True)
        self.assertEqual(metadata["inputs"], [{"name": "x", "datatype": "FP32", "shape": ["-1", "4"]}])
        self.assertEqual(client.get_model_metadata("sum", "1", as_json=True), metadata)
        config = client.get_model_config("sum").config
        self.assertEqual((config.backend, config.input[0].data_type, list(config.output[0].dims)), ("fusec", 11, [-1, 4]))
        self.assertEqual({model.name: model.state for model in client.get_model_repository_index().models}["sum"], "READY")
        self.check_refused("NOT_FOUND", '^there is no model "none"$', client.is_model_ready, "none")
        self.check_refused("NOT_FOUND", '^model "sum" has version 1, not "2"$', client.get_model_metadata, "sum", "2")
        self.check_refused("UNIMPLEMENTED", "Method not found", client.get_system_shared_memory_status)

    def test_raw_and_typed_contents_get_the_same_answer(self):
        for name, tensors in (
            ("sum", {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}),
            ("lookup", {"ids": np.array([2, 0, 1])}),
            ("bools", {"a": np.array([True, False, True]), "b": np.array([True, True, False])}),
        ):
            with fusec.load(artifact(name), "cpu") as model:
                expected = model(*tensors.values())
            raw = self.client.infer(name, inputs_of(tensors), request_id="7")
            (output,) = raw.get_response().outputs
            np.testing.assert_array_equal(raw.as_numpy(output.name), expected)
            answer = self.stub.ModelInfer(typed(name, tensors, id="7"))
            self.assertEqual(answer, raw.get_response())
            self.assertEqual((answer.id, answer.model_name, answer.model_version), ("7", name, "1"))
            named = self.client.infer(name, inputs_of(tensors), outputs=[triton.InferRequestedOutput(output.name)])
            np.testing.assert_array_equal(named.as_numpy(output.name), expected)

    def test_half_types_are_raw(self):
        x = np.arange(8, dtype=np.float16).reshape(1, 8)
        np.testing.assert_array_equal(self.client.infer("half", inputs_of({"x": x})).as_numpy("y"), x + x)
        message = service_pb2.ModelInferRequest(model_name="half")
        message.inputs.add(name="x", datatype="FP16", shape=[1, 8]).contents.fp32_contents.extend([0] * 8)
        self.check_refused("INVALID_ARGUMENT", '"x" is FP16, which travels in raw_input_contents alone', self.stub.ModelInfer, message)

    def test_statistics(self):
        for rows in (1, 3):
            self.client.infer("sum", inputs_of({"x": np.zeros((rows, 4), np.float32)}))
        found = self.client.get_inference_statistics("sum").model_stats[0]
        self.assertEqual((found.inference_count, found.execution_count, found.inference_stats.success.count), (4, 2, 2))
        self.assertEqual([batch.batch_size for batch in found.batch_stats], [1, 3])
        self.assertEqual(len(self.client.get_inference_statistics().model_stats), len(self.servers))

    # ---- bad requests ----

    def test_a_bad_request_gets_the_line_that_http_has(self):
        good = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}
        for change in (
            {"name": "z"},
            {"datatype": "FP64"},
            {"shape": [-1, 4]},
            {"shape": [2**62, 2**62]},
            {"shape": [4]},
            {"shape": [2, 2]},
            {"data": [0] * 3},
            {"parameters": {"shared_memory_region": "r"}},
        ):
            entry = {**good, **change}
            with self.assertRaises(fusec.serve.RequestError) as caught:
                self.wait(self.servers["sum"].infer(HttpInfer(json.dumps({"inputs": [entry]}).encode())))
            message = service_pb2.ModelInferRequest(model_name="sum")
            sent = message.inputs.add(name=entry["name"], datatype=entry["datatype"], shape=entry["shape"])
            sent.contents.fp32_contents.extend(entry["data"])
            for name, value in entry.get("parameters", {}).items():
                sent.parameters[name].string_param = value
            with self.assertRaises(grpc.RpcError) as refused:
                self.stub.ModelInfer(message)
            found = (refused.exception.code(), refused.exception.details())
            self.assertEqual(found, (grpc.StatusCode.INVALID_ARGUMENT, str(caught.exception)))

    def test_what_is_wrong_with_a_message(self):
        x = {"x": np.zeros((1, 4), np.float32)}
        raw = lambda *contents: service_pb2.ModelInferRequest(
            model_name="sum",
            inputs=[service_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 4])],
            raw_input_contents=contents,
        )
        twice, both, other = typed("sum", x), raw(b"\0" * 16), raw()
        twice.inputs.append(twice.inputs[0])
        both.inputs[0].contents.fp32_contents.extend([0] * 4)
        other.inputs[0].contents.int64_contents.extend([0] * 4)
        timeout = typed("sum", x)
        timeout.parameters["timeout"].string_param = "soon"
        output = typed("sum", x)
        output.outputs.add(name="z")
        classes = typed("sum", x)
        classes.outputs.add(name="y").parameters["classification"].int64_param = 3
        message = service_pb2.ModelInferRequest(model_name="bools", raw_input_contents=[b"\2", b"\1"])
        for name in ("a", "b"):
            message.inputs.add(name=name, datatype="BOOL", shape=[1])
        for bad, line in (
            (typed("sum", {}), 'input "x" is missing'),
            (twice, 'input "x" is given twice'),
            (both, 'input "x" has both contents and raw_input_contents'),
            (raw(b"\0" * 15), "has 15 bytes of binary data, but its shape needs 16"),
            (raw(b"\0" * 16, b""), "raw_input_contents has 2 entries for 1 inputs"),
            (other, 'input "x" is FP32 and has int64_contents, expected fp32_contents'),
            (timeout, 'the parameter timeout is "soon", expected microseconds'),
            (output, 'there is no output "z", the model has "y"'),
            (classes, 'output "y" asks for classification'),
            (message, 'input "a" is BOOL and has a byte that is neither 0 nor 1'),
            (typed("lookup", {"ids": np.array([0, 3])}), r"index 3 at position \[1\]"),
        ):
            self.check_refused("INVALID_ARGUMENT", line, self.stub.ModelInfer, bad)
        self.check_refused("NOT_FOUND", 'there is no model "none"', self.stub.ModelInfer, typed("none", x))
        self.check_refused("NOT_FOUND", 'has version 1, not "9"', self.stub.ModelInfer, typed("sum", x, model_version="9"))
        self.check_refused("RESOURCE_EXHAUSTED", "the body has more than 1048576 bytes", self.stub.ModelInfer, raw(bytes(1 << 20)))
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            self.check_refused("INVALID_ARGUMENT", "the message is no ModelInferRequest", call, b"\xff\xff")
        self.assertEqual(self.client.infer("sum", inputs_of(x)).as_numpy("y")[0, 0], 10)

    def test_statuses_become_codes(self):
        x = typed("sum", {"x": np.zeros((1, 4), np.float32)})
        for error, code in (
            (QueueFull("3 requests wait already"), "RESOURCE_EXHAUSTED"),
            (Unavailable("the model is being unloaded"), "UNAVAILABLE"),
            (fusec.serve.DeadlineExceeded("no answer within 3 ms"), "DEADLINE_EXCEEDED"),
            (fusec.serve.RequestError("the model failed: the GPU is lost", 500), "INTERNAL"),
        ):
            with unittest.mock.patch.object(self.servers["sum"], "infer", side_effect=error):
                self.check_refused(code, f"^{error}$", self.stub.ModelInfer, x)
        with unittest.mock.patch.object(self.servers["sum"], "infer", side_effect=ZeroDivisionError):
            with self.assertLogs("fusec.serve", "ERROR"):
                self.check_refused("INTERNAL", "^the server failed: ZeroDivisionError$", self.stub.ModelInfer, x)

    # ---- changes ----

    def test_models_are_unloaded_and_loaded_with_a_token(self):
        for headers in (None, {"authorization": "Bearer other"}):
            self.check_refused("UNAUTHENTICATED", "Authorization", self.client.unload_model, "sum", headers=headers)
        self.client.unload_model("sum", headers=AUTHORIZED)
        x = inputs_of({"x": np.zeros((1, 4), np.float32)})
        self.check_refused("UNAVAILABLE", '^model "sum" is not loaded$', self.client.infer, "sum", x)
        self.assertFalse(self.client.is_model_ready("sum"))
        self.client.load_model("sum", headers=AUTHORIZED)
        self.assertEqual(self.client.infer("sum", x).get_response().model_version, "3")
        self.check_refused("NOT_FOUND", "not in the server's folder", self.client.load_model, "missing", headers=AUTHORIZED)
        self.check_refused("PERMISSION_DENIED", "is outside the server's folder", self.client.load_model, "../x", headers=AUTHORIZED)


class Served(unittest.TestCase):
    """Two replicas of a DLRM behind two gateways, and Ray's proxies for HTTP and gRPC."""

    direct = DirectOptions()

    @classmethod
    def setUpClass(cls):
        if not REPOSITORY.exists():
            make_artifacts()
        cls.http_port, cls.port = free_port(), free_port()
        ray.init(**RAY_OPTIONS)
        serve.start(
            http_options={"host": "127.0.0.1", "port": cls.http_port},
            grpc_options={"port": cls.port, "grpc_servicer_functions": [GRPC_SERVICER]},
        )
        application = app(
            REPOSITORY / "dlrm",
            device="cpu",
            batch=BatchOptions(max_rows=1 << 16, max_delay_ms=100),
            gateway=GatewayOptions(str(REPOSITORY), "secret"),
            model_options={"num_replicas": 2, **QUICK},
            gateway_options={"num_replicas": 2, **QUICK},
            direct=cls.direct,
        )
        serve.run(application, name="fusec")
        cls.model = fusec.load(REPOSITORY / "dlrm", "cpu")

    @classmethod
    def tearDownClass(cls):
        serve.shutdown()
        ray.shutdown()

    def setUp(self):
        self.client = triton.InferenceServerClient(f"127.0.0.1:{self.port}")
        self.addCleanup(self.client.close)
        wait_until(lambda: len(replicas_of("dlrm")) == 2 and self.is_ready())

    def is_ready(self):
        with contextlib.suppress(InferenceServerException):
            return self.client.is_server_ready()

    def counts(self):
        """Requests of the DLRM by status, over all replicas."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics") as page:
            lines = page.read().decode().splitlines()
        counts = {}
        for line in lines:
            if line.startswith('fusec_requests_total{model="dlrm"'):
                status = line.split('status="')[1].split('"')[0]
                counts[status] = counts.get(status, 0) + int(line.split()[-1])
        return counts

    def check(self, tensors, **more):
        found = self.client.infer("dlrm", inputs_of(tensors), **more).as_numpy("out0")
        np.testing.assert_allclose(found, self.model(**tensors), rtol=1e-5, atol=1e-6)

    def test_answers_and_errors(self):
        for rows in (1, 3, 100):
            self.check(request(np.random.default_rng(rows), rows), request_id="7")
        tensors = request(np.random.default_rng(0), 2)
        for change, model, code, line in (
            ({"in1": np.full((2, 26), 10**6)}, "dlrm", "INVALID_ARGUMENT", "index 1000000"),
            ({"in0": np.zeros((3, 13), np.float32)}, "dlrm", "INVALID_ARGUMENT", "as dim 0, expected"),
            ({}, "none", "NOT_FOUND", 'there is no model "none"'),
        ):
            with self.assertRaisesRegex(InferenceServerException, line) as caught:
                self.client.infer(model, inputs_of({**tensors, **change}))
            self.assertEqual(caught.exception.status(), f"StatusCode.{code}")
        with self.assertRaisesRegex(InferenceServerException, "no answer within 1 ms") as caught:
            self.client.infer("dlrm", inputs_of(tensors), timeout=1000)  # of the 100 ms that a batch waits for others
        self.assertEqual(caught.exception.status(), "StatusCode.DEADLINE_EXCEEDED")

    def test_requests_are_batched(self):
        time.sleep(POLL_S + 1)  # replicas have told of what earlier tests asked
        before = self.client.get_inference_statistics("dlrm").model_stats[0]
        random, ended = np.random.default_rng(0), []
        for _ in range(40):
            self.client.async_infer("dlrm", inputs_of(request(random, 2)), lambda result, error: ended.append(error))
        wait_until(lambda: len(ended) == 40)
        self.assertEqual(ended, [None] * 40)

        def more(name):
            return getattr(self.client.get_inference_statistics("dlrm").model_stats[0], name) - getattr(before, name)

        wait_until(lambda: more("inference_count") >= 80)
        self.assertEqual(more("inference_count"), 80)
        self.assertLess(more("execution_count"), 40)

    def test_big_bodies(self):
        self.check(request(np.random.default_rng(0), 50_000))  # 13 MB
        with self.assertRaisesRegex(InferenceServerException, "the body has more than 67108864 bytes") as caught:
            self.client.infer("dlrm", inputs_of(request(np.random.default_rng(0), 300_000)))
        self.assertEqual(caught.exception.status(), "StatusCode.RESOURCE_EXHAUSTED")

    def test_deadlines_and_cancelled_calls_reach_the_replica(self):
        """Both requests leave the queue before they run, and count as clients that disconnected."""
        before = self.counts().get("499", 0)
        tensors = inputs_of(request(np.random.default_rng(0), 1))
        for _ in range(3):
            with self.assertRaisesRegex(InferenceServerException, "Deadline Exceeded") as caught:
                self.client.infer("dlrm", tensors, client_timeout=0.05)
            self.assertEqual(caught.exception.status(), "StatusCode.DEADLINE_EXCEEDED")
        time.sleep(0.3)  # no batch of these is left, which would answer the next calls too early
        self.cancel_calls(tensors)
        wait_until(lambda: self.counts().get("499", 0) > before or self.cancel_calls(tensors))  # a busy machine may cancel before it sends
        self.check(request(np.random.default_rng(0), 2))

    def cancel_calls(self, tensors):
        ended = []
        calls = [self.client.async_infer("dlrm", tensors, lambda result, error: ended.append(error)) for _ in range(3)]
        time.sleep(0.05)
        for call in calls:
            call.cancel()
        wait_until(lambda: len(ended) == 3)
        self.assertEqual({error.status() for error in ended}, {"StatusCode.CANCELLED"})

    def test_a_model_that_is_loaded_later(self):
        """The loaded model is an application of its own, and clients need not name the application."""
        with self.assertRaisesRegex(InferenceServerException, "Authorization"):
            self.client.load_model("lora")
        self.client.load_model("lora", headers=AUTHORIZED)
        wait_until(lambda: self.client.is_model_ready("lora"))
        tensors = {"in0": np.ones((2, 16), np.float32), "adapter_id": np.array([-1, 0], np.int32)}
        inputs = [triton.InferInput("in0", [2, 16], "FP32"), triton.InferInput("adapter_id", [2], "INT32")]
        for entry, array in zip(inputs, tensors.values()):
            entry.set_data_from_numpy(array)
        with fusec.load(REPOSITORY / "lora", "cpu") as model:
            np.testing.assert_allclose(self.client.infer("lora", inputs).as_numpy("out0"), model(**tensors), rtol=1e-5)
        self.check(request(np.random.default_rng(0), 2))
        self.client.unload_model("lora", headers=AUTHORIZED)
        with self.assertRaisesRegex(InferenceServerException, 'model "lora" is not loaded') as caught:
            self.client.infer("lora", inputs)
        self.assertEqual(caught.exception.status(), "StatusCode.UNAVAILABLE")
        self.client.load_model("lora", headers=AUTHORIZED)

    def test_a_replica_is_killed(self):
        """Its requests are sent to the other replica."""
        stop = threading.Event()

        def ask(seed):
            random, count = np.random.default_rng(seed), 0
            while not stop.is_set():
                self.check(request(random, 2))
                count += 1
            return count

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            asking = [threads.submit(ask, seed) for seed in range(8)]
            time.sleep(1)
            kill("dlrm")
            wait_until(lambda: len(replicas_of("dlrm")) == 2)
            time.sleep(1)
            stop.set()
            counts = [future.result() for future in asking]
        self.assertGreater(min(counts), 3)

    def test_garbage_does_no_harm(self):
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
            connection.sendall(np.random.default_rng(0).bytes(2000))
        self.check(request(np.random.default_rng(0), 2))
