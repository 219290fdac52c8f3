"""Errors: a problem and a remedy, on one line each, without what may be a secret."""

import ast
import copy
import inspect
import json
import pickle
import re
import string
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from batchstat import errors
from batchstat.corpus.files.sources import Source
from batchstat.documents.schema import schema
from batchstat.errors import BatchstatError, InputError
from batchstat.hidden_secrets import is_shortened, shown_address, without_secrets
from batchstat.storage.shown import Address, as_shown, full_address, one_line
from package_trees import PACKAGE, tree_of
from tables import in_turn

CANARY = "S3CRET"
SHOWN = {
    f"http://{CANARY}@h/f": "http://…@h/f",
    f"http://u:{CANARY}@h:80/f.jsonl?key={CANARY}#{CANARY}": "http://…@h:80/f.jsonl?…",
    f"HTTP://h/f?{CANARY}": "HTTP://h/f?…",
    f"https://h/f#token={CANARY}": "https://h/f#…",
    f"https://h/f;password={CANARY}": "https://h/f;…",
    f"https://h/f?versionId=a.b&key={CANARY}": "https://h/f?versionId=a.b&…",
    f"https://h/f?format=json;key={CANARY}": "https://h/f?…",
    f"https://h/f?%6bey={CANARY}": "https://h/f?…",
    f"sftp://u:{CANARY}/{CANARY}@h/f": "sftp://…@h/f",
    f"sftp://u:{CANARY}?{CANARY}@h/f": "sftp://…@h/f",
    f"sftp://u:{CANARY}@{CANARY}:12@h/f": "sftp://…@h/f",
    f"http://u%3A{CANARY}@h/f": "http://…@h/f",
    f"http://u:x@{CANARY}/@h/f": "http://…@h/f",
    f"http://u:x{CANARY}::y@h/f": "http://…@…",
    f"zip://a.csv::http://u:{CANARY}@h/f": "zip://a.csv::http://…@h/f",
    f"s3://bucket/f?token={CANARY}": "s3://bucket/f?…",
    f"abfs://u:{CANARY}@h/f": "abfs://…@h/f",
    f"blockcache::http://{CANARY}@h/f": "blockcache::http://…@h/f",
    f"zip://*.txt::http://u:{CANARY}@h/f": "zip://*.txt::http://…@h/f",
    f"http://h/f?key=a::{CANARY}": "http://h/f?…::…",
    f"http://u:a::{CANARY}@h/f": "http://…@…",
    f"http:/h/f?key={CANARY}": "http:/h/f?…",
}
WHOLE = [
    *("s3://bucket/part-?.jsonl", "s3://bucket/C#/a@b;c.txt", "s3://b/year=2024/x-?/*.parquet"),
    *("gs://bucket/a.txt#123", "hf://datasets/a/b@main/x.parquet", "http://h:80/a@b"),
    *("https://h/f?versionId=3sL4.x", "https://h/f?revision=main&format=csv", "http://h:80"),
    *("abfs://container@account.dfs.core.windows.net/f", "file:///a?b=c", "C:/a?b=c", "a@b?c=d"),
]


def test_a_value_longer_than_a_screen_is_cut_in_a_message():
    assert str(InputError(f"n={'9' * 5_000}: must be 1")) == f"n={'9' * 78}… must be 1"
    assert str(InputError(f"{'a' * 300} is missing")) == f"{'a' * 300} is missing"


@in_turn("address", SHOWN)
def test_a_secret_in_an_address_is_not_shown(address):
    shown = shown_address(address)
    assert shown == SHOWN[address]
    assert shown_address(shown) == shown
    assert "::" in shown or ":///" in shown or "http:/h" in shown or is_shortened(shown)


@in_turn("address", WHOLE)
def test_patterns_names_and_versions_are_shown(address):
    """`?`, `#`, `;` and `@` stand in names of objects; a container is no user."""
    assert shown_address(address) == address
    assert as_shown(address) is address
    assert not is_shortened(address)


SIGNS = string.ascii_letters + string.digits + "-._~%!$&()*+,;=:"


