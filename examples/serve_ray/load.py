"""Sends requests to the ranker as fast as it answers, loads new weights twice meanwhile, and prints a line of statistics each second.

usage: load.py [SECONDS [HOST:PORT]]
"""

import collections
import json
import sys
import threading
import time
import urllib.request

import numpy as np
import tritonclient.http as triton

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
SERVER = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:8000"
CLIENTS = 8
HEADERS = {"Authorization": "Bearer example"}  # the token of up.sh

latencies, versions, failures = collections.deque(), collections.Counter(), []
ended = threading.Event()


def ask(seed):
    random, client = np.random.default_rng(seed), triton.InferenceServerClient(SERVER)
    while not ended.is_set():
        rows = int(random.integers(1, 32))
        inputs = [triton.InferInput("in0", [rows, 13], "FP32"), triton.InferInput("in1", [rows, 26], "INT64")]
        inputs[0].set_data_from_numpy(random.standard_normal((rows, 13), np.float32))
        inputs[1].set_data_from_numpy(random.integers(0, 3, (rows, 26)))
        start = time.perf_counter()
        try:
            answer = client.infer("ranker", inputs)
        except Exception as error:
            failures.append(error)
            continue
        latencies.append(time.perf_counter() - start)
        versions[answer.get_response()["model_version"]] += 1


def new_weights(artifact):
    request = urllib.request.Request(f"http://{SERVER}/admin/models/ranker/weights", json.dumps({"artifact": artifact}).encode(), HEADERS)
    with urllib.request.urlopen(request) as answer:
        print(f"{artifact} is version {json.load(answer)['model_version']} in all replicas")


def batches():
    """The numbers of requests and of batches of all replicas so far."""
    with urllib.request.urlopen(f"http://{SERVER}/metrics") as page:
        lines = [line.rsplit(" ", 1) for line in page.read().decode().splitlines()]
    total = lambda name: sum(float(value) for key, value in lines if key.startswith(name))
    return total("fusec_batch_requests_sum"), total("fusec_batch_requests_count")


def watch():
    for second in range(1, SECONDS + 1):
        time.sleep(1)
        if second in (SECONDS // 3, 2 * SECONDS // 3):
            new_weights("tuesday" if second == SECONDS // 3 else "monday")
        times = sorted(latencies.popleft() for _ in range(len(latencies)))
        requests, runs = batches()
        p50, p99 = (1e3 * times[int(part * len(times))] if times else float("nan") for part in (0.5, 0.99))
        print(
            f"{second:3} s  {len(times):5} requests  p50 {p50:6.1f} ms  p99 {p99:6.1f} ms  {requests / max(1, runs):4.1f} requests a batch"
        )


threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(CLIENTS)]
for thread in threads:
    thread.start()
try:
    watch()
finally:
    ended.set()
    for thread in threads:
        thread.join()
print(f"answers by version {dict(versions)}, {len(failures)} failed", *failures[:3], sep="\n")
sys.exit(bool(failures))
