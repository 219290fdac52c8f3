"""A Python that has imported torch, and runs each command that asks it in a fork of itself.

To import torch takes ten times as long as a loop of these tests trains. The command that batchstat
starts is then `python warm_loops.py SOCKET script.py …`: it hands its environment, its streams and
its words to the process behind the socket, and ends as the fork does that becomes the command.
"""

import json
import os
import runpy
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path


class WarmLoops:
    """The process, which starts with the first command."""

    def __init__(self, folder: Path, environment: dict[str, str], *modules: str) -> None:
        """Listen in a folder, whose path is short; import these modules beside torch."""
        self._socket, self._environment, self._modules = folder / "warm", environment, modules
        self._server: subprocess.Popen[bytes] | None = None

    def command(self, *words: object) -> list[str]:
        """The command that runs a script in a fork."""
        if self._server is None:
            start = [sys.executable, __file__, "serve", str(self._socket), *self._modules]
            self._server = subprocess.Popen(start, env=self._environment)
            while not self._socket.exists():
                assert self._server.poll() is None
                time.sleep(0.05)
        return [sys.executable, __file__, str(self._socket), *map(str, words)]

    def end(self) -> None:
        """End the process."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()


def ask(path: str, words: list[str]) -> int:
    """Have a command run, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        order = json.dumps([dict(os.environ), str(Path.cwd()), words]).encode()
        socket.send_fds(connection, [len(order).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(order)
        return connection.recv(1)[0]


def serve(path: str, modules: list[str]) -> None:
    """Fork for each command that asks, until this process is killed."""
    import numpy  # noqa: F401
    import torch._dynamo  # noqa: F401 - which the first optimizer imports

    for name in modules:
        import_module(name)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + ".new")
    server.listen()
    Path(path + ".new").rename(path)
    while True:
        connection, _ = server.accept()
        waiting = os.fork()
        if waiting:
            connection.close()
            continue
        size, streams, _, _ = socket.recv_fds(connection, 4, 3)
        content = b""
        while len(content) < int.from_bytes(size, "big"):
            content += connection.recv(1 << 16)
        child = os.fork()
        if not child:
            server.close()
            return become(*json.loads(content), streams)
        _, status = os.waitpid(child, 0)
        connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 255]))
        os._exit(0)


def become(environment: dict[str, str], folder: str, words: list[str], streams: list[int]) -> None:
    """Be the command from now on."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = words
    sys.path[0] = str(Path(words[0]).parent)
    if "BATCHSTAT_RUN" in environment:  # what Python imports where it starts by itself
        first = environment["PYTHONPATH"].split(os.pathsep)[0]
        runpy.run_path(str(Path(first) / "sitecustomize.py"))
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
