"""Others that drain the same work: each a process that leaves its count where BENCH_RECORD says."""
