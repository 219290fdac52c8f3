"""The results folder: all of its files are about one profile, whatever ended the run before."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import batchstat
from batchstat.cli import profiles
from batchstat.cli.main import app
from batchstat.errors import BatchstatError, InputError
from batchstat.render.plots.balance import balance_plots
from batchstat.render.plots.buckets import bucket_plots
from batchstat.render.plots.comparison import comparison_plots
from batchstat.render.plots.profile import profile_plots
from batchstat.render.plots.ranks import rank_plots
from batchstat.storage import results
from batchstat.storage.result_files import (
    PLOT_FORMATS,
    WRITTEN_TOGETHER,
    outdated_files,
    plot_file,
)
from batchstat.storage.results import only_writer, write_files
from batchstat.trainers.buckets import find_buckets
from conftest import environment, needs

PROFILE = {"profile.json", "lengths.parquet"}
CORPUS = "text,label\n" + "some words,a\nmore words than that,b\n" * 30
OTHER = "text,label\n" + "other words,a\n" * 40 + "and again other words,b\n"


@dataclass
class Ended:
    code: int
    errors: str


@pytest.fixture
def start(tmp_path: Path, monkeypatch) -> Callable[..., Ended]:
    """Runs a command in this process, which is quicker than a new one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BATCHSTAT_CACHE_DIR", str(tmp_path / ".cache"))

    def started(*arguments: object) -> Ended:
        ended = CliRunner().invoke(app, [str(each) for each in arguments])
        if isinstance(ended.exception, BatchstatError):
            return Ended(ended.exception.exit_code, str(ended.exception))
        assert ended.exception is None or ended.exit_code, ended.exception
        return Ended(ended.exit_code, ended.stderr)

    return started


def files(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.parts[0] != ".cache"}


def put(folder: Path, names: dict[str, bytes], remove: set[str] | None = None) -> None:
    with only_writer(folder):
        write_files(
            folder, names, remove=outdated_files(folder, names) if remove is None else remove
        )


def stale(folder: Path) -> set[str]:
    """Files that are not about the profile that is there."""
    profile = json.loads((folder / "profile.json").read_bytes())
    found = set()
    for name in ("compare.json", "balance.json", "buckets.json"):
        path = folder / name
        if path.exists():
            made = json.loads(path.read_bytes())
            known = [each["digest"] for each in profile["corpus"]["sources"]]
            if [each["digest"] for each in made["corpus"]["sources"]] != known:
                found.add(name)
    return found


def test_every_file_that_is_written_is_known(tmp_path):
    (tmp_path / "a.csv").write_text(CORPUS)
    made = batchstat.profile(tmp_path / "a.csv", label_column="label")
    compared = batchstat.compare(made, tokens_per_batch=64, world_size=2)
    for head, plots in {
        "lengths.parquet": profile_plots(made),
        "compare.json": comparison_plots(compared) | rank_plots(compared),
        "balance.json": balance_plots(batchstat.balance(made)),
        "buckets.json": bucket_plots(find_buckets(made, buckets=2)),
    }.items():
        known = {name for name in WRITTEN_TOGETHER[head] if name.startswith("plots/")}
        assert {plot_file(name, each) for name in plots for each in PLOT_FORMATS} == known


@pytest.mark.slow
def test_results_of_another_profile_do_not_stay(start, tmp_path):
    folder = tmp_path / "batchstat-results"
    (tmp_path / "a.csv").write_text(CORPUS)
    (tmp_path / "b.csv").write_text(OTHER)
    labelled = ["--label-column", "label"]
    assert start("compare", "a.csv", *labelled, "--world-size", 2).code == 0
    assert start("balance", "--no-plots").code == start("buckets", "--buckets", 1).code == 0
    (tmp_path / "trainer.json").write_text('{"seed": 1}')
    assert start("preflight", "trainer.json", "a.csv", *labelled).code == 0
    assert {head for head in WRITTEN_TOGETHER if (folder / head).exists()} == {*WRITTEN_TOGETHER}
    own = {"plan.parquet", "notes.txt", "plots/mine.png", "compare.json.bak"}
    for name in own:
        (folder / name).write_bytes(b"the user's")
    whole = files(folder)
    # The same profile again: what stands there is still about it.
    assert start("profile", "a.csv", *labelled).code == 0
    assert files(folder) == whole
    # Fewer pictures of the same command: none of earlier settings stays.
    assert start("compare").code == 0
    assert files(folder) == whole - {"plots/ranks.png"}
    # Other options, and another corpus.
    for arguments in (["a.csv", *labelled, "--min-chars", 11], ["b.csv"], ["a.csv"]):
        assert start("compare", "--no-plots").code == 0
        assert start("profile", *arguments, "--no-plots").code == 0
        assert files(folder) == PROFILE | own
    # A corpus that compare counts itself.
    assert start("balance", "a.csv", *labelled, "--no-plots").code == 0
    assert start("compare", "b.csv", "--no-plots").code == 0
    assert files(folder) == PROFILE | own | {"compare.json"}
    assert not stale(folder)


