"""`slicelease dev`: control plane, workers, embedded store and broker, and a demo load, in one process.

`load`, `journal`, `fairness`, `report` and `watched_ledger` count and decide without clocks or threads; `session` runs
it all.
"""
