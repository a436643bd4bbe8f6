# Functions for the setup sections of *.case files.

# A model that adds x[row] to every row that ids[row] picks from a table of 5, as model.onnxtxt.
lookup_model() {
  cat >model.onnxtxt <<'MODEL'
<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 4] x, int64[batch, 2] ids) => (float[batch, 2, 4] y)
<float[5, 4] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19},
 int64[1] axes = {1}> {
  ["/emb/Gather"] rows = Gather(table, ids)
  wide = Unsqueeze(x, axes)
  ["/Add"] y = Add(rows, wide)
}
MODEL
}

# lookup_artifact [TARGETS]: compiles that model for 1 to 8 rows to the folder art, and writes valid inputs of 3 rows to x.npy and ids.npy.
# The manifest has no hash, so that tests can change it.
lookup_artifact() {
  lookup_model
  fusec model.onnxtxt -o art --dim batch=1..8 --target "${1:-cpu}" --cpu-level x86-64-v3 2>../log ||
    { cat ../log; exit 1; }
  sed -i '/^ "hash": /d' art/manifest.json
  npy x.npy 'np.ones((3, 4), "f4")'
  npy ids.npy 'np.zeros((3, 2), "i8")'
}

# Writes model.onnxtxt, a model whose inputs have different names for the same batch.
two_batches_model() {
  cat >model.onnxtxt <<'MODEL'
<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 4] dense, float[lookups, 2] picked) => (float[batch, 6] y) {
  y = Concat <axis = 1> (dense, picked)
}
MODEL
}

# npy FILE EXPRESSION: saves a NumPy array.
npy() {
  "$PYTHON" -c "import numpy as np; np.save('$1', $2)"
}

# overwrite FILE OFFSET BYTES: replaces bytes in the middle of a file, as printf writes them.
overwrite() {
  printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>../log
}
