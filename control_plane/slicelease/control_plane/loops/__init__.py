"""Background work as one-pass coroutines: each does a bounded piece and says whether there is more.

May live here: what is asked of the ledger and the broker, and in which order. May not know: adapters, gRPC, clocks,
event loops (the simulation runs them under Trio). Each is safe on every replica: the ledger's step rechecks all that a
pass has seen. Whoever runs them sleeps between passes and backs off after an error.
"""
