"""A message broker in memory, for `slicelease dev` and tests: one process, nothing kept.

The core (`queue`, `core`) is synchronous and knows no event loop; `asyncio_adapter` and `trio_adapter` put the ports of
the control plane and of the worker over it, so that both may use one broker from two threads.
"""
