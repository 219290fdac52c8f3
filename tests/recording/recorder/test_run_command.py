"""`batchstat run` as a command: what is started, how it ends, and what is said of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from batchstat.recording.launch import INJECT
from conftest import environment

LINE = """
import os, sys
print(sys.argv, sys.path, os.path.basename(__file__), sys.stdin.read(), flush=True)
"""


def start(*arguments: object, cwd: Path, stdin: str = "", **extra: str):
    """Run a command line with an input; a folder of its own keeps what it records."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(**extra),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def recorded(*command: object, cwd: Path, stdin: str = ""):
    return start("-m", "batchstat", "run", *command, cwd=cwd, stdin=stdin)


@pytest.fixture
def run_here(cli, capfd) -> Callable[..., tuple[int, str, str]]:
    """Runs `batchstat run` in this process, and what it trains with in one of its own: the exit
    code, what was printed by that, and what batchstat said beside it.
    """

    def start(*command: object) -> tuple[int, str, str]:
        code, own, said = cli("run", *command)
        printed = capfd.readouterr()
        assert own == ""
        return code, printed.out, printed.err + said

    return start


def script(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("code", [0, 1, 7])
def test_a_command_ends_with_its_own_exit_code(tmp_path, run_here, code):
    script(tmp_path, f"import sys; print('on'); sys.exit({code})")
    ended, printed, said = run_here("train.py")
    assert (ended, printed) == (code, "on\n")
    assert "nothing was recorded: no process imported torch" in said
    assert (f"the command ended with exit code {code}" in said) == bool(code)


@pytest.mark.slow
def test_a_command_sees_itself_as_it_is(tmp_path):
    script(tmp_path, LINE)
    plain = start("train.py", "--lr", "1", "-o", "x", cwd=tmp_path, stdin="given")
    ended = recorded("train.py", "--lr", "1", "-o", "x", cwd=tmp_path, stdin="given")
    assert ended.stdout == plain.stdout
    assert "given" in plain.stdout
    module = recorded("--", sys.executable, "-m", "train", "a", cwd=tmp_path, stdin="given")
    assert module.stdout == start("-m", "train", "a", cwd=tmp_path, stdin="given").stdout


@pytest.mark.slow
def test_what_a_crash_prints_is_unchanged(tmp_path):
    script(tmp_path, "def f():\n    raise ValueError('x')\nf()\n")
    plain, ended = start("train.py", cwd=tmp_path), recorded("train.py", cwd=tmp_path)
    assert plain.returncode == ended.returncode == 1
    assert ended.stderr.startswith(plain.stderr)
    assert "the command ended with exit code 1" in ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL", "SIGUSR1"])
def test_a_command_that_a_signal_ends(tmp_path, name):
    number = getattr(signal, name)
    script(
        tmp_path,
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(60)\n",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "batchstat", "run", "train.py"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    if name == "SIGINT":  # as a terminal does, to both
        os.killpg(process.pid, number)
    elif name == "SIGKILL":  # nobody can pass it on
        os.kill(child, number)
    else:
        process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == -number
    assert f"the command was ended by signal {number:d}" in error


@pytest.mark.parametrize("flag", ["-E", "-I", "-S"])
def test_a_python_that_cannot_be_recorded_is_said(tmp_path, run_here, flag):
    script(tmp_path, "print('on')")
    ended, printed, said = run_here("--", sys.executable, flag, "train.py")
    assert (ended, printed) == (0, "on\n")
    assert "no Python that reads PYTHONPATH was started: python -S, -E and -I" in said
    assert "padding" not in said


def test_a_script_that_sets_the_path_of_its_own_child(tmp_path, run_here):
    script(tmp_path, "print('child')", "child.py")
    script(
        tmp_path,
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, 'child.py'], env={**os.environ, 'PYTHONPATH': ''})\n",
    )
    _, printed, said = run_here("train.py")
    assert printed == "child\n"
    assert "no process imported torch" in said


