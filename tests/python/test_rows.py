"""Model.update_rows: updates rows of a table during calls of other threads, with all kinds of tensors that calls accept."""

import array
import threading
import unittest

import fusec
import numpy as np
from support import load


class UpdateRows(unittest.TestCase):
    IDS = np.arange(3)
    TABLE = np.array([[0, 1], [10, 11], [20, 21]], np.float32)

    def test_calls_see_the_new_rows(self):
        with load("lookup") as loaded:
            self.assertEqual(loaded.tables, (("table", "f32", 3, 2, "f32", 24, ""),))
            context = loaded.context()
            loaded.update_rows("table", np.array([2, 0, 2]), np.array([[1, 1], [5, 6], [7, 8]], np.float32))
            expected = [[5, 6], [10, 11], [7, 8]]
            np.testing.assert_array_equal(loaded(self.IDS), expected)
            np.testing.assert_array_equal(context(self.IDS), expected)
            self.assertEqual(loaded.table_version("table"), 1)
            loaded.update_rows("table", np.array([], np.int32), np.empty((0, 2), np.float32))
            np.testing.assert_array_equal(loaded(self.IDS), expected)

    def test_tensors_of_any_kind(self):
        columns = np.asfortranarray(np.arange(4, dtype=np.float32).reshape(2, 2))
        for ids, rows, expected in (
            (array.array("i", [1]), memoryview(np.array([[3, 4]], np.float32)), [[0, 1], [3, 4], [20, 21]]),
            (np.array([0, 9, 1, 9], np.int32)[::2], columns, [[0, 1], [2, 3], [20, 21]]),
        ):
            with load("lookup") as loaded:
                loaded.update_rows("table", ids, rows)
                np.testing.assert_array_equal(loaded(self.IDS), expected)
        with load("lookup") as loaded:
            rows = loaded.allocate_host([1, 2])
            np.asarray(rows)[:] = 9
            loaded.update_rows("table", np.array([1]), rows)
            np.testing.assert_array_equal(loaded(self.IDS)[1], [9, 9])

    def test_what_is_wrong_is_said_and_changes_nothing(self):
        ids, rows = np.array([1, 2]), np.zeros((2, 2), np.float32)
        with load("lookup") as loaded:
            for said, arguments in (
                ('there is no table "tabel", the program has "table"', ("tabel", ids, rows)),
                ('table "table": id 1 is 3, expected 0 to 2', ("table", np.array([1, 3]), rows)),
                ('table "table": id 0 is -1, expected 0 to 2', ("table", np.array([-1, 2]), rows)),
                ('table "table": rows are f64, expected f32', ("table", ids, rows.astype(np.float64))),
                ('table "table": ids are i16, expected i32 or i64', ("table", ids.astype(np.int16), rows)),
                (r'the rows of table "table" are f32\[1, 2\], expected f32\[2, 2\]', ("table", ids, rows[:1])),
                (r'the rows of table "table" are f32\[2, 1\], expected f32\[2, 2\]', ("table", ids, rows[:, :1])),
                (r'the ids of table "table" are i64\[2, 1\], expected a vector', ("table", ids[:, None], rows)),
                ('the rows of table "table" are of type list, expected a tensor', ("table", ids, [[0, 0], [0, 0]])),
            ):
                with self.assertRaisesRegex(fusec.BadInput, said):
                    loaded.update_rows(*arguments)
            np.testing.assert_array_equal(loaded(self.IDS), self.TABLE)
            self.assertEqual(loaded.table_version("table"), 0)
            with self.assertRaises(fusec.BadInput):
                loaded.table_version("tabel")
        with self.assertRaises(fusec.BadUsage):
            loaded.update_rows("table", ids, rows)

    def test_threads_see_whole_rows(self):
        stop, torn = threading.Event(), []
        with load("lookup") as loaded:
            loaded.update_rows("table", self.IDS, np.zeros((3, 2), np.float32))

            def call():
                while not stop.is_set():
                    found = loaded(self.IDS)
                    if (found[:, 0] != found[:, 1]).any():
                        torn.append(found)

            threads = [threading.Thread(target=call) for _ in range(4)]
            for thread in threads:
                thread.start()
            for version in range(500):
                loaded.update_rows("table", self.IDS, np.full((3, 2), version, np.float32))
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(torn, [])
