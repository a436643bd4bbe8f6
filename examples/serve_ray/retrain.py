"""Takes the place of a night of training: writes new values for the tables of an artifact's model as FILE.safetensors."""

import json
import struct
import sys

import fusec
import numpy as np

artifact, path = sys.argv[1:]
header, data = {}, b""
random = np.random.default_rng(0)
with fusec.load(artifact) as model:
    for table in model.tables:
        rows = random.standard_normal((table.rows, table.columns)).astype(np.float32)
        header[table.name] = {"dtype": "F32", "shape": rows.shape, "data_offsets": [len(data), len(data) + rows.nbytes]}
        data += rows.tobytes()
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
