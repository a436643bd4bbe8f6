"""Tests the operation of fusec.serve: autoscaling of replicas by Ray, metrics over all replicas, and OpenTelemetry spans. nightly.sh runs
it, in an environment with Ray."""

import unittest

import numpy as np
from fusec.serve import BatchOptions, RequestError, app
from fusec.serve._http_protocol import HttpInfer
from fusec.serve._server import ModelServer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ray import serve
from serve_ray import QUICK, REPOSITORY, Client, Load, replicas_of, start_serve, wait_until
from support import artifact
from test_serve_http import body_of


class Autoscaling(unittest.TestCase):
    def test_replicas_follow_the_load_and_no_answer_is_lost(self):
        port = start_serve(self)
        scaling = {"min_replicas": 1, "max_replicas": 3, "target_ongoing_requests": 3, "upscale_delay_s": 1, "downscale_delay_s": 2}
        scaling |= {"metrics_interval_s": 0.5, "look_back_period_s": 1}
        application = app(
            REPOSITORY / "dlrm", device="cpu", batch=BatchOptions(max_delay_ms=50), model_options={"autoscaling_config": scaling, **QUICK}
        )
        serve.run(application, name="fusec")
        wait_until(lambda: len(replicas_of("dlrm")) == 1)
        with Load(port, ["dlrm"], threads=1) as quiet:  # goes on while replicas come and go
            with Load(port, ["dlrm"], threads=12) as load:
                wait_until(lambda: len(replicas_of("dlrm")) == 3, 120)
                load.more(100)
            wait_until(lambda: len(replicas_of("dlrm")) == 1, 120)
            quiet.more()
        load.check(self)
        quiet.check(self)
        asked = sum(load.answers.values()) + sum(quiet.answers.values())
        print(f"{asked} answers while replicas became three and one again")
        # The answers of the two replicas that have ended are still counted.
        statistics = lambda: Client(port).http.get_inference_statistics("dlrm")["model_stats"][0]["inference_stats"]
        wait_until(lambda: statistics()["success"]["count"] >= asked)
        self.assertEqual([statistics()[key]["count"] for key in ("success", "queue", "fail")], [asked, asked, 0])


class Spans(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(cls.exporter))
        trace.set_tracer_provider(provider)

    async def test_a_request_is_a_span_under_that_of_its_caller(self):
        server = ModelServer("lookup", artifact("lookup"), "cpu", BatchOptions(max_delay_ms=0))
        await server.start()
        self.addAsyncCleanup(server.close)
        good, bad = (body_of({"ids": np.array([id])}, binary=False)[0] for id in (1, 7))
        with trace.get_tracer("test").start_as_current_span("caller") as caller:
            await server.infer(HttpInfer(good))
            with self.assertRaises(RequestError):
                await server.infer(HttpInfer(bad))
        answered, refused, _ = self.exporter.get_finished_spans()
        for span, body in ((answered, good), (refused, bad)):
            self.assertEqual((span.name, dict(span.attributes)), ("fusec.infer", {"model": "lookup", "bytes": len(body)}))
            self.assertEqual(span.parent.span_id, caller.get_span_context().span_id)
            self.assertGreater(span.end_time, span.start_time)
        self.assertEqual((answered.status.status_code, refused.status.status_code), (trace.StatusCode.UNSET, trace.StatusCode.ERROR))
        self.assertIn("index 7", refused.status.description)
