"""The test suite. A package so that helpers import as ``tests.servers`` wherever pytest is started."""
