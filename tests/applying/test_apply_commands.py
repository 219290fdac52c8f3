"""`run --apply` as a command: which dry run it takes, when it cuts nothing, and how it ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warm_loops import WarmLoops

from conftest import ROOT, Run, environment, needs

pytestmark = pytest.mark.torch

LOOP = """
import os, sys, torch
{before}
torch.manual_seed(1)
embed, out = torch.nn.Embedding(50, 4, padding_idx=0), torch.nn.Linear(4, 50)
net = torch.nn.Sequential(embed, out)
if "RDZV" in os.environ:
    torch.distributed.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def ids_of(number):
    ids = torch.zeros(30, dtype=torch.long)
    ids[: 3 + 5 * number % 13] = 1 + number % 40
    return ids
loader = torch.utils.data.DataLoader([ids_of(number) for number in range(60)], 4)
widths, losses = [], []
for ids in loader:
    logits = net(ids).transpose(1, 2)
    loss = torch.nn.functional.cross_entropy(logits, ids, ignore_index=0)
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    widths.append(ids.shape[1]); losses.append("%.5f" % loss.item())
print("WIDTHS", widths, flush=True)
print("LOSSES", losses, flush=True)
"""
GIVEN = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
BY_THE_LAST = "by the last dry run"


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmLoops]:
    """Runs scripts in forks of a Python that has imported torch."""
    needs("torch")
    folder = Path(tempfile.mkdtemp())  # a socket's path is short
    loops = WarmLoops(folder, environment(**GIVEN))
    yield loops
    loops.end()
    shutil.rmtree(folder)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path)


def write(folder: Path, before: str = "") -> Path:
    path = folder / "train.py"
    path.write_text(LOOP.format(before=before))
    return path


class Ended:
    """A command that ended."""

    def __init__(self, code: int, printed: str, said: str) -> None:
        self.code, self.printed = code, printed
        self.said = " ".join(said.split())  # whose lines break anywhere

    def numbers(self, name: str) -> list[Any]:
        """What the script printed under a name in this run; the dry run prints elsewhere."""
        [line] = [line for line in self.printed.splitlines() if line.startswith(name)]
        return list(json.loads(line.removeprefix(name).replace("'", '"')))

    @property
    def is_cut(self) -> bool:
        return min(self.numbers("WIDTHS")) < 30


@pytest.fixture
def apply(tmp_path: Path, run: Run, warm: WarmLoops, capfd: Any) -> Any:
    """Runs a script in a fork, by `run --apply` in this process."""

    def start(script: Path, *options: object, **variables: str) -> Ended:
        capfd.readouterr()
        words = ["--apply", "-o", tmp_path / "run", *options, *warm.command(script)]
        ended = run("run", *words, **GIVEN, **variables, COLUMNS="200")
        printed = capfd.readouterr()
        return Ended(ended.returncode, printed.out, printed.err + ended.stderr)

    return start


def started(*words: object, cwd: Path, **variables: str) -> "subprocess.Popen[str]":
    """A command of its own process, with what it prints as text."""
    return subprocess.Popen(
        [sys.executable, "-m", "batchstat", "run", *map(str, words)],
        cwd=cwd,
        env=environment(**GIVEN, **variables, COLUMNS="200"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )


def ended_of(process: "subprocess.Popen[str]", given: str | None = None) -> Ended:
    printed, said = process.communicate(given, timeout=200)
    return Ended(process.returncode, printed, said)


def test_a_dry_run_holds_as_long_as_nothing_it_read_changes(script, apply):
    first, second = apply(script), apply(script)
    assert BY_THE_LAST not in first.said
    assert BY_THE_LAST in second.said
    assert first.is_cut
    assert second.printed == first.printed
    script.write_text(script.read_text() + "# another one\n")
    third = apply(script)
    assert BY_THE_LAST not in third.said
    assert third.printed == first.printed
    other = apply(script, "--pad-to-multiple-of", 8)
    assert BY_THE_LAST not in other.said
    assert {width % 8 for width in other.numbers("WIDTHS") if width < 30} == {0}
    assert other.numbers("LOSSES") == first.numbers("LOSSES")


def test_a_module_that_the_script_imports_is_one_of_its_files(tmp_path, apply):
    (tmp_path / "settings.py").write_text("SIZE = 1\n")
    script = write(tmp_path, "import settings")
    apply(script)
    assert BY_THE_LAST in apply(script).said
    (tmp_path / "settings.py").write_text("SIZE = 2\n")
    assert BY_THE_LAST not in apply(script).said


def test_a_dry_run_that_was_made_before_is_taken(script, apply):
    before = apply(script, "--dry-run")
    assert "the same command without --dry-run cuts its padding" in before.said
    assert "LOSSES" not in before.printed
    ended = apply(script)
    assert BY_THE_LAST in ended.said
    assert ended.is_cut


def test_another_world_size_is_another_training(script, apply):
    first = apply(script)
    other = apply(script, WORLD_SIZE="2", RANK="0")
    assert (
        "nothing is applied: the dry run had another number of ranks, 1: the next run" in other.said
    )
    assert not other.is_cut
    assert other.numbers("LOSSES") == first.numbers("LOSSES")
    assert apply(script, "--dry-run", WORLD_SIZE="2", RANK="0").code == 0


def test_a_script_that_fails_where_it_starts_first(tmp_path, apply):
    fails = "from pathlib import Path\nfile = Path(__file__).with_name('begun')\n"
    fails += "if not file.exists():\n    file.touch()\n    sys.exit('no such data')\n"
    ended = apply(write(tmp_path, fails))
    assert ended.code == 0
    output = tmp_path / "run" / "dry-run" / "output.txt"
    assert f"nothing is applied: the dry run ended with exit code 1: {output}" in ended.said
    assert "no such data" in output.read_text()
    assert not ended.is_cut
    assert apply(tmp_path / "train.py").is_cut


def test_a_command_that_never_trains(tmp_path, apply):
    script = tmp_path / "train.py"
    script.write_text("import torch, sys\nprint('WIDTHS [30]')\nsys.exit(3)")
    ended = apply(script)
    assert ended.code == 3
    assert not ended.is_cut
    assert "nothing is applied: the dry run ended with exit code 3" in ended.said
    script.write_text("import torch\nprint('WIDTHS [30]')")
    ended = apply(script)
    assert ended.code == 0
    assert not ended.is_cut
    assert "nothing is applied: no model was called with token ids" in ended.said


@pytest.mark.parametrize("option", ["--no-weights", "--dry-run --no-weights"])
def test_checks_need_weights(tmp_path, run, option):
    (tmp_path / "train.py").write_text("open('begun', 'w')")
    ended = run("run", "--apply", *option.split(), "train.py")
    assert ended.returncode == 2
    assert "--no-weights" in ended.stderr
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("words", ["--pad-to-multiple-of 8", "--apply --pad-to-multiple-of 0"])
def test_a_multiple_is_of_what_is_cut(tmp_path, run, words):
    (tmp_path / "train.py").write_text("open('begun', 'w')")
    ended = run("run", *words.split(), "train.py")
    assert ended.returncode == 2
    assert "pad-to-multiple-of" in ended.stderr.replace("_", "-")
    assert not (tmp_path / "begun").exists()


def test_a_pipe_is_read_once(tmp_path):
    needs("torch")
    write(tmp_path, "print(sys.stdin.read(), flush=True)")
    process = subprocess.Popen(
        [sys.executable, "-m", "batchstat", "run", "--apply", "train.py"],
        cwd=tmp_path,
        env=environment(**GIVEN, COLUMNS="200"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    ended = ended_of(process, "given to it")
    assert ended.code == 0
    assert "given to it" in ended.printed
    assert "nothing is applied: standard input is a pipe" in ended.said
    assert not ended.is_cut
    assert not (tmp_path / "batchstat-results" / "run" / "dry-run").exists()


WAITS = """
import os, signal, sys, time
print(os.getpid(), flush=True)
with open("begun", "a") as file:
    file.write("x")
