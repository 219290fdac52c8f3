"""Processes that count are started whole, whenever an interrupt comes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batchstat.profiling.executors.spawning import Spawning
from conftest import environment

# Interrupts itself while the new process waits for what it is to run.
PROGRAM = """
import multiprocessing.util as util, os, signal, sys
from batchstat.profiling.executors.spawning import Spawning

if __name__ == "__main__":
    launched = util.spawnv_passfds

    def launch(*arguments):
        found = launched(*arguments)
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        return found

    util.spawnv_passfds = launch
    # A shell starts what runs in the background with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        Spawning().Process(target=print, args=("ran",)).start()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="how POSIX starts a process")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_while_one_is_started_comes_after(name, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, "program.py", name],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        env=environment(PYTHONPATH=str(Path(__file__).parents[2])),
        timeout=120,
    )
    assert ran.stderr == ""
    assert sorted(ran.stdout.split()) == ["interrupted", "ran"]


def test_handlers_are_as_before_and_processes_are_counted():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    spawning = Spawning()
    process = spawning.Process(target=time.sleep, args=(0,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert spawning.started == [process]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
