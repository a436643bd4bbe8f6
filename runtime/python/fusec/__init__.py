"""fusec compiles recommendation and LoRA models from ONNX into fused CUDA C, and runs them on an NVIDIA GPU or a CPU.

    artifact = fusec.compile("model.onnx", output="model_fused", target="cpu,sm_90a", dims={"batch": (1, 4096)})
    model = fusec.load("model_fused")
    scores = model(dense, ids)

Inputs are tensors of NumPy, PyTorch, CuPy, JAX or another library that supports DLPack; results are tensors of the same library on the
same device. fusec imports none of these libraries.
"""

from fusec import _native
from fusec._bench import Bench
from fusec._errors import (
    BadArtifact,
    BadInput,
    BadModel,
    BadUsage,
    Bug,
    ComparisonFailed,
    CopyWarning,
    Error,
    FallbackWarning,
    NoDevice,
)
from fusec._explanation import Explanation, Page
from fusec._model import CacheInfo, Context, Model, TableInfo, Tensor, TensorInfo, load
from fusec._shard import ShardedArtifact, shard
from fusec._verbs import Artifact, bench, bisect, compile, edit, explain, rebuild, refit, report, sign, tune, verify
from fusec._verification import Rebuild, Verification

__version__: str = _native.version()
