"""What a process records: a file of its own, a line of JSON for each event, written at once."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

FORMAT = 1  # the number of the format, which rises when a key of a line is renamed or removed
PROCESSES = "processes.jsonl"  # the file in which every process of a run notes how far it came

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class Log:
    """The file of a process, opened when there is something to write. What is written is there,
    whatever ends the process: no buffer is lost with it.
    """

    def __init__(self, folder: str, run_id: str) -> None:
        self.folder, self.run_id = folder, run_id
        self.path = ""  # of the file, once it is open
        self.start = 0.0  # when the file was opened, in seconds of `perf_counter`
        # The file's descriptor, and the id of the process that opened it; not open yet.
        self._file, self._process = -1, 0

    @property
    def is_open(self) -> bool:
        """Whether this process has written."""
        return self._process == os.getpid()

    def seconds(self, at: float) -> float:
        """Return `at`, seconds of `perf_counter`, as seconds since this file was opened."""
        return round(at - self.start, 6)

    def write(self, events: Iterable[dict[str, Any]]) -> None:
        """Write events, a line of JSON for each. Each becomes text at once: Python's garbage
        collector goes through whatever dictionaries are kept, which takes time.
        """
        text = "".join([_encode(event) + "\n" for event in events])
        if text:
            self.open()
            os.write(self._file, text.encode())  # unbuffered: it is there if the process is killed

    def note_process(self, stage: str, **more: Any) -> None:
        """Add a line to the file of all processes, such as that this one imported torch: where
        nothing was recorded, these tell the user why.
        """
        line = json.dumps({"k": stage, "process": os.getpid(), **more}) + "\n"
        # Opened for appending: lines of processes that write at once do not overwrite each other.
        file = os.open(os.path.join(self.folder, PROCESSES), _FLAGS, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def open(self) -> None:
        """Open this process's file with its first line, unless it is open; a fork gets its own."""
        if self.is_open:
            return
        rank, world_size = ranks()
        # With the host, since nodes may share the folder, and processes of two may have one id.
        # With the time, since a program that replaces another by `os.execv` keeps its process id.
        started = rank, socket.gethostname(), os.getpid(), time.time_ns()
        self.path = os.path.join(self.folder, "%05d-%s-%d-%d.jsonl" % started)
        self._file = os.open(self.path, _FLAGS, 0o600)
        self._process, self.start = os.getpid(), time.perf_counter()
        torch = sys.modules["torch"]
        first_line = {
            "k": "begin",
            "format": FORMAT,
            "id": self.run_id,
            "rank": rank,
            "world_size": world_size,
            "program": os.path.basename(sys.argv[0]) if sys.argv else "",
            "python": "%d.%d.%d" % sys.version_info[:3],
            "torch": str(getattr(torch, "__version__", "")),
            "at": time.time(),
        }
        self.write([first_line])


def ranks() -> tuple[int, int]:
    """Return (the rank of this process, the number of ranks)."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    # Before a process group is made, or without one: torchrun sets these variables.
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
