"""The ledger of fusec.serve: every replica of a model gets the same weights, rows and adapters, whenever it starts."""

import asyncio
import unittest

import numpy as np
from fusec.serve import RequestError, _ledger
from fusec.serve._changes import Change, ChangeLog
from fusec.serve._ledger import Ledger, Report
from fusec.serve._statistics import Run, Statistics


def rows(table, ids, value):
    return Change("rows", table, ids=np.array(ids), rows=np.full((len(ids), 2), value, np.float32))


class Logs(unittest.TestCase):
    def test_it_keeps_what_a_new_replica_needs(self):
        log = ChangeLog()
        kept = lambda: [(change.kind, change.subject, change.path, change.version) for change in log.changes]
        for change in (Change("weights", path="a"), rows("t", [1], 1), Change("adapter", "0", "x"), Change("weights", path="b")):
            log.add(change)
        self.assertEqual(kept(), [("adapter", "0", "x", 4), ("weights", "", "b", 5)])
        log.add(Change("adapter", "0"))
        log.add(Change("adapter", "1", "y"))
        self.assertEqual(kept()[1:], [("adapter", "0", "", 6), ("adapter", "1", "y", 7)])
        log.add(Change("unload"))
        self.assertEqual(kept(), [("unload", "", "", 8)])

    def test_a_log_that_follows_another_becomes_the_same(self):
        log, follower = ChangeLog(), ChangeLog()
        for change in (rows("t", [1, 2], 1), Change("adapter", "0", "x"), rows("t", [2, 3], 2), Change("adapter", "1", "y")):
            log.add(change)
            if change.kind == "adapter":
                for missed in log.since(follower.version):
                    follower.add(missed)
        self.assertEqual(follower.version, log.version)
        self.assertEqual([(c.what, c.version) for c in follower.changes], [(c.what, c.version) for c in log.changes])
        for mine, other in zip(follower.changes, log.changes):
            np.testing.assert_array_equal(mine.rows, other.rows)

    def test_rows_of_a_table_become_one_change(self):
        log = ChangeLog()
        for change in (rows("t", [1, 2], 1), rows("u", [9], 9), rows("t", [2, 3, 2], 2)):
            log.add(change)
        other, change = log.changes
        self.assertEqual((other.subject, change.subject, change.version), ("u", "t", 4))
        self.assertEqual((change.ids.tolist(), change.rows[:, 0].tolist()), ([1, 2, 3], [1, 2, 2]))
        self.assertEqual(log.since(3), [change])


class Following(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.poll, _ledger.POLL_S = _ledger.POLL_S, 0.05

    def tearDown(self):
        _ledger.POLL_S = self.poll

    async def test_a_change_is_waited_for_until_all_replicas_have_it(self):
        ledger = Ledger()
        slow = asyncio.create_task(ledger.follow("m", "a", Report(1, True)))
        await asyncio.sleep(0)
        version = await ledger.add("m", Change("weights", path="w"))
        self.assertEqual((version, await slow), (2, 2))
        applied = asyncio.create_task(ledger.wait_applied("m", version))
        await asyncio.sleep(0.1)
        self.assertFalse(applied.done())
        self.assertEqual([change.path for change in ledger.since("m", 1)], ["w"])
        self.assertEqual(await ledger.follow("m", "a", Report(2, True)), 2)
        await asyncio.wait_for(applied, 1)
        self.assertEqual(ledger.overview(), {"m": {"version": 2, "ready": True, "unloaded": False, "replicas": 1}})

    async def test_a_lost_replica_is_not_waited_for(self):
        ledger = Ledger()
        await ledger.hear("m", "lost", Report(1, True))
        await ledger.hear("m", "gone", Report(1, True))
        await ledger.leave("m", "gone")
        version = await ledger.add("m", Change("weights", path="w"))
        ledger._replicas["m"]["lost"].heard -= 100
        await asyncio.wait_for(ledger.wait_applied("m", version), 1)
        self.assertFalse(ledger.overview()["m"]["ready"])

    async def test_statistics_count_replicas_that_are_gone(self):
        ledger = Ledger()

        def of_rows(rows):
            statistics = Statistics()
            run = Run(rows, 1, 10, 100, 1)
            statistics.note_run(run)
            statistics.note_answers(1, rows, 5, run)
            statistics.note_request(True, 116)
            return statistics

        for replica, rows in (("a", 2), ("left", 3), ("lost", 3), ("a", 4)):  # of one replica the last report holds
            await ledger.hear("m", replica, Report(1, True, statistics=of_rows(rows)))
        await ledger.leave("m", "left")
        ledger._replicas["m"]["lost"].heard -= 100
        found = ledger.statistics()["m"].described("m", 7)
        self.assertEqual((found["version"], found["inference_count"], found["execution_count"]), ("7", 10, 3))
        self.assertEqual(found["inference_stats"]["queue"], {"count": 3, "ns": 15})
        self.assertEqual([(batch["batch_size"], batch["compute_infer"]) for batch in found["batch_stats"]],
                         [(3, {"count": 2, "ns": 200}), (4, {"count": 1, "ns": 100})])  # fmt: skip

    async def test_a_new_ledger_learns_from_the_replicas(self):
        log = ChangeLog()
        log.add(Change("weights", path="w"))
        ledger = Ledger()
        self.assertEqual(await ledger.follow("m", "a", Report(2, True)), 1)
        await ledger.restore("m", log)
        self.assertEqual(await ledger.follow("m", "b", Report(1, True)), 2)
        await ledger.restore("m", ChangeLog())
        self.assertEqual([change.path for change in ledger.since("m", 1)], ["w"])

    async def test_a_model_that_does_not_load_is_not_known(self):
        """Else the server would wait for it, and not be ready."""
        ledger = Ledger()
        self.assertEqual(ledger.since("damaged", 1), [])
        self.assertEqual((ledger.overview(), ledger.samples()), ({}, []))

    async def test_a_replica_that_never_comes_is_told(self):
        ledger, _ledger._APPLIED_WITHIN_S = Ledger(), 0.1
        self.addCleanup(setattr, _ledger, "_APPLIED_WITHIN_S", 600.0)
        await ledger.hear("m", "a", Report(1, True))
        version = await ledger.add("m", Change("weights", path="w"))
        with self.assertRaisesRegex(RequestError, "version 2 is kept, but not all replicas had it"):
            await ledger.wait_applied("m", version)
