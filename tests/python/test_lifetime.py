"""Threads, processes, signals and memory: lifetimes of objects, and who may use them."""

import gc
import threading
import time
import unittest

import fusec
import numpy as np
from support import artifact, load, resident_bytes, run_python

BIAS = np.float32([10, 20, 30, 40])
RUNS = 10000


class Threads(unittest.TestCase):
    def run_threads(self, count, body):
        errors = []

        def guarded(number):
            try:
                body(number)
            except BaseException as error:  # whatever it is, the test shows it
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def test_ten_threads_on_a_model(self):
        model = load("sum")

        def body(number):
            for run in range(200):
                x = np.full((1 + (7 * number + run) % 50, 4), 1000 * number + run, np.float32)
                np.testing.assert_array_equal(model(x), x + BIAS)

        self.run_threads(10, body)

    def test_ten_threads_with_contexts_of_their_own(self):
        model = load("sum")

        def body(number):
            context = model.context()
            y = np.empty((number + 1, 4), np.float32)
            for run in range(200):
                x = np.full((number + 1, 4), 1000 * number + run, np.float32)
                context.run_into(y, x)
                np.testing.assert_array_equal(y, x + BIAS)

        self.run_threads(10, body)

    def test_other_threads_go_on_during_a_long_run(self):
        context = load("gram").context()
        x = np.zeros((2000, 64), np.float32)
        y = np.empty((2000, 2000), np.float32)
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.0001)

        def ticks_of_a_run():
            start = time.perf_counter()
            context.run_into(y, x)
            end = time.perf_counter()
            return sum(start < moment < end for moment in ticks)

        for _ in range(2):
            context.run_into(np.empty((1, 1), np.float32), x[:1])  # may keep Python's lock
        clock = threading.Thread(target=tick)
        clock.start()
        try:
            ticks_of_a_run()  # the first with these sizes, whose length nobody knows
            self.assertGreater(sum(ticks_of_a_run() for _ in range(20)), 40)
        finally:
            stop.set()
            clock.join()

    def test_a_context_is_for_one_thread_at_a_time(self):
        model = load("sum")
        context = model.context()
        refusals = []

        class Slow:
            """A tensor that calls the context while it is read."""

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **flags):
                try:
                    context(np.zeros((1, 4), np.float32))
                except fusec.BadUsage as error:
                    refusals.append(str(error))
                model(np.zeros((1, 4), np.float32))  # a model may be called meanwhile
                return np.zeros((1, 4), np.float32).__dlpack__(**flags)

        context(Slow())
        self.assertEqual(len(refusals), 1)
        self.assertIn("each thread needs its own", refusals[0])
        context(np.zeros((1, 4), np.float32))

    def test_close_while_others_call(self):
        model = load("sum")
        x = np.zeros((64, 4), np.float32)
        started = threading.Barrier(5)

        def body(number):
            started.wait()
            try:
                while True:
                    np.testing.assert_array_equal(model(x), x + BIAS)
            except fusec.BadUsage as error:
                self.assertIn("closed", str(error))

        def close():
            started.wait()
            time.sleep(0.05)
            model.close()

        closer = threading.Thread(target=close)
        closer.start()
        self.run_threads(4, body)
        closer.join()

    def test_other_threads_run_python_while_a_model_runs(self):
        model = load("dlrm_dot.ts")
        dense, ids = np.zeros((4096, 13), np.float32), np.zeros((4096, 26), np.int64)
        model(dense, ids)
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
                time.sleep(0)

        counter = threading.Thread(target=count)
        counter.start()
        before = counted[0]
        model(dense, ids)
        after = counted[0]
        done.set()
        counter.join()
        self.assertGreater(after, before)


