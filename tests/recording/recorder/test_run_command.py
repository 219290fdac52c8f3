"""`batchstat run` as a command: what is started, how it ends, and what is said of it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from batchstat.recording.launch import INJECT
from conftest import environment
from written import batch, begin, step, write

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
@pytest.mark.parametrize("is_of_all", [True, False])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGQUIT", "SIGKILL", "SIGUSR1"])
def test_a_command_that_a_signal_ends(tmp_path, name, is_of_all):
    """Sent to batchstat alone, which passes it on, or to all processes, as a terminal does."""
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
    if name == "SIGKILL":  # nobody can pass it on
        os.kill(child, number)
    elif is_of_all and name in ("SIGINT", "SIGQUIT"):
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == -number
    assert f"the command was ended by signal {number:d}" in error


COUNTS = """
import signal, time
count = []
signal.signal(signal.SIGINT, lambda *_: count.append(1))
print("ready", flush=True)
for _ in range(40): time.sleep(0.05)
print(len(count))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="terminals are those of POSIX")
def test_a_key_of_a_terminal_reaches_a_command_once(tmp_path):
    import pty

    script(tmp_path, COUNTS)
    child, terminal = pty.fork()
    if not child:
        os.chdir(tmp_path)
        os.environ.update(environment())
        command = [sys.executable, "-m", "batchstat", "run", "train.py"]
        os.execv(sys.executable, command)  # noqa: S606
    shown = b""
    while b"ready" not in shown:
        shown += os.read(terminal, 1024)
    os.write(terminal, b"\x03")  # Ctrl-C
    with suppress(OSError):  # its end
        while more := os.read(terminal, 1024):
            shown += more
    assert os.waitpid(child, 0)[1] == 0
    # The terminal may echo the key before the line ends.
    assert re.search(rb"ready(\^C)?\r\n(\^C)?1\r\n", shown)
    assert b"no process imported torch" in shown


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
    assert "batchstat-results/run: the folder of the recording is gone: the command deleted" in said
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


ROWS = '{"text": "mine"}\n' * 3
OWN = ("data.jsonl", "metrics.jsonl", "00000-of-00010.jsonl", "notes/00000-a-1.jsonl")
"""Files that a user may have beside a recording."""


def earlier(folder: Path, run_id: str = "a", **facts: object) -> Path:
    """A recording of `train.py`, and the user's own files beside it."""
    folder.mkdir(exist_ok=True)
    write(folder, [begin() | {"id": run_id}, batch(0, 3), step(0)], **{"id": run_id, **facts})
    [path] = folder.glob("00000-host-0.jsonl")
    path.write_text(path.read_text().replace(": ", ":").replace(", ", ","))  # as it is recorded
    for name in ("preflight.json", "processes.jsonl"):
        (folder / name).write_text("{}\n")
    (folder / "notes").mkdir(exist_ok=True)
    for name in OWN:
        (folder / name).write_text(ROWS)
    return folder


@pytest.mark.parametrize("folder", ["mine", "batchstat-results/run", "."])
def test_a_second_run_replaces_its_recording_and_nothing_else(cli, tmp_path, folder):
    script(tmp_path, "")
    (tmp_path / "batchstat-results").mkdir()
    path = earlier(tmp_path / folder)
    named = () if folder.startswith("batchstat") else ("-o", folder)
    for _ in range(2):
        code, _, said = cli("run", *named, "train.py")
        assert (code, "no process imported torch" in said) == (0, True)
    assert json.loads((path / "run.json").read_text())["id"] != "a"
    assert not [*path.glob("00000-host-*"), *path.glob("preflight.json")]
    assert {(path / name).read_text() for name in OWN} == {ROWS}


def test_the_recording_of_another_command_is_named_and_left_alone(cli, tmp_path):
    script(tmp_path, "")
    path = earlier(tmp_path / "mine", command=["train.py", "--lr", "1", "--token", "S3cret"])
    before = {each: each.read_bytes() for each in path.glob("*.*")}
    code, _, error = cli("run", "-o", "mine", "train.py", "--lr", "2")
    assert code == 3
    assert "mine: holds the recording of another run, train.py --lr 1 --token '…': name" in error
    assert "delete mine/run.json" in error
    assert {each: each.read_bytes() for each in path.glob("*.*")} == before
    (path / "run.json").unlink()
    assert cli("run", "-o", "mine", "train.py", "--lr", "2")[0] == 0
    # That run recorded nothing, and blocks nothing.
    assert cli("run", "-o", "mine", "train.py", "--lr", "3")[0] == 0
    (path / "run.json").write_text('{"mine": 1}')
    code, _, error = cli("run", "-o", "mine", "train.py", "--lr", "3")
    assert (code, (path / "run.json").read_text()) == (3, '{"mine": 1}')


def test_nodes_of_one_run_share_a_folder(cli, tmp_path):
    """Also where it holds an earlier recording of the command, which the first node replaces."""
    script(tmp_path, "")
    path = earlier(tmp_path / "shared")
    assert cli("run", "-o", "shared", "--run-id", "b", "train.py")[0] == 0
    facts = (path / "run.json").read_text()
    (path / "00001-other-1.jsonl").write_text(json.dumps(begin(1, 2) | {"id": "b"}) + "\n")
    assert cli("run", "-o", "shared", "--run-id", "b", "train.py")[0] == 0
    assert (path / "run.json").read_text() == facts
    assert [each.name for each in path.glob("0*-*-*[!0].jsonl")] == ["00001-other-1.jsonl"]


def test_own_files_of_a_folder_are_not_read(cli, tmp_path):
    path = earlier(tmp_path / "mine")
    (path / "data.jsonl").unlink()
    (path / "data.jsonl").mkdir()  # to read it would fail
    assert cli("measure", path)[0] == 0


def test_files_are_for_their_owner_alone(cli, tmp_path):
    script(tmp_path, "")
    cli("run", "train.py")
    files = [each for each in (tmp_path / "batchstat-results/run").iterdir() if each.is_file()]
    assert {each.name for each in files} == {"run.json", "processes.jsonl"}
    if os.name != "nt":
        assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert b"key" not in b"".join(each.read_bytes() for each in files)
