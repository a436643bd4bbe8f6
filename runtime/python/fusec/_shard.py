"""Models whose embedding tables are spread over machines or GPUs."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any, Mapping

from fusec import _errors, _program, _verbs
from fusec._verbs import Artifact, Path


class ShardedArtifact(Artifact):
    """A folder that fusec.shard wrote: an artifact for each shard, one for the rest, and a manifest that makes one program of them."""

    def __repr__(self) -> str:
        return f"fusec.ShardedArtifact({self.path!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{_program.run(['explain', self.path])}</pre>"

    @property
    def plan(self) -> dict[str, Any]:
        """Which shard has which rows of which tables, and what a run is expected to cost each: `fusec explain --json`."""
        return json.loads((pathlib.Path(self.path) / "manifest.json").read_text())["shards"]

    @property
    def parts(self) -> list[Artifact]:
        """The artifacts of the shards, and that of the dense part last."""
        folders = [shard["folder"] for shard in self.plan["shards"]]
        return [Artifact(os.path.join(self.path, folder)) for folder in [*folders, "dense"]]


def shard(
    model: Any,
    shards: int,
    output: Path | None = None,
    *,
    args: Any = None,
    dynamic_shapes: Any = None,
    profile: Any = None,
    plan_dims: Mapping[str, int] | None = None,
    wire: str | None = None,
    shard_memory: int | str | None = None,
    replicate_below: int | str | None = None,
    row_bandwidth: float | None = None,
    network_bandwidth: float | None = None,
    message_time: float | None = None,
    dense_gflops: float | None = None,
    **build: Any,
) -> ShardedArtifact:
    """Compiles a model with its embedding tables spread over `shards` machines or GPUs.

        sharded = fusec.shard("ranker.onnx", 4, "ranker", target="sm_90a", profile=ids_of_an_hour)
        scores = fusec.load("ranker", "cuda:0,1,2,3")(dense, ids)          # all parts in this process

    fusec.serve serves the folder from several machines. Tables, or rows of those with more than an even share, go to the shards by size and
    by the rows that are looked up; small ones stay in the dense part.

    model, args, dynamic_shapes and `build`, all of which are optional: as fusec.compile has them. output: the folder to write;
    "NAME_sharded" in the working directory where it is not given.
    profile: ids of real requests, as an .npz file or as arrays by the names of inputs; every row is as likely without it.
    plan_dims: the sizes that the plan is made for, {"batch": 2048}; 1024 where a dim is not there.
    wire: how f32 rows and sums cross from shards: "f32" (the default), rounded to "f16" or "bf16", or "int8" with a scale for each row.
    shard_memory, replicate_below: most bytes of tables on a shard, and the size up to which a table stays in the dense part (1 MB), in
    bytes or as in "16GB". row_bandwidth (GB/s of rows of random ids), network_bandwidth (Gbit/s of a machine), message_time (us),
    dense_gflops (GFLOP/s of a replica of the dense part): what the plan counts with; 10, 25, 50 and 100.

    Raises what fusec.compile raises; BadUsage where the tables do not fill the shards, or do not fit into them.
    """
    with tempfile.TemporaryDirectory(prefix="fusec_") as temporary:
        path = _verbs._model_file(model, args, dynamic_shapes, temporary)
        folder = pathlib.Path(path).stem.split(".")[0] + "_sharded" if output is None else os.fspath(output)
        flags = {
            "shards": shards,
            "output": folder,
            "profile": _profile_file(profile, temporary),
            "plan_dim": _program.named(plan_dims, str),
            "wire": wire,
            "shard_memory": shard_memory,
            "replicate_below": replicate_below,
            "row_bandwidth": row_bandwidth,
            "network_bandwidth": network_bandwidth,
            "message_time": message_time,
            "dense_gflops": dense_gflops,
        }
        try:
            flags |= _verbs._build_flags(temporary, **build)
        except TypeError as error:
            raise _errors.BadUsage(f"fusec.shard: {str(error).partition(' ')[2]}") from None
        _program.run(["shard", path, *_program.flags(flags)])
    return ShardedArtifact(folder)


def _profile_file(profile: Any, folder: str) -> str | None:
    if profile is None or isinstance(profile, (str, os.PathLike)):
        return None if profile is None else os.fspath(profile)
    import numpy

    path = os.path.join(folder, "profile.npz")
    numpy.savez(path, **{name: numpy.asarray(array) for name, array in profile.items()})
    return path
