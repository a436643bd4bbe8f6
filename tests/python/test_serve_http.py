"""HTTP in fusec.serve: the Open Inference Protocol, and the error messages for invalid requests."""

import asyncio
import contextlib
import gzip
import io
import json
import os
import shutil
import time
import unittest
import zlib

import numpy as np
from fusec.serve import BatchOptions, GatewayOptions, NotFound
from fusec.serve._changes import ChangeLog
from fusec.serve._gateway import Gateway
from fusec.serve._http import HttpGateway
from fusec.serve._http_protocol import HttpInfer
from fusec.serve._server import ModelServer
from support import FOLDER, artifact, model, run_python

HEADER_LENGTH = "inference-header-content-length"
TOKEN = {"authorization": "Bearer secret"}


def body_of(inputs, binary=True, **more):
    """The body of a request, and its headers."""
    entries, parts = [], []
    names = {"float32": "FP32", "int32": "INT32", "int64": "INT64"}
    for name, array in inputs.items():
        entry = {"name": name, "datatype": names[array.dtype.name], "shape": array.shape}
        if binary:
            entry["parameters"] = {"binary_data_size": array.nbytes}
            parts.append(array.tobytes())
        else:
            entry["data"] = array.tolist()
        entries.append(entry)
    text = json.dumps({"inputs": entries, **more}).encode()
    return b"".join([text, *parts]), {HEADER_LENGTH: str(len(text))} if binary else {}


class LocalBackend:
    """Models in this process, which replace Ray deployments."""

    def __init__(self, servers):
        self.servers = servers

    def server(self, name):
        if name not in self.servers:
            raise NotFound(f'there is no model "{name}"')
        return self.servers[name]

    async def models(self):
        return {
            name: {"version": server.log.version, "ready": server.is_ready, "unloaded": server.log.is_unloaded}
            for name, server in self.servers.items()
        }

    async def infer(self, name, request):
        return await self.server(name).infer(request)

    async def describe(self, name, what):
        return getattr(self.server(name), what)()

    async def rows_change(self, name, request):
        return await self.server(name).rows_change(request)

    async def change(self, name, change):
        await self.server(name).try_change(change)
        log = ChangeLog()
        log.version = self.server(name).log.version
        await self.server(name).follow([log.add(change)])
        return log.version

    async def statistics(self):
        return {name: server.statistics() for name, server in self.servers.items()}

    async def samples(self):
        return [({"model": name}, server.samples()) for name, server in self.servers.items()]


