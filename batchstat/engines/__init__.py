"""Who counts the parts of a corpus: threads or processes of this machine, a cluster, any executor.

A new kind is one file here and one line in `NAMES`, with its address where it has one.
"""

from batchstat.engines.engine import Engine, LostError
from batchstat.engines.local import PROCESSES, THREADS, given_executor, processes, threads

NAMES = ("auto", "threads", "processes", "dask")

__all__ = [
    "NAMES",
    "PROCESSES",
    "THREADS",
    "Engine",
    "LostError",
    "given_executor",
    "processes",
    "threads",
]