@given(
    st.sampled_from(["http", "https", "ftp", "sftp", "webhdfs", "s3", "gs", "abfs", "x+y"]),
    st.text(SIGNS + "/?@", max_size=9),
    st.text(SIGNS + "/?", max_size=9),
    st.text(SIGNS + "&", max_size=9),
)
def test_a_canary_anywhere_but_in_the_name(scheme, before, after, key):
    """In a password, in the value of any key of a query, and after it."""
    secrets = [
        f"{scheme}://u:x{before}{CANARY}{after}@host/name.txt",
        f"{scheme}://host/name.txt?k{key}={CANARY}{after}",
        f"{scheme}://host/name.txt?a=b&{key}={before}{CANARY}#{after}",
    ]
    for address in secrets:
        address = address.replace("%", "%25")
        assert CANARY not in shown_address(address)
        assert CANARY not in without_secrets(f"it's at {address}")
        assert CANARY not in str(InputError(f"{address}: no"))


def test_an_address_is_shown_whatever_it_goes_to():
    address = Address(f"https://u:{CANARY}@h/f?key={CANARY}", 2)
    source = Source(address, 1, "", "txt")
    texts = [f"{address}", address + "/x", repr(source), json.dumps(asdict(source)), str(address)]
    assert not any(CANARY in text for text in texts)
    for same in (pickle.loads(pickle.dumps(source)), copy.deepcopy(source)):  # noqa: S301
        assert same == source
        assert full_address(same.path) == f"https://u:{CANARY}@h/f?key={CANARY}"
        assert same.path == "https://…@h/f?… (2)"


def test_what_an_exception_repeats_is_not_shown():
    """A file system may repeat parts of an address, as they are written or as they are meant."""
    Address("ftp://some%40one:open%2Fsesame@h/f?a=un+said&token=t")
    said = {
        "530 some@one has no password open/sesame": "530 … has no password …",
        "some%40one open%2Fsesame un+said un said t token": "… … … … t token",
        "Max retries exceeded with url: /v1/f?op=A&user.name=me": (
            "Max retries exceeded with url: /v1/f?…"
        ),
        f"403, url='https://u:{CANARY}@h/a?X-Goog-Signature={CANARY}&b=2'": (
            "403, url='https://…@h/a?…'"
        ),
        "no s3://bucket/a?.txt there": "no s3://bucket/a?… there",
    }
    for text, shown in said.items():
        assert one_line(OSError(text)) == shown


KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, BatchstatError) and kind is not BatchstatError
]


@in_turn("kind", KINDS)
def test_every_error_is_what_it_was_in_another_process(kind):
    error = kind("x=1 is wrong", "set x=2")
    assert str(error) == "x=1 is wrong: set x=2"
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert (type(same), same.problem, same.remedy) == (kind, error.problem, error.remedy)
    placed = error.at("here")
    assert (type(placed), str(placed)) == (kind, "here: x=1 is wrong: set x=2")
    assert str(kind("x=1 is wrong", "")) == "x=1 is wrong"


def test_the_document_has_the_id_of_every_error():
    ids = schema("error")["properties"]["error"]["properties"]["id"]["enum"]
    assert sorted(ids) == sorted({kind.id for kind in KINDS})


VERBS = "add choose give leave lower name pass raise remove rerun run save set use write"
REMEDY_IN_PROBLEM = re.compile(rf"[:;] (?:{'|'.join(VERBS.split())}|must) ")
NAMES = {"BatchstatError", *(kind.__name__ for kind in KINDS)}


def problems(path: Path) -> Iterator[str]:
    """The texts of what is wrong, with … for the values in them."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in NAMES and node.args:
            parts = getattr(node.args[0], "values", [node.args[0]])
            texts = [str(each.value) if isinstance(each, ast.Constant) else "…" for each in parts]
            yield "".join(texts)


def test_a_remedy_stands_apart_from_its_problem():
    together = {
        path.relative_to(PACKAGE).as_posix(): [
            text for text in problems(path) if REMEDY_IN_PROBLEM.search(text)
        ]
        for path in PACKAGE.rglob("*.py")
    }
    assert {path: texts for path, texts in together.items() if texts} == {}
