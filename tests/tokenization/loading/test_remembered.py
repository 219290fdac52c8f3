"""A tokenizer that is remembered is the one that would be loaded, whatever has happened since."""

import json
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from test_digest import CHAT, CTRL, FAST, MUTATIONS, TEXTS, found, write

from batchstat.corpus.chat import NO_INPUTS
from batchstat.corpus.content import Chats, Texts
from batchstat.tokenization.chats.chat import with_chat_template
from batchstat.tokenization.loading import load, remembered
from batchstat.tokenization.loading.load import load_tokenizer, recalled
from conftest import environment
from tables import in_turn

OF_CHATS = FAST | {"chat_template.jinja": "{{ messages[0].content }}"}
ONE = Texts(pa.array(TEXTS, pa.large_string()))


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """The folder in which tokenizers are remembered."""
    folder = tmp_path / "kept"
    monkeypatch.setenv("BATCHSTAT_CACHE_DIR", str(folder))
    return folder


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{remembered.ENDING}"))


def facts(folder: Path) -> object:
    loaded = load_tokenizer(str(folder))
    special = loaded.special_tokens_per_sample, loaded.special_tokens_per_pair
    return found(folder), loaded.max_length, *special, loaded.library, loaded.name


@in_turn("name", MUTATIONS)
def test_what_changes_in_a_folder_is_seen(kept, tmp_path, monkeypatch, name):
    folder = write(tmp_path / "tokenizer", FAST)
    before = facts(folder)
    assert facts(folder) == before
    write(folder, MUTATIONS[name])
    assert recalled(str(folder)) is None
    loaded = facts(folder)
    assert recalled(str(folder)) is not None
    assert facts(folder) == loaded
    with monkeypatch.context() as nowhere:
        nowhere.setenv("BATCHSTAT_CACHE_DIR", os.devnull)
        assert facts(folder) == loaded
    assert len(entries(kept)) >= 2


@pytest.mark.usefixtures("kept")
def test_threads_that_count_the_first_chats_load_it_once(tmp_path, monkeypatch):
    folder = str(write(tmp_path / "tokenizer", OF_CHATS))
    chats = Chats([[{"role": "user", "content": text}] for text in TEXTS], [NO_INPUTS] * len(TEXTS))
    expected = with_chat_template(load_tokenizer(folder), None).count(chats).tokens.tolist()
    loaded = []
    auto_tokenizer = load._auto_tokenizer

    def slow(name: str) -> object:
        loaded.append(name)
        time.sleep(0.2)
        return auto_tokenizer(name)

    monkeypatch.setattr(load, "_auto_tokenizer", slow)
    known = recalled(folder)
    assert known is not None
    prepared = with_chat_template(known, None)
    assert loaded == []
    with ThreadPoolExecutor(8) as pool:
        counted = list(pool.map(lambda _: prepared.count(chats).tokens.tolist(), range(8)))
    assert counted == [expected] * 8
    assert loaded == [folder]


