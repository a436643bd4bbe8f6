"""Tests connections of a replica that listens itself: how requests may arrive, what is rejected, and that a request that the server answers
without Python, or Python without an asyncio task, gets the same bytes as one with a task."""

import asyncio
import contextlib
import gc
import gzip
import io
import json
import time
import unittest
import unittest.mock

import fusec
import numpy as np
from fusec.serve import BatchOptions, GatewayOptions
from fusec.serve._changes import Change
from fusec.serve._gateway import Gateway
from fusec.serve._http import HttpGateway
from fusec.serve._http_listener import Exchange, Listener
from fusec.serve._plans import Plans
from fusec.serve._server import ModelServer
from fusec.serve._signature import Request
from support import FOLDER, ROOT, artifact
from test_serve_http import HEADER_LENGTH, LocalBackend, body_of

BINARY = {"binary_data_output": True}


def packet(body, headers={}, name="lookup", first="POST /v2/models/{}/infer HTTP/1.1", length=True):
    """The bytes of a request."""
    lines = [first.format(name), "host: x"] + [f"{key}: {value}" for key, value in headers.items()]
    if length:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def lookup(*ids, headers={}, **parameters):
    body, found = body_of({"ids": np.array(ids)}, parameters={**BINARY, **parameters})
    return packet(body, {**found, **headers})


def rows_of(answer):
    """The rows that a look-up got."""
    status, headers, body = answer
    assert status == 200, answer
    return np.frombuffer(body[int(headers[HEADER_LENGTH]) :], np.float32).reshape(-1, 2).tolist()


def lora_artifact():
    """An MLP with two slots for adapters."""
    folder = FOLDER / "listener_lora"
    if not folder.exists():
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(ROOT / "models/lora_mlp.ts.onnx", folder, target="cpu", cpu_level="native", adapters={"slots": 2, "rank": 5})
    return folder


