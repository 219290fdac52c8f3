"""Who counts the parts of a corpus: threads or processes of this machine, a cluster, any executor.

A new kind is one file here and one line in `NAMES`, with its address where it has one.
"""

NAMES = ("auto", "threads", "processes", "dask")
