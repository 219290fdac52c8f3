"""Executors that count the splits of a corpus: threads, processes, Dask. A new kind is one file
here and one line in `NAMES`, with its address if it has one.
"""

NAMES = ("auto", "threads", "processes", "dask")