class Http(unittest.IsolatedAsyncioTestCase):
    options = GatewayOptions(repository=str(FOLDER), token="secret", max_body_bytes=4096, body_timeout_s=0.2)

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 10  # nothing is told of what the tests themselves compute
        self.servers = {}
        for name in ("sum", "lookup"):
            self.servers[name] = ModelServer(name, artifact(name), "cpu", BatchOptions(max_delay_ms=0))
            await self.servers[name].start()
            self.addAsyncCleanup(self.servers[name].close)
        self.gateway = HttpGateway(Gateway(LocalBackend(self.servers), self.options))

    async def ask(self, method, path, body=b"", headers={}, pieces=None):
        """The (status, headers, body) of an answer. The request's body comes in pieces; None stands for a client that disconnects, ... for
        one that stalls."""
        sent, left = [], list(pieces or [body])

        async def receive():
            piece = left.pop(0)
            if piece is ...:
                await asyncio.sleep(10)
            if piece is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": bool(left)}

        async def send(message):
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.gateway({"type": "http", "method": method, "path": path, "headers": raw}, receive, send)
        if not sent:
            return None
        start, end = sent
        self.pieces_left = len(left)
        return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, end["body"]

    async def ask_json(self, *request, **more):
        status, _, body = await self.ask(*request, **more)
        return status, json.loads(body)

    async def check_refused(self, status, text, *request, **more):
        found, answer = await self.ask_json(*request, **more)
        self.assertRegex(answer["error"], text)
        self.assertNotIn("\n", answer["error"])
        self.assertEqual(found, status)

    async def infer(self, name, body, headers={}, **more):
        return await self.ask("POST", f"/v2/models/{name}/infer", body, headers, **more)

    # ---- answers ----

    async def test_json_and_binary_in_every_mixture(self):
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        for binary in (True, False):
            for outputs in ([], [{"name": "y"}], [{"name": "y", "parameters": {"binary_data": True}}]):
                for pack, encoding in ((gzip.compress, "gzip"), (zlib.compress, "deflate"), (None, "identity")):
                    body, headers = body_of({"x": x}, binary, id="7", outputs=outputs)
                    headers["content-encoding"] = encoding
                    status, found, answer = await self.infer("sum", pack(body) if pack else body, headers)
                    end = int(found.get(HEADER_LENGTH, len(answer)))
                    said = json.loads(answer[:end])
                    self.assertEqual((status, said["id"], said["model_name"], said["model_version"]), (200, "7", "sum", "1"))
                    (output,) = said["outputs"]
                    is_binary = bool(outputs and outputs[0].get("parameters"))
                    values = np.frombuffer(answer[end:], np.float32) if is_binary else np.array(output["data"])
                    self.assertEqual((output["name"], output["datatype"], output["shape"]), ("y", "FP32", [2, 4]))
                    np.testing.assert_array_equal(values, (x + [10, 20, 30, 40]).ravel())

    async def test_half_types_travel_as_bytes_and_as_numbers(self):
        import ml_dtypes

        for name, dtype, datatype in (("half", np.dtype(np.float16), "FP16"), ("bfloat", np.dtype(ml_dtypes.bfloat16), "BF16")):
            self.servers[name] = ModelServer(name, artifact(name), "cpu", BatchOptions(max_delay_ms=0))
            await self.servers[name].start()
            self.addAsyncCleanup(self.servers[name].close)
            x = np.arange(8, dtype=np.float32).reshape(1, 8)
            entry = {"name": "x", "datatype": datatype, "shape": x.shape}
            body = json.dumps({"inputs": [{**entry, "data": x.tolist()}]}).encode()
            _, answer = await self.ask_json("POST", f"/v2/models/{name}/infer", body)
            self.assertEqual(answer["outputs"][0]["data"], (x + x).ravel().tolist())
            head = json.dumps(
                {"inputs": [{**entry, "parameters": {"binary_data_size": 16}}], "parameters": {"binary_data_output": True}}
            ).encode()
            _, found, answer = await self.infer(name, head + x.astype(dtype).tobytes(), {HEADER_LENGTH: str(len(head))})
            np.testing.assert_array_equal(np.frombuffer(answer[int(found[HEADER_LENGTH]) :], dtype), (x + x).ravel().astype(dtype))

    async def test_large_answers_are_compressed_where_a_client_says_so(self):
        body, headers = body_of({"x": np.zeros((200, 4), np.float32)}, parameters={"binary_data_output": True})
        for accepted, unpack in (("gzip, br", gzip.decompress), ("deflate", zlib.decompress), ("br", bytes)):
            _, found, answer = await self.infer("sum", body, {**headers, "accept-encoding": accepted})
            self.assertEqual(found.get("content-encoding"), {gzip.decompress: "gzip", zlib.decompress: "deflate"}.get(unpack))
            self.assertEqual(len(unpack(answer)), 200 * 16 + int(found[HEADER_LENGTH]))

    async def test_what_a_server_and_its_models_say(self):
        self.assertEqual(await self.ask_json("GET", "/v2/health/live"), (200, {"live": True}))
        self.assertEqual(await self.ask_json("GET", "/v2/health/ready"), (200, {"ready": True}))
        self.assertEqual((await self.ask_json("GET", "/v2"))[1]["name"], "fusec")
        status, metadata = await self.ask_json("GET", "/v2/models/sum")
        self.assertEqual(metadata["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertEqual((await self.ask_json("GET", "/v2/models/sum/versions/1"))[1], metadata)
        _, config = await self.ask_json("GET", "/v2/models/sum/config")
        self.assertEqual(config["input"], [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 4]}])
        self.assertEqual((await self.ask("GET", "/v2/models/sum/ready"))[0], 200)
        await self.check_refused(404, 'there is no model "none"', "GET", "/v2/models/none")
        await self.check_refused(404, 'model "sum" has version 1, not "2"', "GET", "/v2/models/sum/versions/2/ready")
        await self.check_refused(404, "there is no page", "GET", "/v2/models/sum/trace")
        await self.check_refused(404, "there is no GET /v3", "GET", "/v3")
        await self.check_refused(404, "there is no GET /v2/models/sum/infer|page", "GET", "/v2/models/sum/infer")

    async def test_statistics(self):
        for rows in (1, 2, 2):
            body, headers = body_of({"x": np.zeros((rows, 4), np.float32)})
            await self.infer("sum", body, headers)
        for path in ("/v2/models/sum/stats", "/v2/models/sum/versions/1/stats"):
            _, answer = await self.ask_json("GET", path)
            (of_model,) = answer["model_stats"]
            self.assertEqual((of_model["name"], of_model["version"]), ("sum", "1"))
            self.assertEqual((of_model["inference_count"], of_model["execution_count"]), (5, 3))
            batches = [(batch["batch_size"], batch["compute_infer"]["count"]) for batch in of_model["batch_stats"]]
            self.assertEqual(batches, [(1, 1), (2, 2)])
        _, answer = await self.ask_json("GET", "/v2/models/stats")
        self.assertEqual([(entry["name"], entry["execution_count"]) for entry in answer["model_stats"]], [("lookup", 0), ("sum", 3)])
        await self.check_refused(404, 'there is no model "none"', "GET", "/v2/models/none/stats")

    async def test_large_numbers_are_read_and_written_in_pieces(self):
        """Large bodies are handled like small ones, whatever is wrong at their end."""
        self.gateway = HttpGateway(Gateway(LocalBackend(self.servers)))
        x = np.random.default_rng(0).standard_normal((16_000, 4), np.float32)
        for data in (x.tolist(), x.ravel().tolist()):
            entry = {"name": "x", "datatype": "FP32", "shape": x.shape, "data": data}
            status, answer = await self.ask_json("POST", "/v2/models/sum/infer", json.dumps({"inputs": [entry]}).encode())
            self.assertEqual(status, 200)
            expected = (x + np.array([10, 20, 30, 40], np.float32)).ravel()
            np.testing.assert_array_equal(np.array(answer["outputs"][0]["data"], np.float32), expected)
        row = x.tolist()
        for data, text in (
            ([*row[:-1], ["a", 0, 0, 0]], "has an element that is no FP32"),
            ([*row[:-1], [0, 0, 0]], "has rows of different lengths"),
            ([*row, row[0]], "has 64004 elements, but its shape has 64000"),
        ):
            body = json.dumps({"inputs": [{**entry, "data": data}]}).encode()
            await self.check_refused(400, text, "POST", "/v2/models/sum/infer", body)
            await self.check_refused(400, "the body is no JSON", "POST", "/v2/models/sum/infer", body[:-1])
        ids = {"name": "ids", "datatype": "INT64", "shape": [20_000], "data": [1] * 19_999}
        for last, text in ((7, r"index 7 at position \[19999\]"), (0.5, "that is no INT64")):
            body = json.dumps({"inputs": [{**ids, "data": [*ids["data"], last]}]}).encode()
            await self.check_refused(400, text, "POST", "/v2/models/lookup/infer", body)

    async def test_large_numbers_do_not_keep_others_waiting(self):
        """The json module would hold Python's global lock while it parses, in whatever thread."""
        server = self.servers["sum"]
        data = np.random.default_rng(0).standard_normal(240_000).tolist()  # 5 MB
        large = HttpInfer(json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [60_000, 4], "data": data}]}).encode())
        small = HttpInfer(body_of({"x": np.zeros((1, 4), np.float32)}, binary=False)[0])
        shares = []
        for _ in range(3):  # other processes may have delayed a try
            start, waits = time.perf_counter(), []
            answering = asyncio.create_task(server.infer(large))
            while not answering.done():
                began = time.perf_counter()
                await server.infer(small)
                await asyncio.sleep(0.001)
                waits.append(time.perf_counter() - began)
            shares.append(sum(wait for wait in waits if wait > 0.02) / (time.perf_counter() - start))
            await answering
        self.assertLess(min(shares), 0.15)

    async def test_metrics(self):
        body, headers = body_of({"ids": np.array([0, 7])})
        await self.infer("lookup", body, headers)
        _, found, text = await self.ask("GET", "/metrics")
        lines = text.decode().splitlines()
        self.assertIn('fusec_requests_total{model="lookup",status="400"} 1', lines)
        self.assertIn('fusec_refused_inputs_total{model="lookup"} 1', lines)
        self.assertIn('fusec_batch_rows_bucket{model="lookup",le="2"} 1', lines)
        self.assertEqual(len(lines), len(set(lines)))
        for line in lines:
            self.assertRegex(line, r'^# (HELP|TYPE) fusec_\w+ .+$|^fusec_\w+\{(\w+="[^"]*",?)+\} [\d.e+-]+$')

    # ---- bad input ----

    async def test_bodies_that_are_wrong(self):
        x = np.zeros((1, 4), np.float32)
        entry = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}
        binary = {**entry, "parameters": {"binary_data_size": 16}}
        del binary["data"]
        for inputs, text in (
            ([{**entry, "name": "z"}], 'there is no input "z", the model has "x"'),
            ([{**entry, "name": 7}], "there is no input 7"),
            ([entry, entry], 'input "x" is given twice'),
            ({}, "inputs is no list of objects"),
            ([3], "inputs is no list of objects"),
            ([{**entry, "datatype": "FP64"}], 'input "x" is "FP64", expected FP32'),
            ([{**entry, "datatype": None}], 'input "x" is null, expected FP32'),
            ([{**entry, "shape": [-1, 4]}], r"has the shape \[-1, 4\], expected a list of sizes"),
            ([{**entry, "shape": [1.0, 4]}], "expected a list of sizes"),
            ([{**entry, "shape": [2**62, 2**62]}], "has 4 elements, but its shape has 2126"),
            ([{**entry, "shape": [4]}], 'input "x" has 1 dims, expected 2'),
            ([{**entry, "shape": [2, 2]}], 'input "x" has 2 as dim 1, expected 4'),
            ([{**entry, "data": [0] * 3}], "has 3 elements, but its shape has 4"),
            ([{**entry, "data": [[0, 0], [0]]}], "has rows of different lengths"),
            ([{**entry, "data": ["0"] * 4}], "has an element that is no FP32"),
            ([{**entry, "data": [None] * 4}], "has an element that is no FP32"),
            ([{**entry, "data": 5}], "has no list of data"),
            ([{**entry, "data": None}], "has no list of data"),
            ([{**entry, "parameters": 3}], "parameters is no object"),
            ([{**binary, "parameters": {"binary_data_size": 15}}], "has 15 bytes of binary data, but its shape needs 16"),
            ([{**binary, "parameters": {"binary_data_size": "16"}}], 'has "16" bytes of binary data'),
            (
                [{**binary, "shape": [2, 4], "parameters": {"binary_data_size": 32}}],
                "has 32 bytes of binary data, but the body has 16 left",
            ),
            ([{**binary, "data": []}], "has both data and binary data"),
            ([{**binary, "parameters": {"shared_memory_region": "r"}}], "is in shared memory"),
            ([entry], "16 bytes are left behind the binary data"),
        ):
            header = json.dumps({"inputs": inputs}).encode()
            tail = b"" if " dim" in text else x.tobytes()  # shapes are looked at when the body is right
            await self.check_refused(400, text, "POST", "/v2/models/sum/infer", header + tail, {HEADER_LENGTH: str(len(header))})
        body, headers = body_of({"x": x})
        self.assertEqual((await self.infer("sum", body, headers))[0], 200)

    async def test_what_is_no_request(self):
        await self.check_refused(400, "the body is no JSON", "POST", "/v2/models/sum/infer", b"{")
        await self.check_refused(400, "the body is no JSON", "POST", "/v2/models/sum/infer", b"\xff\xfe")
        await self.check_refused(400, "the body is no JSON", "POST", "/v2/models/sum/infer", b"[" * 4000)
        await self.check_refused(400, "the body is no JSON", "POST", "/v2/models/sum/infer", b"")
        await self.check_refused(400, "the body is no object", "POST", "/v2/models/sum/infer", b"[]")
        await self.check_refused(400, 'input "x" is missing', "POST", "/v2/models/sum/infer", b"{}")
        await self.check_refused(404, 'there is no model "none"', "POST", "/v2/models/none/infer", b"{}")
        await self.check_refused(404, 'has version 1, not "9"', "POST", "/v2/models/sum/versions/9/infer", b"{}")
        body, _ = body_of({"x": np.zeros((1, 4), np.float32)}, outputs=[{"name": "z"}], binary=False)
        await self.check_refused(400, 'there is no output "z"', "POST", "/v2/models/sum/infer", body)
        body, _ = body_of({"x": np.zeros((1, 4), np.float32)}, parameters={"timeout": "soon"}, binary=False)
        await self.check_refused(400, "timeout is .*, expected microseconds", "POST", "/v2/models/sum/infer", body)
        for length in ("1000", "-1", "x"):
            await self.check_refused(400, "Content-Length is", "POST", "/v2/models/sum/infer", b"{}", {HEADER_LENGTH: length})
        body, headers = body_of({"ids": np.array([0, 3])})
        await self.check_refused(400, r"index 3 at position \[1\]", "POST", "/v2/models/lookup/infer", body, headers)
        body, _ = body_of({"ids": np.array([2**40])}, binary=False)
        await self.check_refused(400, "index 1099511627776", "POST", "/v2/models/lookup/infer", body)
        await self.check_refused(
            400, "outside -9223372036854775808", "POST", "/v2/models/lookup/infer", body.replace(b"1099511627776", b"9223372036854775808")
        )

    async def test_bodies_are_refused_while_they_come(self):
        path = "/v2/models/sum/infer"
        await self.check_refused(413, "the body has more than 4096 bytes", "POST", path, b"", {"content-length": str(10 << 30)})
        await self.check_refused(413, "the body has more than 4096 bytes", "POST", path, pieces=[b" " * 1024] * 100)
        self.assertEqual(self.pieces_left, 95)
        bomb = gzip.compress(b" " * 1_000_000)
        await self.check_refused(413, "too many bytes when it is unpacked", "POST", path, bomb, {"content-encoding": "gzip"})
        await self.check_refused(400, "the compressed body is damaged", "POST", path, b"{}", {"content-encoding": "gzip"})
        await self.check_refused(
            400, "the compressed body ends early", "POST", path, gzip.compress(b"{}")[:-4], {"content-encoding": "gzip"}
        )
        await self.check_refused(415, 'Content-Encoding is "br"', "POST", path, b"{}", {"content-encoding": "br"})
        await self.check_refused(408, "the body was not there within 0.2 s", "POST", path, pieces=[b"{", ...])
        self.assertIsNone(await self.ask("POST", path, pieces=[b"{", None]))

    # ---- changes ----

    async def test_changes_need_a_token(self):
        requests = (
            "/v2/repository/models/sum/load",
            "/v2/repository/models/sum/unload",
            "/admin/models/sum/weights",
            "/admin/models/sum/rows",
        )
        for path in requests:
            await self.check_refused(401, "Authorization", "POST", path)
            await self.check_refused(401, "Authorization", "POST", path, headers={"authorization": "Bearer other"})
        self.gateway = HttpGateway(Gateway(LocalBackend(self.servers)))
        for path in requests:
            await self.check_refused(403, "started without an admin token", "POST", path, headers=TOKEN)

    async def test_unloading_and_loading(self):
        body, headers = body_of({"x": np.zeros((1, 4), np.float32)})
        self.assertEqual((await self.ask("POST", "/v2/repository/models/sum/unload", headers=TOKEN))[0], 200)
        await self.check_refused(503, 'model "sum" is not loaded', "POST", "/v2/models/sum/infer", body, headers)
        self.assertEqual((await self.ask("GET", "/v2/models/sum/ready"))[0], 503)
        self.assertEqual((await self.ask("GET", "/v2/health/ready"))[0], 200)  # it misses nothing that it should have
        _, index = await self.ask_json("POST", "/v2/repository/index")
        self.assertIn({"name": "sum", "version": "2", "state": "UNAVAILABLE", "reason": "unloaded"}, index)
        _, index = await self.ask_json("POST", "/v2/repository/index", b'{"ready": true}')
        self.assertEqual([entry["name"] for entry in index], ["lookup"])
        self.assertEqual((await self.ask("POST", "/v2/repository/models/sum/load", headers=TOKEN))[0], 200)
        status, _, answer = await self.infer("sum", body, headers)
        self.assertEqual((status, json.loads(answer)["model_version"]), (200, "3"))

    async def test_nothing_outside_the_folder_is_loaded(self):
        os.symlink("/etc", FOLDER / "etc")
        self.addCleanup(os.unlink, FOLDER / "etc")
        for name, status in (("../x", 403), ("/etc", 403), ("etc", 403), (".", 403), ("missing", 404), ("", 400), (3, 400), ("a\0b", 400)):
            body = json.dumps({"artifact": name}).encode()
            await self.check_refused(status, "artifact", "POST", "/admin/models/sum/weights", body, TOKEN)
        await self.check_refused(404, "not in the server's folder", "POST", "/v2/repository/models/missing/load", b"", TOKEN)

    async def test_rows_of_a_table(self):
        rows = {"ids": np.array([1, 2]), "rows": np.array([[5, 6], [7, 8]], np.float32)}
        body, headers = body_of(rows, parameters={"table": "table"})
        status, answer = await self.ask_json("POST", "/admin/models/lookup/rows", body, {**headers, **TOKEN})
        self.assertEqual((status, answer), (200, {"model_name": "lookup", "model_version": "2"}))
        body, headers = body_of({"ids": np.array([2])}, binary=False)
        _, answer = await self.ask_json("POST", "/v2/models/lookup/infer", body)
        self.assertEqual((answer["model_version"], answer["outputs"][0]["data"]), ("2", [7, 8]))
        for change, parameters, text in (
            ({"ids": np.array([3])}, {"table": "table"}, "id 0 is 3, expected 0 to 2"),
            ({"rows": np.zeros((2, 3), np.float32)}, {"table": "table"}, 'input "rows" has 3 as dim 1, expected 2'),
            ({"rows": np.zeros((1, 2), np.float32)}, {"table": "table"}, 'input "rows" has 1 as dim 0, expected 2'),
            ({}, {"table": "tables"}, 'the parameter table is "tables", the model has "table"'),
            ({}, {}, "the parameter table is null"),
        ):
            change = {**rows, "ids": np.array([0, 1]), **change}
            change["rows"] = change["rows"][:1] if len(change["ids"]) == 1 else change["rows"]
            body, headers = body_of(change, parameters=parameters)
            await self.check_refused(400, text, "POST", "/admin/models/lookup/rows", body, {**headers, **TOKEN})

    async def test_weights_of_a_refit(self):
        import fusec
        import onnx

        changed = onnx.load(model("sum"))
        changed.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "bias"))
        onnx.save(changed, FOLDER / "changed.onnx")
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.refit(artifact("sum"), FOLDER / "changed.onnx", FOLDER / "sum_refitted")
        self.addCleanup(shutil.rmtree, FOLDER / "sum_refitted")
        status, _ = await self.ask_json("POST", "/admin/models/sum/weights", b'{"artifact": "sum_refitted"}', TOKEN)
        self.assertEqual(status, 200)
        body, _ = body_of({"x": np.zeros((1, 4), np.float32)}, binary=False)
        _, answer = await self.ask_json("POST", "/v2/models/sum/infer", body)
        self.assertEqual((answer["model_version"], answer["outputs"][0]["data"]), ("2", [1, 2, 3, 4]))
        await self.check_refused(
            400, "artifact|program|weights", "POST", "/admin/models/lookup/weights", b'{"artifact": "sum_refitted"}', TOKEN
        )

    async def test_adapters_need_slots(self):
        (FOLDER / "adapter").mkdir(exist_ok=True)
        path = "/admin/models/sum/adapters"
        await self.check_refused(400, "slot|adapters", "POST", f"{path}/0", b'{"adapter": "adapter"}', TOKEN)
        await self.check_refused(400, '"x" is no number of a slot', "DELETE", f"{path}/x", b"", TOKEN)


class CommandLine(unittest.TestCase):
    def test_it_says_what_it_takes_without_ray(self):
        code = "import runpy, sys; sys.argv = ['serve', *sys.argv[1:]]; runpy.run_module('fusec.serve', run_name='__main__')"
        done = run_python(code, "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--max-delay-ms", done.stdout)
        for arguments, text in (
            (["nothing"], "is no artifact"),
            (["--http", "here"], "is no HOST:PORT"),
            (["--grpc", "127.0.0.1:8001"], "names a host, but Ray's gRPC proxy listens on all addresses: 0.0.0.0:8001"),
        ):
            done = run_python(code, *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