class Processes(unittest.TestCase):
    def run_code(self, code, **environment):
        done = run_python("import fusec, os, sys, threading, time\nimport numpy as np\n" + code, artifact("sum").path, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.split("\n")

    FORK = """
def in_child(body):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try: print(body())
        except fusec.Error as error: print(type(error).__name__, error)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
x = np.zeros((1, 4), np.float32)
"""

    def test_fork_after_load(self):
        lines = self.run_code(self.FORK + """
model = fusec.load(sys.argv[1], "cpu")
context = model.context()
in_child(lambda: model(x))
in_child(lambda: context(x))
in_child(lambda: model.allocate_host((4,)))
in_child(lambda: fusec.load(sys.argv[1], "cpu")(x).tolist())   # nothing has run in the parent
model(x)
in_child(lambda: fusec.load(sys.argv[1], "cpu"))
in_child(lambda: (model.close(), "closed"))
print(model(x).tolist())
""")
        refused = "BadUsage the model was loaded before this process was forked; load it in the process that runs it"
        self.assertEqual(lines[:4], [refused, refused, refused, "[[10.0, 20.0, 30.0, 40.0]]"])
        self.assertRegex(lines[4], "^BadUsage the threads of a process that ran a model are not in one forked from it; start")
        self.assertEqual(lines[5:7], ["(None, 'closed')", "[[10.0, 20.0, 30.0, 40.0]]"])

    def test_cuda_in_a_forked_process(self):
        lines = self.run_code(self.FORK + f"""
model = fusec.load({artifact("sum", "sm_90a").path!r}, "cuda")
in_child(lambda: fusec.load({artifact("sum", "sm_90a").path!r}))
in_child(lambda: fusec.load(sys.argv[1], "cpu")(x).tolist())
""")
        self.assertRegex(lines[0], "^BadUsage CUDA does not work in a process forked from one that used it; start")
        self.assertEqual(lines[1], "[[10.0, 20.0, 30.0, 40.0]]")

    def test_shutdown_with_live_contexts(self):
        self.run_code("""
model = fusec.load(sys.argv[1], "cpu")
contexts = [model.context() for _ in range(3)]
results = [context(np.zeros((2, 4), np.float32)) for context in contexts]
tensor = model.allocate_host((4,))
sys.kept = (contexts[0], tensor)                     # longer than the module
fusec.kept = model
def cycle(): pass
cycle.kept = (cycle, contexts[1])
""")

    def test_shutdown_while_threads_call(self):
        for _ in range(5):
            self.run_code("""
model = fusec.load(sys.argv[1], "cpu")
x = np.zeros((512, 4), np.float32)
def work():
    while True: model(x)
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
""")

    def test_a_call_while_the_interpreter_ends(self):
        lines = self.run_code("""
model = fusec.load(sys.argv[1], "cpu")
x = np.zeros((1, 4), np.float32)
model(x)
class Late:
    def __del__(self, model=model, x=x): print(model(x).tolist())
late = Late()
""")
        self.assertEqual(lines[0], "[[10.0, 20.0, 30.0, 40.0]]")

    def test_numpy_is_imported_by_its_tensors_only(self):
        done = run_python(
            "import fusec, sys, array\n"
            "x = memoryview(array.array('f', range(4))).cast('B').cast('f', (1, 4))\n"
            "print(memoryview(fusec.load(sys.argv[1], 'cpu')(x)).tolist(), 'numpy' in sys.modules)",
            artifact("sum").path,
        )
        self.assertEqual(done.stdout, "[[10.0, 21.0, 32.0, 43.0]] False\n", done.stderr)


class Memory(unittest.TestCase):
    MOST_GROWTH = 4 << 20  # bytes: about noise, and a hundredth of leaking a small tensor in each of 10,000 runs

    def stays_flat(self, body):
        for _ in range(RUNS // 10 + 10):
            body()
        gc.collect()
        before = resident_bytes()
        for _ in range(RUNS):
            body()
        gc.collect()
        self.assertLess(resident_bytes() - before, self.MOST_GROWTH)

    def test_loads(self):
        x = np.zeros((64, 4), np.float32)
        path = artifact("sum").path
        self.stays_flat(lambda: fusec.load(path, "cpu")(x))

    def test_calls(self):
        model = load("pair")
        a, b = np.zeros((500, 3), np.float32), np.zeros((500, 5), np.float32)
        self.stays_flat(lambda: model(a, b=b))

    def test_tensors_over_dlpack(self):
        model = load("sum")
        x = memoryview(np.zeros((500, 4), np.float32))
        self.stays_flat(lambda: np.from_dlpack(model(x)))
        self.stays_flat(lambda: model(x).__dlpack__())  # a capsule that nobody takes
        self.stays_flat(lambda: model(x).__dlpack__(max_version=(1, 0), copy=True))

    def test_errors(self):
        model, bad = load("pair"), np.zeros((500, 3), np.float32)

        def fail():
            try:
                model(bad, bad)
            except fusec.BadInput:
                return
            raise AssertionError

        self.stays_flat(fail)

    def test_contexts_and_copies(self):
        model = load("sum")
        x = np.zeros((4, 500), np.float32).T
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.stays_flat(lambda: model.context()(x))
