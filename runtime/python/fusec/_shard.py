"""Models whose embedding tables are distributed over machines or GPUs."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any, Mapping

from fusec import _errors, _program, _verbs
from fusec._verbs import Artifact, Path


class ShardedArtifact(Artifact):
    """A folder that fusec.shard wrote: an artifact for each shard, one for the dense part (all the rest of the model), and a manifest that
    combines them into one program."""

    def __repr__(self) -> str:
        return f"fusec.ShardedArtifact({self.path!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{_program.run(['explain', self.path])}</pre>"

    @property
    def plan(self) -> dict[str, Any]:
        """The plan: which shard has which rows of which tables, and the expected cost of a run on each, as in `fusec explain --json`."""
        return json.loads((pathlib.Path(self.path) / "manifest.json").read_text())["shards"]

    @property
    def parts(self) -> list[Artifact]:
        """The artifacts of the shards, followed by that of the dense part."""
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
    """Compiles a model with its embedding tables distributed over `shards` machines or GPUs.

        sharded = fusec.shard("ranker.onnx", 4, "ranker", target="sm_90a", profile=ids_of_an_hour)
        scores = fusec.load("ranker", "cuda:0,1,2,3")(dense, ids)          # all parts in this process

    fusec.serve serves the folder from several machines. Tables are assigned to shards by their size and by the number of rows that are
    looked up; a table of more than an even share is cut. Small tables stay in the dense part.

    model, args, dynamic_shapes and the optional `build` arguments: as for fusec.compile. output: the folder to write; by default
    "NAME_sharded" in the working directory.
    profile: ids of real requests, as a .npz file or as a dict of arrays by input name; without it, all rows of a table are assumed to be
    equally likely.
    plan_dims: the sizes that the plan is made for, such as {"batch": 2048}; a dim that is missing has 1024.
    wire: the format in which shards send f32 rows and sums: "f32" (the default), rounded to "f16" or "bf16", or "int8" with a scale for
    each row.
    shard_memory: the most bytes of tables on a shard. replicate_below: the size up to which a table stays in the dense part (1 MB by
    default). Both are in bytes or in a form such as "16GB".
    row_bandwidth (GB/s at which rows of random ids are read, 10 by default), network_bandwidth (Gbit/s of one machine, 25), message_time
    (us per message, 50), dense_gflops (GFLOP/s of one replica of the dense part, 100): the rates that the plan assumes.

    Raises the errors of fusec.compile, and BadUsage if the tables do not fill the shards or do not fit into them.
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
