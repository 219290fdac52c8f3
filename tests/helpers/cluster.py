"""Real parts of a cluster, as processes of this machine that a test starts and stops."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT, environment

_LOCAL = "127.0.0.1"


@dataclass
class Cluster:
    """A Dask scheduler and its workers, each a process with one thread that nobody starts again."""

    address: str
    scheduler: "subprocess.Popen[bytes]"
    workers: list["subprocess.Popen[bytes]"]


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process that a test began."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster while it is needed."""
    from distributed import Client

    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    address = f"tcp://{_LOCAL}:{port}"
    worker = ["worker", address, "--nthreads", "1", "--no-nanny"]
    commands = [["scheduler", "--host", _LOCAL, "--port", str(port)], *[worker] * workers]
    with (folder / "dask.log").open("wb") as log:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", _DASK.format(kind), *arguments, "--no-dashboard"],
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment(PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'tests'}"),
            )
            for kind, *arguments in commands
        ]
    try:
        with Client(address, timeout="60s", set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield Cluster(address, started[0], started[1:])
    finally:
        for process in reversed(started):
            end(process)


_DASK = "from distributed.cli.dask_{} import main; main()"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_LOCAL, 0))
        port: int = found.getsockname()[1]
    return port


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
    port = _free_port()
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