@pytest.mark.slow
@pytest.mark.parametrize("text", ["print('own'); import sys; sys.own = 1", "1 / 0"])
def test_another_sitecustomize_runs_as_without(tmp_path, text):
    (tmp_path / "site").mkdir()
    script(tmp_path / "site", text, "sitecustomize.py")
    body = "import sys, sitecustomize; print(getattr(sys, 'own', 0), sitecustomize.__file__)"
    script(tmp_path, body)
    extra = {"PYTHONPATH": str(tmp_path / "site")}
    plain = start("train.py", cwd=tmp_path, **extra)
    # Of batchstat's own process, which has it too, nothing is compared.
    ended = start(
        "-c",
        "import os, sys\n"
        "from batchstat.recording.launch import run_command\n"
        "from batchstat.recording.recorder.orders import Orders\n"
        "folder = os.path.abspath('.')\n"
        "sys.exit(run_command([sys.executable, 'train.py'], Orders(folder, 'x', b'key'),"
        f" {{**os.environ, 'PYTHONPATH': {extra['PYTHONPATH']!r}}}))",
        cwd=tmp_path,
    )
    assert ended.stdout == plain.stdout
    assert ended.returncode == plain.returncode
    assert ("ZeroDivisionError" in ended.stderr) == ("ZeroDivisionError" in plain.stderr)


def test_a_folder_that_is_taken_away_changes_no_exit_code(tmp_path, run_here):
    script(tmp_path, "import shutil, sys; shutil.rmtree('batchstat-results'); sys.exit(3)")
    ended, _, said = run_here("train.py")
    assert ended == 3
    assert "batchstat-results/run: no recording" in said
    assert "Traceback" not in said


def test_the_path_of_a_command_is_its_own(tmp_path, run_here):
    script(tmp_path, "import sys; print([each for each in sys.path if 'inject' in each])")
    assert run_here("train.py")[1] == "[]\n"
    assert INJECT.name == "inject"


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ([], "error: no command: write what you train with, as batchstat run train.py", 2),
        (["absent.py"], "error: no such file: absent.py", 3),
        (["absent"], "error: absent: no such command: name a script, or a program on the path", 3),
        (
            ["--stepz", "3", "train.py"],
            "unknown option '--stepz' of batchstat run: did you mean",
            2,
        ),
        (["--steps", "0", "train.py"], "steps", 2),
        (["--steps", "few", "train.py"], "--steps", 2),
        (["--no-weights", "train.py"], "error: --no-weights is for --dry-run alone", 2),
        (["-o", "train.py/run", "train.py"], "error: cannot write to train.py/run: ", 3),
        (["torchrun.py", "--nnodes", "2", "x.py"], "several nodes without an id of the run", 2),
        (["torchrun.py", "--nnodes=1:4", "x.py"], "pass --run-id NAME, the same on all", 2),
    ],
)
def test_what_is_wrong_is_one_line(cli, tmp_path, arguments, message, code):
    for name in ("train.py", "torchrun.py"):
        script(tmp_path, "print('on')", name)
    ended, out, error = cli("run", *arguments)
    assert out == ""
    assert message in error
    assert len(error.splitlines()) == 1
    assert ended == code


def test_the_folder_of_another_run_is_left_alone(cli, tmp_path):
    script(tmp_path, "")
    assert cli("run", "-o", "mine", "train.py")[0] == 0
    code, _, error = cli("run", "-o", "mine", "train.py")
    assert code == 3
    assert "mine: holds the recording of another run: name another folder with -o" in error
    # Several nodes with one id share a folder; the default one is replaced.
    for _ in range(2):
        assert cli("run", "-o", "shared", "--run-id", "a", "train.py")[0] == 0
        assert cli("run", "train.py")[0] == 0
    code, _, error = cli("run", "-o", "shared", "--run-id", "b", "train.py")
    assert code == 3


def test_files_are_for_their_owner_alone(cli, tmp_path):
    script(tmp_path, "")
    cli("run", "train.py")
    files = [each for each in (tmp_path / "batchstat-results/run").iterdir() if each.is_file()]
    assert {each.name for each in files} == {"run.json", "processes.jsonl"}
    if os.name != "nt":
        assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert b"key" not in b"".join(each.read_bytes() for each in files)