class Connected(unittest.IsolatedAsyncioTestCase):
    options = BatchOptions(max_delay_ms=1)

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 10  # nothing is told of what the tests themselves compute
        self.servers = {}
        for name in ("lookup", "sum", "bools", "pair"):
            self.servers[name] = ModelServer(name, artifact(name), "cpu", self.options)
            await self.servers[name].start()
            self.addAsyncCleanup(self.servers[name].close)
        self.port = await self.listen(self.servers["lookup"])

    async def listen(self, local):
        """A port with all models, of which `local` needs no tasks."""
        options = GatewayOptions(max_body_bytes=100_000, body_timeout_s=0.4, token="secret")
        self.listener = Listener(Gateway(LocalBackend(self.servers), options), local)
        self.listener.start("127.0.0.1", 0)
        self.addAsyncCleanup(self.listener.close, 10)
        return self.listener.port

    async def connect(self, port=None):
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        self.addCleanup(writer.close)
        return reader, writer

    async def answer(self, reader):
        """(status, headers, body) of the next answer of a connection."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return int(first.split()[1]), headers, await reader.readexactly(int(headers.get("content-length", 0)))

    async def ask(self, data, port=None):
        reader, writer = await self.connect(port)
        writer.write(data)
        return await self.answer(reader)

    async def check_refused(self, status, text, data, is_closed=True):
        reader, writer = await self.connect()
        writer.write(data)
        found, headers, body = await self.answer(reader)
        self.assertRegex(json.loads(body)["error"], text)
        self.assertEqual(found, status)
        if is_closed:
            self.assertEqual(headers["connection"], "close")
            self.assertEqual(await reader.read(), b"")


class Arrivals(Connected):
    async def test_many_requests_in_one_packet_are_answered_in_order(self):
        reader, writer = await self.connect()
        ids = [i % 3 for i in range(50)]
        get = packet(b"", first="GET /v2/health/live HTTP/1.1", length=False)
        writer.write(b"".join(lookup(i) + get for i in ids))
        for i in ids:
            self.assertEqual(rows_of(await self.answer(reader)), [[10.0 * i, 10.0 * i + 1]])
            self.assertEqual((await self.answer(reader))[2], b'{"live": true}')
        self.assertEqual(self.servers["lookup"].metrics.requests, {200: 50})

    async def test_a_request_in_pieces_of_any_size(self):
        data = b"\r\n" + lookup(2, 0, 1) + lookup(1)
        reader, writer = await self.connect()
        for size in (1, 7, 150, len(data) - 40):
            for start in range(0, len(data), size):
                writer.write(data[start : start + size])
                await asyncio.sleep(0.0005)
            self.assertEqual(rows_of(await self.answer(reader)), [[20, 21], [0, 1], [10, 11]])
            self.assertEqual(rows_of(await self.answer(reader)), [[10, 11]])

    async def test_bodies_in_chunks(self):
        body, headers = body_of({"ids": np.array([2])}, parameters=BINARY)
        chunks = b"".join(b"%x;why=not\r\n%b\r\n" % (len(body[i : i + 9]), body[i : i + 9]) for i in range(0, len(body), 9))
        data = packet(b"", {**headers, "transfer-encoding": "chunked"}, length=False) + chunks + b"0\r\ntrailer: 1\r\n\r\n"
        reader, writer = await self.connect()
        for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            self.assertEqual(rows_of(await self.answer(reader)), [[20, 21]])
        writer.write(data + lookup(1))
        self.assertEqual([rows_of(await self.answer(reader)) for _ in range(2)], [[[20, 21]], [[10, 11]]])
        head = packet(b"", {"transfer-encoding": "chunked"}, length=False)
        await self.check_refused(400, "no body of HTTP/1.1", head + b"zz\r\n")
        await self.check_refused(413, "more than 100000 bytes", head + b"8000\r\n" + bytes(0x8000) + b"\r\n90000\r\n" + bytes(0x90000))
        await self.check_refused(408, "not there within 0.4 s", head + b"5\r\nabc")
        await self.check_refused(400, "no request", packet(b"abc", {"transfer-encoding": "chunked"}))  # and a length, too

    async def test_chunks_that_are_mostly_something_else(self):
        body, headers = body_of({"ids": np.array([2] * 2000)}, parameters=BINARY)
        head = packet(b"", {**headers, "transfer-encoding": "chunked"}, length=False)
        smallest = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        self.assertEqual(rows_of(await self.ask(head + smallest + b"0\r\n\r\n")), [[20, 21]] * 2000)
        for rest in (b"1;" + b"x" * 100_000, b"0\r\ntrailer: " + b"x" * 100_000):
            await self.check_refused(400, "mostly something else", head + rest)

    async def test_empty_lines_take_no_time(self):
        start = time.perf_counter()
        reader, writer = await self.connect()
        writer.write(b"\r\n" * 2_000_000 + lookup(1))
        self.assertEqual(rows_of(await self.answer(reader)), [[10, 11]])
        self.assertLess(time.perf_counter() - start, 2)

    async def test_bodies_that_are_late_or_large(self):
        await self.check_refused(408, "the body was not there within 0.4 s", lookup(1)[:-3])
        head = packet(b"", {"content-length": 100_001}, length=False)
        await self.check_refused(413, "more than 100000 bytes", head)
        await self.check_refused(413, "more than 100000 bytes", head + bytes(90_000))
        await self.check_refused(413, "more than 100000 bytes", packet(bytes(5_000_000)))

    async def test_a_client_that_waits_for_leave_to_send_its_body(self):
        body, headers = body_of({"ids": np.array([2])}, parameters=BINARY)
        data = packet(body, {**headers, "expect": "100-continue"})
        reader, writer = await self.connect()
        for _ in range(2):
            writer.write(data[: -len(body)])
            self.assertEqual(await reader.readuntil(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
            writer.write(body)
            self.assertEqual(rows_of(await self.answer(reader)), [[20, 21]])

    async def test_garbage(self):
        for data in (b"garbage\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
                     b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
                     b"POST / HTTP/1.1\r\ncontent-length: 1_0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET * HTTP/1.1\r\n\r\n"):  # fmt: skip
            with self.subTest(data=data):
                await self.check_refused(400 if b"*" not in data else 404, "no request|there is no GET", data, b"*" not in data)
        await self.check_refused(431, "the head of the request has more than 65536 bytes", b"GET / HTTP/1.1\r\nx: " + b"x" * 70_000)
        await self.check_refused(431, "more than 65536", b"GET / HTTP/1.1\r\nx: " + b"x" * 70_000 + b"\r\n\r\n")
        reader, writer = await self.connect()
        writer.write(lookup(1) + b"garbage\r\n\r\n" + lookup(2))
        self.assertEqual(rows_of(await self.answer(reader)), [[10, 11]])
        status, headers, _ = await self.answer(reader)
        self.assertEqual((status, headers["connection"]), (400, "close"))
        self.assertEqual(await reader.read(), b"")

    async def test_connections_that_are_not_kept(self):
        old = packet(b"", first="GET /v2/health/live HTTP/1.0", length=False)
        for data in (lookup(1, headers={"connection": "close"}), old):
            reader, writer = await self.connect()
            writer.write(data + lookup(2))
            self.assertEqual((await self.answer(reader))[1]["connection"], "close")
            self.assertEqual(await reader.read(), b"")
        reader, writer = await self.connect()
        writer.write(packet(b"", first="HEAD /v2 HTTP/1.1"))
        head = await reader.readuntil(b"\r\n\r\n")
        self.assertIn(b"404 Not Found", head)
        writer.write(lookup(1, headers={"connection": "upgrade", "upgrade": "h2c"}))
        self.assertEqual(rows_of(await self.answer(reader)), [[10, 11]])

    async def test_a_client_that_reads_late(self):
        """The connection is not read further while its answers wait to be sent, and then gets all of them."""
        reader, writer = await self.connect()
        one, count = packet(b"", first="GET /metrics HTTP/1.1", length=False), 1500
        with unittest.mock.patch.object(HttpGateway, "answer", autospec=True, side_effect=HttpGateway.answer) as answer:
            writer.write(one * count)
            await asyncio.sleep(2)
            self.assertGreater(answer.call_count, 0)
            self.assertLess(answer.call_count, count)
        for _ in range(count):
            self.assertEqual((await self.answer(reader))[0], 200)


class HangUps(Connected):
    options = BatchOptions(max_delay_ms=200)

    async def test_in_the_middle_of_a_request(self):
        data = lookup(1)
        for end in (0, 5, data.index(b"\r\n\r\n") + 4, len(data) - 1):
            _, writer = await self.connect()
            writer.write(data[:end])
            await asyncio.sleep(0.01)
            writer.close()
        await asyncio.sleep(0.05)
        self.assertEqual(self.listener.connections, 0)
        self.assertEqual(self.servers["lookup"].metrics.requests, {})

    async def test_before_the_answer(self):
        """The request leaves its batch, and the other requests of the batch get their answers."""
        connections = [await self.connect() for _ in range(4)]
        for i, (_, writer) in enumerate(connections):
            writer.write(lookup(i % 3) + lookup(0))
        await asyncio.sleep(0.05)
        connections[1][1].close()
        for i in (0, 2, 3):
            self.assertEqual(rows_of(await self.answer(connections[i][0])), [[10.0 * (i % 3), 10.0 * (i % 3) + 1]])
        self.assertEqual(self.servers["lookup"].metrics.requests, {499: 1, 200: 3})
        self.assertEqual(self.servers["lookup"].statistics().rows, 3)


class Answers(Connected):
    options = BatchOptions(max_delay_ms=20)

    async def test_they_are_those_of_requests_with_a_task(self):
        other = await self.listen(None)
        parameters = {"parameters": BINARY}
        a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(10, dtype=np.float32).reshape(2, 5)
        outputs = [{"name": "twice", "parameters": {"binary_data": True}}, {"name": "both", "parameters": {"binary_data": True}}]
        bodies = {
            "lookup": [body_of({"ids": np.array(ids, np.int64)}, **parameters) for ids in ([0, 2], [1, 1], [], [7, 0], [2, 2])],
            "pair": [body_of({"b": b + i, "a": a + i}, **parameters) for i in range(2)] + [body_of({"a": a, "b": b}, outputs=outputs, id="x")],
        }
        values = np.array([True, False, True])
        entries = [{"name": n, "datatype": "BOOL", "shape": [3], "parameters": {"binary_data_size": 3}} for n in "ab"]
        text = json.dumps({"inputs": entries, **parameters}).encode()
        bodies["bools"] = [(text + values.tobytes() + last, {HEADER_LENGTH: str(len(text))}) for last in (b"\1\1\0", b"\1\2\0", b"\1\1")]
        for name, asked in bodies.items():
            port = await self.listen(self.servers[name])
            for body, headers in asked * 2:
                data = packet(body, headers, name)
                (status, one, first), (same, another, second) = await self.ask(data, port), await self.ask(data, other)
                self.assertEqual((status, first), (same, second))
                self.assertEqual({**one, "date": ""}, {**another, "date": ""})
        wrong = dict(self.servers["bools"].metrics.requests)
        self.assertEqual(wrong, {200: 4, 400: 8})

    async def test_requests_that_repeat_their_json_share_batches(self):
        ids = [i % 3 for i in range(12)] + [9]
        await self.ask(lookup(0))
        with unittest.mock.patch.object(Exchange, "begin", side_effect=AssertionError("Python was asked")):
            answers = await asyncio.gather(*(self.ask(lookup(i)) for i in ids))
        for i, answer in zip(ids[:-1], answers):
            self.assertEqual(rows_of(answer), [[10.0 * i, 10.0 * i + 1]])
        self.assertEqual(answers[-1][0], 400)
        self.assertRegex(json.loads(answers[-1][2])["error"], "index 9 at position")
        self.assertEqual(self.servers["lookup"].metrics.requests, {200: 13, 400: 1})
        self.assertEqual(self.servers["lookup"].metrics.refused_inputs, 1)
        self.assertGreater(self.servers["lookup"].metrics.batch_rows.sum, self.servers["lookup"].statistics().runs)

    async def test_requests_of_an_adapter_are_neighbours(self):
        self.servers["lora"] = server = ModelServer("lora", lora_artifact(), "cpu", BatchOptions(max_delay_ms=50, lanes=1))
        await server.start()
        self.addAsyncCleanup(server.close)
        port, random, data = await self.listen(server), np.random.default_rng(0), {}
        for i in (1, -1, 0, 1):
            tensors = {"in0": random.random((2, 16), np.float32), "adapter_id": np.array([i, -1], np.int32)}
            body, headers = body_of(tensors, parameters=BINARY)
            data[packet(body, headers, "lora")] = tensors
        await self.ask(next(iter(data)), port)  # now Python knows the JSON
        (lane,) = server._loaded.batcher.lanes
        with unittest.mock.patch.object(lane, "_context", side_effect=lane._context) as context:
            answers = await asyncio.gather(*(self.ask(one, port) for one in data))
        names = [spec.name for spec in server._loaded.signature.inputs]
        self.assertEqual(context.call_args.args[names.index("adapter_id")].tolist(), [-1, -1, 0, -1, 1, -1, 1, -1])
        for tensors, (status, headers, body) in zip(data.values(), answers):
            expected = server._loaded.model(**tensors)
            found = np.frombuffer(body[int(headers[HEADER_LENGTH]) :], np.float32)
            self.assertEqual(status, 200)
            np.testing.assert_allclose(found, expected.ravel(), rtol=1e-5, atol=1e-6)

    async def test_a_failure_of_the_model(self):
        server = self.servers["lookup"]
        await self.ask(lookup(1))
        lost, lanes = fusec.NoDevice("the GPU is lost"), server._loaded.batcher.lanes
        failing = [unittest.mock.patch.object(lane, "_context", side_effect=lost) for lane in lanes]
        with failing[0], failing[1], self.assertLogs("fusec.serve", "ERROR"):
            status, _, body = await self.ask(lookup(1))
        self.assertEqual((status, json.loads(body)["error"]), (500, "the model failed: the GPU is lost"))
        self.assertTrue(server._loaded.batcher.has_failed)
        self.assertEqual(server.metrics.requests, {200: 1, 500: 1})
        self.assertEqual((await self.ask(lookup(1)))[0], 200)

    async def test_a_change_shows_in_the_next_answer(self):
        self.assertIn(b'"model_version": "1"', (await self.ask(lookup(1)))[2])
        change = Change("rows", "table", ids=np.array([1]), rows=np.array([[5, 6]], np.float32))
        await LocalBackend(self.servers).change("lookup", change)
        answer = await self.ask(lookup(1))
        self.assertIn(b'"model_version": "2"', answer[2])
        self.assertEqual(rows_of(answer), [[5, 6]])

    async def test_deadlines_and_an_unloaded_model(self):
        status, _, body = await self.ask(lookup(1, timeout=1000))
        self.assertEqual((status, json.loads(body)["error"]), (504, "no answer within 1 ms"))
        await LocalBackend(self.servers).change("lookup", Change("unload"))
        self.assertEqual((await self.ask(lookup(1)))[0], 503)

    async def test_answers_are_compressed_where_a_client_says_so(self):
        ids = [i % 3 for i in range(500)]
        status, headers, body = await self.ask(lookup(*ids, headers={"accept-encoding": "gzip"}))
        self.assertEqual((status, headers["content-encoding"]), (200, "gzip"))
        self.assertEqual(rows_of((200, headers, gzip.decompress(body))), [[10.0 * i, 10.0 * i + 1] for i in ids])
        self.assertNotIn("content-encoding", (await self.ask(lookup(1, headers={"accept-encoding": "gzip"})))[1])

    async def test_a_request_that_is_answered_is_not_kept(self):
        """Its memory is freed with it, without the garbage collector."""
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        reader, writer = await self.connect()
        for count in range(3):
            writer.write(lookup(*[1] * 4000))
            self.assertEqual((await self.answer(reader))[0], 200)
            await asyncio.sleep(0.01)
            held = [entry for entry in gc.get_objects() if isinstance(entry, Request)]
            self.assertEqual(held, [])

    async def test_plans_are_few(self):
        plans = Plans(self.servers["lookup"]._loaded.signature)
        for i in range(1000):
            body, headers = body_of({"ids": np.array([1])}, parameters=BINARY, id=str(i))
            self.assertIsNotNone(plans.plan(body, 0, len(body), int(headers[HEADER_LENGTH])))
        self.assertLessEqual(len(plans._plans), 256)


del Connected
