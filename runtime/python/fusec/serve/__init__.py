"""Serves artifacts over HTTP and gRPC on Ray Serve: pip install "fusec[serve]".

    python -m fusec.serve model_fused --http 0.0.0.0:8000 --grpc 0.0.0.0:8001

    serve.run(fusec.serve.app("model_fused"))          # the same, as an application of Ray Serve

Requests are gathered into batches and answered in the Open Inference Protocol, which Triton's clients use, and serving continues while
weights, rows and adapters change. Only `app` needs Ray. An application is also served over gRPC if Ray's proxies have the methods:

    serve.start(grpc_options={"port": 8001, "grpc_servicer_functions": [fusec.serve.GRPC_SERVICER]})
"""

from __future__ import annotations

from typing import Any

from fusec.serve._batcher import BatchOptions
from fusec.serve._errors import DeadlineExceeded, NotFound, QueueFull, RequestError, TooLarge, Unavailable
from fusec.serve._gateway import DirectOptions, GatewayOptions

__all__ = [
    "GRPC_SERVICER", "BatchOptions", "DeadlineExceeded", "DirectOptions", "GatewayOptions", "NotFound", "QueueFull", "RequestError",
    "TooLarge", "Unavailable", "app",
]  # fmt: skip

GRPC_SERVICER = "fusec.serve._grpc.add_to_server"


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fusec.serve._deployment import app  # imported here because it imports Ray

    return app
