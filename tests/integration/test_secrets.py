"""A secret in an address, read from a server: it is in no file and on no screen."""

import gzip
import json
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

import batchstat
from batchstat.errors import BatchstatError
from batchstat.profiling.parquet import read_file
from conftest import needs

pytestmark = pytest.mark.cluster  # where what reads addresses is installed

CANARY = "S3CRETz"
ENCODED = "S3%43RETz"
KEYS = (
    *("key", "token", "code", "pwd", "jwt", "sas", "delegation", "session", "Policy", "sig"),
    *("X-Amz-Signature", "qqq", "k%65y", "a.b"),
)
TEXT = "".join(f"{'some words ' * (i % 7 + 1)}\n" for i in range(60)).encode()
FILES = {
    "/a.txt": TEXT,
    "/a.jsonl": b'{"text": "one two three", "y": "a"}\n{"text": "four five", "y": "b"}\n' * 20,
    "/cut.txt.gz": gzip.compress(TEXT)[:-9],
    "/not.txt.gz": TEXT,
    "/bad.jsonl": b'{"text": "one"}\n{"text": \n',
    "/bad.parquet": b"PAR1 no parquet PAR1",
    "/empty.txt": b"",
}


class Server(BaseHTTPRequestHandler):
    """Serves every file whatever the query; the content of /by depends on it, its etag does not."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        status = {"/401": 401, "/403": 403, "/500": 500}.get(path, 200)
        content = FILES.get(path.partition(";")[0])
        if path == "/by.txt":
            content = b"three words here\n" if query.endswith("=x") else b"now 4 words is 5\n"
        if content is None and status == 200:
            status = 404
        self.send_response(status)
        content = content if status == 200 and content is not None else self.path.encode()
        self.send_header("ETag", '"always the same"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    needs("aiohttp")
    needs("upath")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


class Place:
    """A folder with its cache, in which commands are run and nothing may be left of a secret."""

    def __init__(self, run, folder: Path) -> None:
        self._run, self.folder = run, folder

    def __call__(self, *arguments: object, status: int | None = 0) -> tuple[str, str]:
        cache = str(self.folder / "cache")
        done = self._run(*arguments, cwd=self.folder, BATCHSTAT_CACHE_DIR=cache, COLUMNS="1000")
        assert status is None or done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        self.check(done.stdout, done.stderr)
        return done.stdout, done.stderr

    def check(self, *texts: str, but: tuple[str, ...] = ()) -> None:
        files = [each for each in self.folder.rglob("*") if each.is_file() and each.name not in but]
        found = {each.name: each.read_bytes() for each in files}
        found |= {f"text {i}": text.encode() for i, text in enumerate(texts)}
        for name, content in found.items():
            assert CANARY.encode() not in content, name
            assert ENCODED.encode() not in content, name


@pytest.fixture
def place(run, tmp_path) -> Place:
    return Place(run, tmp_path)


def forms(host: str, name: str) -> list[str]:
    bare = f"{host}/{name}"
    return [
        *(f"http://{bare}?{key}={CANARY}" for key in KEYS),
        f"http://{CANARY}@{bare}",
        f"http://user:{CANARY}@{bare}",
        f"http://{ENCODED}:{ENCODED}@{bare}?{ENCODED}#{ENCODED}",
        f"http://{bare}#token={CANARY}",
        f"http://{bare}?{CANARY}",
        f"http://{bare}?versionId=1&x={ENCODED}",
        f"http://{bare};password={CANARY}",
    ]


def test_every_form_is_read_and_none_is_shown(place, host):
    for i, address in enumerate(forms(host, "a.txt")):
        out, _ = place("profile", address, "--no-plots", "--json", "-o", f"r{i}")
        (source,) = json.loads(out)["corpus"]["sources"]
        assert source["path"].startswith("http://")
        assert "…" in source["path"]
        assert json.loads(out)["corpus"]["samples"] == 60
    assert (place.folder / "cache" / "secret").stat().st_mode & 0o077 == 0


def test_every_command(place, host, tmp_path_factory):
    address = f"http://u:{CANARY}@{host}/a.jsonl?token={CANARY}#{CANARY}"
    how = ["--text-column", "text", "--label-column", "y"]
    out, _ = place("profile", address, *how, "--html", "p.html")
    assert "a.jsonl" in out
    out, error = place("compare", address, *how, "--html", "c.html", "--batch-size", "4")
    place("compare", "--no-plots", "--json", "--batch-size", "4")
    place("recipe")
    place("balance", address, *how, "--no-plots", "--html", "b.html")
    place("buckets", address, *how, "--no-plots")
    place("compare", "--each", address, f"http://{host}/a.jsonl?key={CANARY}", *how, "--no-plots")
    place("check", address, *how, "--max-padding", "99%", "--format", "junit=j.xml")
    place("check", address, *how, "--max-padding", "99%", "--format", "json=base.json")
    place("check", address, *how, "--base", "base.json", "--format", "markdown")
    place("init", address, *how)
    written = (place.folder / "batchstat.toml").read_text()
    assert f'corpus = "http://…@{host}/a.jsonl?…"  # put back what … leaves out\n' in written
    _, error = place("check", status=3)
    assert "was shortened when it was shown or stored" in error
    place("config")
    (place.folder / "batchstat.toml").unlink()
    own = tmp_path_factory.mktemp("own") / "batchstat.toml"
    own.write_text(f'corpus = "{address}"\ntext-column = "text"\n[limits]\nmax-padding = "99%"\n')
    for command in ("profile", "compare", "check", "config"):
        place(command, "--config", own)


@pytest.mark.parametrize(
    "name",
    ["none.txt", "401", "403", "500", "cut.txt.gz", "not.txt.gz", "bad.jsonl", "bad.parquet"],
)
def test_failures(place, host, name):
    for address in (f"http://u:{CANARY}@{host}/{name}?key={CANARY}", forms(host, name)[-1]):
        _, error = place("profile", address, "--no-plots", status=3)
        assert len(error.splitlines()) == 1
        place("profile", address, f"http://{host}/a.txt?k={CANARY}", "--allow-partial", status=None)
        with pytest.raises(BatchstatError) as caught:
            batchstat.profile(address)
        place.check(str(caught.value), repr(caught.value), repr(caught.value.__cause__))


def test_addresses_that_are_refused_and_options_that_name_an_address(place, host):
    there = (f"http://u:{CANARY}@{host}/a.jsonl?key={CANARY}", f"http://{host}/a?{CANARY}")
    for address in (
        *there,
        f"http://{CANARY}@127.0.0.1:9/f?key={CANARY}",
        f"http://{CANARY}@no.such.host.invalid/f?key={CANARY}",
        f"http://u:{CANARY}/{CANARY}@{host}/f",
        f"http://{host}/f?key={CANARY} {CANARY}",
        f"simplecache::http://{CANARY}@{host}/a.txt?key={CANARY}",
        f"zip://x?key={CANARY}",
        f"nonsense://{CANARY}@{host}/f?{CANARY}",
        f"http://{host}/*.txt?key={CANARY}",
        f"http://{CANARY}@{host}/*.txt",
        f"webhdfs://{CANARY}@127.0.0.1:9/f?delegation={CANARY}",
        f"ftp://u:{CANARY}@127.0.0.1:9/f",
        f"github://{CANARY}:{CANARY}@x/f",
        f"http://{host}/empty.txt?key={CANARY}",
        f"http:/{host}/a.txt?key={CANARY}",
    ):
        is_there = address in there
        place("profile", address, "--no-plots", status=None if is_there else 3)
        for option in ("--chat-template", "--count-cache", "-o"):
            code = 3 if is_there and option != "--chat-template" else None
            place("profile", f"http://{host}/a.txt", option, address, status=code)
        for option in ("--current", "--tokenizer", "--calibration", "--html"):
            place("compare", f"http://{host}/a.txt", option, address, "--no-plots", status=None)
        place("check", f"http://{host}/a.txt", "--base", address, status=None)
        place("measure", address, status=None)
        place("preflight", address, f"http://{host}/a.txt", status=None)
        place("compare", f"http://{host}/a.txt", "--sampler", f"weighted:{address}", status=None)
        place("compare", f"http://{host}/a.txt", "--strategy", address, "--no-plots", status=None)


def test_a_trainers_file_that_names_an_address(place, host, tmp_path_factory):
    own = tmp_path_factory.mktemp("own") / "trainer.yaml"
    own.write_text(
        "per_device_train_batch_size: 4\nmax_length: 16\ndataset_name: "
        f"http://{host}/a.jsonl?token={CANARY}\noutput_dir: http://u:{CANARY}@{host}/x?k={CANARY}\n"
    )
    corpus = f"http://{host}/a.jsonl?token={CANARY}"
    for extra in ([], [corpus, "--text-column", "text"]):
        place("preflight", own, *extra, "--no-plots", status=None)
        place("compare", "--current", own, *extra, "--no-plots", status=None)


def test_equal_shown_addresses_are_numbered_and_apart(place, host):
    """An etag of one address says nothing of another, nor do counts in the cache."""
    addresses = [f"http://{host}/by.txt?key={each}" for each in ("x", "y", "x")]
    shown = f"http://{host}/by.txt?…"
    for _ in range(2):
        place("profile", *addresses, "--no-plots")
        found = read_file(place.folder / "batchstat-results" / "lengths.parquet")
        paths = [source.path for source in found.corpus.sources]
        assert paths == [shown, f"{shown} (2)", shown]
        digests = [source.digest for source in found.corpus.sources]
        assert digests[0] == digests[2] != digests[1]
        assert found.lengths.tolist() == [3, 5, 3]


def test_another_query_is_another_identity(place, host):
    def profiled(key: str) -> list[int]:
        place("compare", f"http://{host}/by.txt?key={key}", "--no-plots")
        found = read_file(place.folder / "batchstat-results" / "lengths.parquet")
        return [*found.lengths.tolist(), found.created]

    first = profiled("x")
    assert profiled("x") == first  # reused
    other = profiled("y")
    assert other[0] == 5
    (place.folder / "cache" / "secret").unlink()
    from batchstat.storage import machine

    machine._secret_in.cache_clear()
    assert profiled("y")[1] != other[1]  # nothing is known again without the secret


def test_a_stored_profile_does_not_read_half_an_address(place, host):
    address = f"http://{host}/by.txt?key=x"
    place("profile", address, "--no-plots")
    _, error = place("compare", "--no-plots")
    assert "warning: " in error
    assert "cannot be checked for changes" in error
    stored = read_file(place.folder / "batchstat-results" / "lengths.parquet")
    with pytest.raises(BatchstatError, match="stored without what may be a secret"):
        batchstat.read_samples(stored)
    now = batchstat.profile(address)
    assert batchstat.read_samples(now) == [{"text": "three words here"}]


def test_the_library_warns_and_shows_without_it(place, host):
    address = f"http://{CANARY}@{host}/a.jsonl?key={CANARY}"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = batchstat.profile(address, text_column="text", executor="processes", workers=2)
        compared = batchstat.compare(found, strategies=["static"])
    texts = [repr(found), str(found), repr(found.corpus), repr(compared)]
    place.check(*texts, *(str(each.message) for each in said))
    assert unquote(ENCODED) == CANARY
