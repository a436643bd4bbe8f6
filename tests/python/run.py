#!/usr/bin/env python3
"""Runs the tests of the Python package that need no GPU, and ends with "N passed, N failed". CTest sets the environment: PYTHONPATH has the
package, and LD_LIBRARY_PATH the fake CUDA driver of tests/errors.

usage: run.py [NAME...]     files, classes or tests, as unittest names them
"""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import support

loader = unittest.TestLoader()
names = sys.argv[1:]
suite = loader.loadTestsFromNames(names) if names else loader.discover(str(pathlib.Path(__file__).parent), "test_*.py")
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
shutil.rmtree(support.FOLDER)
bad = len({test.id() for test, _ in result.failures + result.errors + result.skipped}) + len(result.unexpectedSuccesses)
print(f"{result.testsRun - bad} passed, {bad} failed")
sys.exit(bad != 0)
