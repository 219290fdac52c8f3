"""Real parts of a cluster, as processes of this machine that a test starts and stops."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from conftest import ROOT, environment

_LOCAL = "127.0.0.1"


class Cluster:
    """A Dask scheduler and its workers.

    Attributes:
        address: of the scheduler.
        scheduler: its process.
        workers: theirs.
    """

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self.scheduler = self._start("scheduler", "--host", _LOCAL, "--port", "0")
        self.address = self._address()
        self.workers = [self.add_worker() for _ in range(workers)]

    def _start(self, kind: str, *arguments: str) -> "subprocess.Popen[bytes]":
        program = f"from distributed.cli.dask_{kind} import main; main()"
        with (self._folder / f"{kind}-{time.monotonic_ns()}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", program, *arguments, "--no-dashboard"],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=environment(PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'tests'}"),
            )

    def _address(self) -> str:
        (log,) = self._folder.glob("scheduler-*.log")
        for _ in range(600):
            if found := re.search(r"Scheduler at:\s+(tcp://\S+)", log.read_text()):
                return found[1]
            assert self.scheduler.poll() is None, log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def add_worker(self) -> "subprocess.Popen[bytes]":
        """One process with one thread, which nobody starts again."""
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny")

    def wait_for_workers(self, count: int) -> None:
        """Until so many have found the scheduler."""
        from distributed import Client

        with Client(self.address, timeout="60s", set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def stop(self) -> None:
        """Ends all of its processes."""
        for process in (*self.workers, self.scheduler):
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process that a test began."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster while it is needed."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder, workers)
    try:
        cluster.wait_for_workers(workers)
        yield cluster
    finally:
        cluster.stop()


def s3_server() -> AbstractContextManager[str]:
    """The address of an S3-compatible server, moto's, while it is needed."""
    return _server(Path.cwd(), "-m", "moto.server", "-H", _LOCAL, "-p")


def web_server(folder: Path) -> AbstractContextManager[str]:
    """The address of a server of a folder's files, Python's own, while it is needed."""
    return _server(folder, "-m", "http.server", "--bind", _LOCAL)


def bare_server(folder: Path) -> AbstractContextManager[str]:
    """The same of one that says nothing of a file: not its size, nor when it was changed."""
    return _server(folder, "-c", _BARE)


_BARE = """
import pathlib, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Bare(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(pathlib.Path(self.path[1:]).read_bytes())
    do_HEAD = do_GET
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bare).serve_forever()
"""


@contextmanager
def _server(folder: Path, *program: str) -> Iterator[str]:
    with socket.socket() as found:
        found.bind((_LOCAL, 0))
        port = found.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, *program, str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            try:
                socket.create_connection((_LOCAL, port), timeout=5).close()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        yield f"http://{_LOCAL}:{port}"
    finally:
        end(server)