try:
    time.sleep(60)
except KeyboardInterrupt:
    {ending}
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize(
    ("ending", "code"), [("raise", -signal.SIGINT), ("sys.exit(1)", 1), ("sys.exit()", None)]
)
def test_an_interrupt_of_the_dry_run_ends_both(tmp_path, ending, code):
    """Also of a script, or its launcher, that ends with a code of its own."""
    (tmp_path / "train.py").write_text(WAITS.format(ending=ending))
    process = started("--apply", "train.py", cwd=tmp_path)
    output = tmp_path / "batchstat-results" / "run" / "dry-run" / "output.txt"
    while not (output.exists() and output.read_text().endswith("\n")):
        assert process.poll() is None
        time.sleep(0.05)
    child = int(output.read_text())
    process.send_signal(signal.SIGINT)
    ended = ended_of(process)
    assert ended.code == (-signal.SIGINT if code is None else code)
    assert (tmp_path / "begun").read_text() == "x"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


@pytest.mark.slow
def test_several_nodes_take_a_dry_run_that_was_made_before(tmp_path):
    needs("torch")
    write(tmp_path)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node"]
    launcher += [1, "--rdzv-backend", "c10d", "--rdzv-id", "x"]
    launcher += ["--rdzv-endpoint", f"localhost:{free_port()}", "train.py"]

    def on_both(*options: str) -> list[Ended]:
        words = [*options, "--run-id", f"of {options}", "-o", "run", *launcher]
        nodes = [started(*words, cwd=tmp_path, RDZV="yes") for _ in range(2)]
        return [*map(ended_of, nodes)]

    for ended in on_both("--apply"):
        assert ended.code == 2
        assert "--dry-run --apply" in ended.said
    for ended in on_both("--dry-run", "--apply"):
        assert ended.code == 0, ended.said
        assert "the same command without --dry-run cuts its padding" in ended.said
    both = on_both("--apply")
    for ended in both:
        assert ended.code == 0, ended.said
        assert ended.is_cut
        assert BY_THE_LAST in ended.said
    assert both[0].numbers("WIDTHS") == both[1].numbers("WIDTHS")


def test_a_python_without_batchstat(tmp_path):
    """BATCHSTAT_TEST_PYTHON is one with torch, of 3.8 or later."""
    python = os.environ.get("BATCHSTAT_TEST_PYTHON")
    if not python:
        pytest.skip("BATCHSTAT_TEST_PYTHON names no Python")
    script = write(tmp_path, "print('PYTHON', list(sys.version_info[:2]))")
    without = {**environment(), "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}
    found = subprocess.run(
        [python, "-c", "import batchstat"],
        cwd=tmp_path,
        env=without,
        capture_output=True,
        check=False,
    )
    assert found.returncode == 1
    plain = subprocess.run([python, script], env=without, capture_output=True, encoding="utf-8")
    # The path of the command is that of the training, too: a link brings batchstat to one alone.
    process = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(ROOT), "run", "--apply", python, str(script)],
        cwd=tmp_path,
        env=without,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    ended = ended_of(process)
    assert ended.code == 0, ended.said
    assert ended.is_cut, ended.said
    before = Ended(plain.returncode, plain.stdout, plain.stderr)
    assert ended.numbers("LOSSES") == before.numbers("LOSSES")
    assert ended.numbers("PYTHON") == before.numbers("PYTHON")


STARTS = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from batchstat.cli.main import run
run()
"""
