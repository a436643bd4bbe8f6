import sys

import fusec
import numpy as np

model = fusec.load(sys.argv[1])
print(model)
row, column = np.ogrid[:4, :13]
dense = ((row + column) % 5 / 4).astype(np.float32)
row, column = np.ogrid[:4, :26]
ids = ((row + column) % 3).astype(np.int64)
for score in model(dense, ids).ravel():
    print(f"score {score:.9g}")