def test_a_run_whose_profile_was_replaced_meanwhile_writes_its_own(start, tmp_path, monkeypatch):
    """`compare` began on one corpus, and ends after `profile` of another: the last one wins."""
    (tmp_path / "a.csv").write_text(CORPUS)
    (tmp_path / "b.csv").write_text(OTHER)
    assert start("profile", "a.csv", "--no-plots").code == 0
    found = profiles.find_profile

    def then_replaced(*arguments):
        result = found(*arguments)
        monkeypatch.setattr(profiles, "find_profile", found)
        assert start("compare", "b.csv", "--no-plots").code == 0
        return result

    for arguments in ([], ["a.csv"]):
        assert start("profile", "a.csv", "--no-plots").code == 0
        monkeypatch.setattr(profiles, "find_profile", then_replaced)
        assert start("compare", "--no-plots", *arguments).code == 0
        folder = tmp_path / "batchstat-results"
        sources = json.loads((folder / "profile.json").read_bytes())["corpus"]["sources"]
        assert [each["path"] for each in sources] == ["a.csv"]
        assert files(folder) == PROFILE | {"compare.json"}
        assert not stale(folder)


def steps_of(folder: Path, monkeypatch, names: dict[str, bytes]) -> list[dict[str, bytes]]:
    """What is in the folder after each change while files are put in place."""
    seen = []

    def watch(do):
        def watched(*arguments):
            do(*arguments)
            seen.append({name: (folder / name).read_bytes() for name in files(folder)})

        return watched

    monkeypatch.setattr(results, "_remove", watch(results._remove))
    monkeypatch.setattr(results, "move", watch(results.move))
    put(folder, names)
    monkeypatch.undo()
    return seen


def all_of(corpus: str) -> dict[str, bytes]:
    """Every known file, as of a corpus."""
    every = set().union(*WRITTEN_TOGETHER.values())
    text = json.dumps({"created": "now", "corpus": corpus}).encode()
    return {name: text if name == "profile.json" else corpus.encode() for name in every}


