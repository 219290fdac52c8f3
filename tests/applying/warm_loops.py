"""A Python that has imported torch, and runs each command that asks it in a fork of itself.

To import torch takes ten times as long as a loop of these tests trains. The command that batchstat
starts is then `python warm_loops.py SOCKET script.py …`: it hands its environment, its streams and
its words to the process behind the socket, and ends as the fork does that becomes the command.
With N_RANKS in its environment there are as many forks, whose ranks those are.
"""

import json
import os
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


def serving(given: dict[str, str], *modules: str) -> Iterator[WarmLoops]:
    """Yield what runs commands in forks of a Python that has imported torch and these modules."""
    from conftest import environment

    folder = Path(tempfile.mkdtemp())  # a socket's path is short
    loops = WarmLoops(folder, environment(**given), *modules)
    yield loops
    loops.end()
    shutil.rmtree(folder)


def ask_ranks(path: str, words: list[str]) -> int:
    """Have a command run on all ranks, and return the first exit code that is not 0. The folder
    that is its first argument gets them all.
    """
    n_ranks = int(os.environ.get("N_RANKS", "1"))
    if n_ranks == 1:
        return ask(path, words, {})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(n_ranks)}
    place |= {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": str(n_ranks)}
    of_ranks = [{**place, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(n_ranks)]
    with ThreadPoolExecutor(n_ranks) as pool:
        codes = list(pool.map(lambda own: ask(path, words, own), of_ranks))
    (Path(words[1]) / "codes.json").write_text(json.dumps(codes))
    return next((code for code in codes if code), 0)


def ask(path: str, words: list[str], more: dict[str, str]) -> int:
    """Have a command run with `more` in its environment, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        order = json.dumps([{**os.environ, **more}, str(Path.cwd()), words]).encode()
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
        sys.exit(ask_ranks(sys.argv[1], sys.argv[2:]))
