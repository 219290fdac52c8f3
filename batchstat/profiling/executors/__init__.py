"""What counts splits: threads, processes, Dask. A new kind is a file here and a name in `NAMES`."""

NAMES = ("auto", "threads", "processes", "dask")