@pytest.mark.parametrize("written", [{"compare.json", "plots/padding.png"}, set()])
def test_whatever_ends_a_run_no_two_files_are_about_different_profiles(
    tmp_path, monkeypatch, written
):
    put(tmp_path, all_of("old"), set())
    new = {name: content for name, content in all_of("new").items() if name in PROFILE | written}
    seen = steps_of(tmp_path, monkeypatch, new)
    assert len(seen) > 10
    for state in seen:
        known = {name: content for name, content in state.items() if not name.endswith(".tmp")}
        corpora = {b"new" if b"new" in content else b"old" for content in known.values()}
        assert len(corpora) == 1, known
    assert files(tmp_path) == PROFILE | written


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_killed_run_leaves_nothing_that_the_next_does_not_clear(tmp_path):
    """Killed between any two changes: what is left is of one profile, and is put right."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from batchstat.storage import result_files, results\n"
        "steps, move, remove = int(sys.argv[2]), results.move, results._remove\n"
        "def counted(do):\n"
        "    def change(*arguments):\n"
        "        global steps\n"
        "        if steps == 0:\n"
        "            os.kill(os.getpid(), 9)\n"
        "        steps -= 1\n"
        "        do(*arguments)\n"
        "    return change\n"
        "results.move, results._remove = counted(move), counted(remove)\n"
        "new = dict.fromkeys(('profile.json', 'lengths.parquet', 'compare.json'), b'new')\n"
        "folder = Path(sys.argv[1])\n"
        "with results.only_writer(folder):\n"
        "    results.write_files(folder, new, remove=result_files.outdated_files(folder, new))\n"
    )
    for steps in (0, 14, 15):
        folder = tmp_path / f"after {steps}"
        put(folder, all_of("old"), set())
        command = [sys.executable, "-c", code, str(folder), str(steps)]
        killed = subprocess.run(command, env=environment(), check=False)
        assert killed.returncode == -signal.SIGKILL
        assert any(name.endswith(".tmp") for name in files(folder))
        kept = {n: (folder / n).read_bytes() for n in files(folder) if not n.endswith(".tmp")}
        assert len({b"new" in content for content in kept.values()}) == 1
        put(folder, {"compare.json": b"later"})
        assert not any(name.endswith(".tmp") for name in files(folder))


def test_runs_at_the_same_time_leave_the_files_of_one(tmp_path):
    def write(corpus: str) -> None:
        for _ in range(10):
            put(tmp_path, all_of(corpus))

    threads = [threading.Thread(target=write, args=(str(i),)) for i in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        # Signals are of the main thread, and are not what is tried here.
        patch.setattr(signal, "signal", lambda *_: None)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = {(tmp_path / name).read_bytes() for name in files(tmp_path) - {"profile.json"}}
    [corpus] = found
    assert all_of(corpus.decode()) == {
        name: (tmp_path / name).read_bytes() for name in files(tmp_path)
    }


def test_at_an_address_too(start, tmp_path):
    needs("upath")
    (tmp_path / "a.csv").write_text(CORPUS)
    (tmp_path / "b.csv").write_text(OTHER)
    folder = tmp_path / "results"
    address = f"file://{folder.as_posix()}"
    assert start("profile", "a.csv", "-o", address).code == 0
    assert start("compare", "-o", address, "--no-plots").code == 0
    assert files(folder) == PROFILE | {"plots/lengths.png", "compare.json"}
    assert start("profile", "b.csv", "-o", address, "--no-plots").code == 0
    assert files(folder) == PROFILE
    (folder / "compare.json").mkdir()
    refused = start("compare", "-o", address)
    assert refused.code == 3
    assert "compare.json cannot be written: it is a folder" in refused.errors
    assert files(folder) == PROFILE


@pytest.mark.skipif(os.name == "nt", reason="POSIX names and links")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"batchstat-results": None}, "batchstat-results is not a folder"),
        ({"batchstat-results/plots": None}, "batchstat-results/plots"),
        ({"batchstat-results/compare.json/": None}, "compare.json cannot be written: it is a f"),
        ({"batchstat-results/plots/padding.png/": None}, "padding.png cannot be written: it is a"),
        ({"batchstat-results": "nowhere"}, "batchstat-results cannot be written"),
        ({"batchstat-results/plots": "nowhere"}, "batchstat-results"),
    ],
)
def test_what_stands_in_the_way_is_named_and_nothing_is_changed(start, tmp_path, made, message):
    (tmp_path / "a.csv").write_text(CORPUS)
    for name, target in made.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target is not None:
            path.symlink_to(target)
        elif name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.write_text("the user's")
    before = files(tmp_path)
    refused = start("compare", "a.csv")
    assert refused.code == 3
    assert not (tmp_path / ".cache").exists()  # nothing was counted for nothing
    assert message in refused.errors
    assert "\n" not in refused.errors
    assert files(tmp_path) == before


@pytest.mark.skipif(os.name == "nt", reason="POSIX names and links")
def test_folders_of_any_name(start, tmp_path):
    (tmp_path / "a.csv").write_text(CORPUS)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    names = ["with spaces", "[red]x[/b]", "ünï 🦉", "-dash", "a\nb", "n" * 255, "deep/" * 20 + "x"]
    for name in [*names, "link"]:
        made = start("profile", "a.csv", "-o", name, "--no-plots")
        assert made.code == 0, made.errors
        assert files(tmp_path / name) == PROFILE
        assert len(made.errors.splitlines()) == 1
    assert (tmp_path / "link").is_symlink()
    too_long = start("profile", "a.csv", "-o", "n" * 256)
    assert too_long.code == 3
    assert "File name too long" in too_long.errors
    for command in ("compare", "recipe", "buckets"):
        too_long = start(command, "-o", "n" * 256)
        assert too_long.code == 3
        assert "File name too long" in too_long.errors


def test_a_failing_writer_leaves_the_folder_as_it_was(tmp_path):
    def breaks(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    put(tmp_path / "new", {"compare.json": b"old"})
    with pytest.raises(InputError, match="No space left on device"):
        put(tmp_path / "new", {"compare.json": b"new", "plots/padding.png": breaks})
    assert files(tmp_path) == {"new/compare.json"}
    assert (tmp_path / "new" / "compare.json").read_bytes() == b"old"
    with pytest.raises(InputError):
        put(tmp_path / "other" / "deep", {"compare.json": breaks})
    assert not (tmp_path / "other").exists()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["compare.json"]