def test_chats_whose_counts_are_cached_import_no_transformers(tmp_path):
    """Their template, which decides the digest of the counts, is remembered, too."""
    folder = write(tmp_path / "tokenizer", OF_CHATS)
    chats = [json.dumps({"messages": [{"role": "user", "content": text}]}) for text in TEXTS]
    (tmp_path / "chats.jsonl").write_text("\n".join(chats))
    words = ["check", "chats.jsonl", "--messages-column", "messages", "--max-padding", "100%"]
    program = (
        "import atexit, sys\n"
        "from batchstat.cli.main import run\n"
        "atexit.register(lambda: print('transformers' in sys.modules))\n"
        f"sys.argv[1:] = {[*words, '--tokenizer', str(folder)]}\n"
        "run()\n"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=environment(BATCHSTAT_CACHE_DIR=str(tmp_path / "kept")),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert [lines[-1] for lines in shown] == ["True", "False"]
    assert shown[0][:-1] == shown[1][:-1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.data())
def test_a_damaged_entry_is_not_used(kept, tmp_path, data):
    folder = write(tmp_path / "tokenizer", FAST)
    digest = load_tokenizer(str(folder)).digest
    [entry] = entries(kept)
    whole = entry.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    damaged = data.draw(
        st.sampled_from([whole[:place], whole[:place] + bytes([other]) + whole[place + 1 :]])
    )
    entry.write_bytes(damaged)
    assert recalled(str(folder)) is None
    assert load_tokenizer(str(folder)).digest == digest
    assert entry.read_bytes() == whole


@pytest.mark.usefixtures("kept")
@in_turn("size", [3_000_000, 5])
def test_what_lies_beside_a_tokenizer_is_read_only_if_it_is_small(tmp_path, size):
    """Weights and data may have gigabytes: of these, the size and the time of change are taken."""
    folder = write(tmp_path / "tokenizer", FAST | {"shard.bin": b"a" * size})
    load_tokenizer(str(folder))
    assert recalled(str(folder)) is not None
    stamp = (folder / "shard.bin").stat()
    write(folder, {"shard.bin": b"b" * size})
    os.utime(folder / "shard.bin", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert (recalled(str(folder)) is not None) == (size > 1 << 20)
    os.utime(folder / "shard.bin", ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert recalled(str(folder)) is None


def test_one_written_in_python_is_loaded_each_time(kept, tmp_path):
    load_tokenizer(str(write(tmp_path / "tokenizer", CTRL)))
    assert entries(kept) == []


@pytest.mark.usefixtures("kept")
def test_other_versions_have_other_entries(tmp_path, monkeypatch):
    folder = write(tmp_path / "tokenizer", FAST)
    load_tokenizer(str(folder))
    assert recalled(str(folder)) is not None
    monkeypatch.setattr(remembered, "_versions", lambda: ("tokenizers 99",))
    assert recalled(str(folder)) is None


@pytest.mark.usefixtures("kept")
@in_turn("is_chat", [False, True])
def test_another_process_gets_it_without_its_folder(tmp_path, is_chat):
    """What transformers makes of the folder goes along if it was made, and is not needed if not."""
    folder = write(tmp_path / "tokenizer", FAST)
    for _ in range(2):
        tokenizer = load_tokenizer(str(folder))
        content = Chats([CHAT], [NO_INPUTS]) if is_chat else ONE
        tokenizer = with_chat_template(tokenizer, None) if is_chat else tokenizer
    assert "from_known" in str(load_tokenizer(str(folder)).made_by)
    counts = tokenizer.count(content).tokens.tolist()
    pickled = pickle.dumps(tokenizer)
    folder.rename(tmp_path / "gone")
    again = pickle.loads(pickled)  # noqa: S301 - it is our own
    assert again.count(content).tokens.tolist() == counts
    assert again.digest == tokenizer.digest


class _Hub(BaseHTTPRequestHandler):
    """Says which commit a repository has now."""

    commit = ""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "1")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@in_turn("is_online", [False, True])
def test_a_name_on_the_hub_is_remembered_by_its_commit(kept, tmp_path, is_online):
    repository = tmp_path / "hub" / "models--some-org--model"
    first, then = "0" * 40, "1" * 40
    for commit, files in ((first, FAST), (then, FAST | MUTATIONS["split"])):
        config = {"config.json": {"model_type": "ctrl"}}
        write(repository / "snapshots" / commit, files | config)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    hub = {"HF_HUB_CACHE": str(tmp_path / "hub"), "BATCHSTAT_CACHE_DIR": str(kept)}
    online = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    program = (
        "import sys, pyarrow as pa\n"
        "from batchstat.corpus.content import Texts\n"
        "from batchstat.tokenization.loading.load import load_tokenizer, recalled\n"
        "load = recalled if sys.argv[1] == 'recalled' else load_tokenizer\n"
        "found = load('some-org/model')\n"
        "texts = Texts(pa.array(['hello world'], pa.large_string()))\n"
        "print(found and (found.count(texts), found.digest)[1], 'transformers' in sys.modules)\n"
    )

    def started(how: str, **extra: str) -> list[str]:
        command = [sys.executable, "-c", program, how]
        env = environment(**hub, **extra)
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return ended.stdout.split()

    now = online if is_online else {}
    write(repository, {"refs/main": first})
    _Hub.commit = first
    assert started("recalled", **now) == ["None", "False"]
    digest, _ = started("loaded")
    assert started("recalled", **now) == [digest, "False"]
    write(repository, {"refs/main": then})
    _Hub.commit = then
    assert started("recalled", **now) == ["None", "False"]
    other, _ = started("loaded")
    assert other != digest
    assert started("recalled", **now) == [other, "False"]
    server.shutdown()
    server.server_close()


def test_no_cache_neither_reads_nor_writes_one(tmp_path, run):
    folder = write(tmp_path / "tokenizer", FAST)
    (tmp_path / "corpus.txt").write_text("\n".join(["hello world"] * 9))
    kept = tmp_path / "kept"
    profile = ["profile", "corpus.txt", "--tokenizer", folder, "--no-plots", "--json"]

    def tokens(*flags: str) -> str:
        return run(*profile, *flags, BATCHSTAT_CACHE_DIR=str(kept)).stdout

    tokens("--no-cache")
    assert not kept.exists()
    tokens()
    [entry] = entries(kept)
    # An entry of which the digest is right, and nothing else.
    digest_of_lie = remembered._digest(b"{}", b"no tokenizer")
    entry.write_bytes(digest_of_lie + b"\n{}\nno tokenizer")
    assert '"samples": 9' in tokens("--no-cache")
