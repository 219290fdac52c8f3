"""A Python that has imported torch and its trainers, and runs scripts in forks of itself.

To import them takes 8 s of a processor, and the scripts of tests train for about one.
"""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

# Reads an order a line, and answers it with the exit codes of its ranks.
_SERVER = """
import faulthandler, gc, json, os, runpy, signal, sys
import accelerate, lightning.pytorch, torch
from batchstat import BatchSampler, read_samples
from transformers import Trainer

gc.freeze()  # each script collects garbage several times: not among what was imported
for line in sys.stdin:
    order = json.loads(line)
    running, codes = {}, {}
    for rank, environment in enumerate(order["environments"]):
        child = os.fork()
        if child == 0:
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(order["folder"])
            for stream, name in enumerate(("in", "out", "err")):
                flags = os.O_RDONLY if name == "in" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                os.dup2(os.open(os.devnull if name == "in" else f"{rank}.{name}", flags), stream)
            # Ends a process that waits for another for ever, and says where it waits.
            faulthandler.dump_traceback_later(order["timeout"], exit=True)
            sys.argv = order["command"]
            sys.path[0] = os.path.dirname(sys.argv[0])
            runpy.run_path(sys.argv[0], run_name="__main__")
            sys.exit()
        running[child] = rank
    while running:
        ended, status = os.wait()
        codes[running.pop(ended)] = os.waitstatus_to_exitcode(status)
        if status:
            for other in running:
                os.kill(other, signal.SIGKILL)
    print(json.dumps(codes), flush=True)
"""


class WarmPython:
    """The process, which starts with the first script."""

    def __init__(self, environment: dict[str, str]) -> None:
        """Keep the environment of all scripts; threads and devices are of the first import."""
        self._environment = environment
        self._server: subprocess.Popen[str] | None = None

    def run(
        self,
        script: Path,
        *arguments: object,
        ranks: int | None = None,
        folder: Path | None = None,
        timeout: int = 300,
    ) -> list[str]:
        """Run a script, by default in its folder: by itself, or as torchrun starts its ranks.

        Returns:
            What each process printed.
        """
        folder = folder or script.parent
        environments = [{}] if ranks is None else _environments_of_ranks(ranks)
        order = {
            "command": [str(script), *map(str, arguments)],
            "folder": str(folder),
            "environments": [self._environment | each for each in environments],
            "timeout": timeout,
        }
        codes = self._answer(order)
        errors = [(folder / f"{n}.err").read_text("utf-8") for n in range(len(environments))]
        assert set(codes.values()) == {0}, (codes, *errors)
        return [(folder / f"{n}.out").read_text("utf-8") for n in range(len(environments))]

    def _answer(self, order: dict[str, Any]) -> dict[str, int]:
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-c", _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                encoding="utf-8",
            )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        codes: dict[str, int] = json.loads(self._server.stdout.readline())
        return codes

    def end(self) -> None:
        """End the process, if one was started."""
        if self._server is not None:
            self._server.communicate()


def _environments_of_ranks(number: int) -> list[dict[str, str]]:
    """What torchrun tells each of its processes."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(number)}
    shared |= {"LOCAL_WORLD_SIZE": str(number), "TORCHELASTIC_RUN_ID": "none"}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(number)]
