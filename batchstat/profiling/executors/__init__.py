"""Executors that count the splits of a corpus: threads, processes, Dask."""
