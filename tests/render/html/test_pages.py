"""The page as a file: what is embedded in it, what it may contain, and how commands write it."""

import base64
import hashlib
import json
import os
import re
import stat
import webbrowser
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.documents.check import check_document
from batchstat.errors import OptionError
from batchstat.gate.outcome import Check
from batchstat.render.html.page import shortened
from conftest import Run, write_jsonl

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "]]>",
    "<img src=x onerror=alert(1)>",
    "\"'&",
]


class Tags(HTMLParser):
    """What a browser finds in a page: elements, and the text between the tags of some."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.names: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.data: dict[str, str] = {}
        self.policy = ""
        self._into: list[str] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        given = dict(attrs)
        self.attributes |= set(given)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag == "style":
            self._into = self.styles
        elif tag == "script":
            self._into = self.scripts
            if given.get("type") == "application/json":
                self._into = []
                self._name = given["id"] or ""

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._into is not self.scripts and self._into is not None:
            self.data[self._name] = "".join(self._into)
        if tag in ("script", "style"):
            self._into = None


def profile_of(folder: Path, labels: list[str]) -> batchstat.Profile:
    records: list[dict[str, object]] = [
        {"text": "word " * (1 + 7 * i % 40), "label": label} for i, label in enumerate(labels)
    ]
    return batchstat.profile(write_jsonl(folder / "corpus.jsonl", records), label_column="label")


def pages_of(profile: batchstat.Profile) -> dict[str, str]:
    comparison = batchstat.compare(profile, tokens_per_batch=100)
    balance, buckets = batchstat.balance(profile), batchstat.find_buckets(profile)
    return {
        "profile": batchstat.to_html(profile),
        "compare": batchstat.to_html(comparison, profile),
        "balance": batchstat.to_html(balance, profile),
        "buckets": batchstat.to_html(buckets, profile),
    }


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return pages_of(profile_of(tmp_path_factory.mktemp("usual"), list("abcde") * 8))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return pages_of(profile_of(tmp_path_factory.mktemp("hostile"), HOSTILE * 8))


def test_the_policy_names_the_scripts_and_the_style(usual):
    for html in usual.values():
        found = Tags(html)
        digests = [
            f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'"
            for each in (*found.scripts, *found.styles)
        ]
        rules = dict(rule.split(" ", 1) for rule in found.policy.split("; "))
        assert rules["script-src"].split() + rules["style-src"].split() == digests
        others = {name: rules[name] for name in rules.keys() - {"script-src", "style-src"}}
        assert others == {
            "default-src": "'none'",
            "img-src": "data:",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        assert not re.search(r"unsafe|\*", found.policy)


def test_no_label_adds_an_element(usual, hostile):
    for kind, html in hostile.items():
        mine, others = Tags(html), Tags(usual[kind])
        assert mine.names == others.names
        assert mine.attributes == others.attributes
        assert not {each for each in mine.attributes if each.startswith("on") or each == "style"}
        assert not mine.names.keys() & {"img", "iframe", "object", "link", "base", "svg"}
        assert "</script>" not in "".join(mine.data.values())


def test_every_address_in_a_page_is_inside_it(usual):
    for html in usual.values():
        links = re.findall(
            r"""(?:href|src|action|data)\s*=\s*["']([^"']*)""", html.partition("<script")[0]
        )
        assert links
        assert all(each.startswith("#") for each in links)


def test_a_page_depends_on_its_result_alone(tmp_path: Path):
    def without_times(html: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\d(?:T[\d:.+Z]*)?", "", html)

    profile = profile_of(tmp_path, list("abcde") * 8)
    html = batchstat.to_html(profile)
    assert html == batchstat.to_html(profile)
    again = batchstat.to_html(batchstat.profile(tmp_path / "corpus.jsonl", label_column="label"))
    assert without_times(again) == without_times(html)


def test_what_has_no_page_is_named():
    with pytest.raises(OptionError, match="list has no page"):
        batchstat.to_html([1, 2, 3])


def test_of_many_classes_the_largest_are_embedded(tmp_path: Path):
    labels = [f"class {i}" for i in range(300)] + [f"class {i}" for i in range(290, 300)]
    html = batchstat.to_html(profile_of(tmp_path, labels))
    classes = json.loads(Tags(html).data["data-document"])["classes"]
    assert len(classes) == 200
    assert {f"class {i}" for i in range(290, 300)} <= {each["label"] for each in classes}
    assert "classes 100" in html.partition("<footer>")[2]


def test_of_many_limits_the_first_are_embedded(tmp_path: Path):
    check = batchstat.check(profile_of(tmp_path, ["a", "b"]), {"max-padding": "1%"})
    limits = [{**each, "name": str(i)} for i in range(300) for each in outcomes(check)]
    document, missing = shortened({"checks": [{"limits": limits}]})
    assert [each["name"] for each in document["checks"][0]["limits"]] == [*map(str, range(200))]
    assert missing == {"checks.limits": 100}


def outcomes(check: Check) -> list[dict[str, Any]]:
    """The limits of a check, as in check.json."""
    [only] = check_document([check], check.status, "")["checks"]
    limits: list[dict[str, Any]] = only["limits"]
    return limits


def test_a_long_label_does_not_fill_a_page(tmp_path: Path):
    html = batchstat.to_html(profile_of(tmp_path, ["long " * 100_000, "short"]))
    assert len(html) < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_100_000_lengths_in_order_fit_a_page(order):
    lengths = np.random.default_rng(0).integers(1, 60_000, 100_000)
    html = batchstat.to_html(batchstat.compare(lengths, order=order, strategies=["static"]))
    assert len(html.encode()) < 500_000


# ---- Commands ----------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    labels = list("aab") * 20
    return write_jsonl(
        tmp_path / "corpus.jsonl",
        [{"text": "word " * (1 + i % 30), "label": label} for i, label in enumerate(labels)],
    )


COMMANDS = {
    "profile": ("profile", "corpus.jsonl", "--label-column", "label"),
    "compare": ("compare", "corpus.jsonl", "--tokens-per-batch", 100),
    "balance": ("balance", "corpus.jsonl", "--label-column", "label"),
    "buckets": ("buckets", "corpus.jsonl"),
}


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.usefixtures("corpus")
def test_a_page_embeds_what_json_prints(run: Run, tmp_path: Path, kind):
    found = run(*COMMANDS[kind], "--json", "--no-plots", "--html", "page.html")
    assert found.returncode == 0, found.stderr
    assert "wrote page.html" in found.stderr
    data = Tags((tmp_path / "page.html").read_text(encoding="utf-8")).data
    assert json.loads(data["data-document"]) == json.loads(found.stdout)
    if kind != "profile":
        profile = json.loads((tmp_path / "batchstat-results/profile.json").read_text())
        assert json.loads(data["data-profile"]) == profile


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.usefixtures("corpus")
def test_a_page_does_not_change_what_is_printed(run: Run, kind):
    assert run(*COMMANDS[kind], "--no-plots").returncode == 0
    without = run(*COMMANDS[kind], "--no-plots")
    with_page = run(*COMMANDS[kind], "--no-plots", "--html", "page.html")
    assert with_page.stdout == without.stdout
    assert with_page.stderr.replace("wrote page.html\n", "") == without.stderr


@pytest.mark.usefixtures("corpus")
def test_a_check_writes_a_page(run: Run, tmp_path: Path):
    words = ("check", "corpus.jsonl", "--max-padding", "90%")
    found = run(*words, "--format", "json", "--format", "html=page.html")
    assert found.returncode == 0, found.stderr
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert json.loads(Tags(html).data["data-document"]) == json.loads(found.stdout)
    printed = run(*words, "--format", "html").stdout
    assert Tags(printed).names == Tags(html).names
    assert run(*words, "--format", "html", "--format", "json").returncode == 2


@pytest.mark.usefixtures("corpus")
def test_open_needs_a_page(run: Run):
    found = run("compare", "corpus.jsonl", "--open")
    assert (found.returncode, found.stdout) == (2, "")
    assert "--html FILE" in found.stderr


@pytest.mark.usefixtures("corpus")
def test_one_page_is_of_one_corpus(run: Run, tmp_path: Path):
    found = run("compare", "corpus.jsonl", "--each", "--html", "page.html")
    assert found.returncode == 2
    assert "--each" in found.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.usefixtures("corpus")
def test_a_page_that_cannot_be_written_is_one_line_before_any_work(run: Run, tmp_path: Path, kind):
    (tmp_path / "folder").mkdir()
    for place in ("folder", "corpus.jsonl/page.html"):
        found = run(*COMMANDS[kind], "--no-plots", "--html", place)
        assert (found.returncode, found.stdout) == (3, "")
        assert place.split("/")[0] in found.stderr
        assert found.stderr.count("\n") == 1
        assert not (tmp_path / "batchstat-results").exists()


@pytest.mark.usefixtures("corpus")
def test_a_page_is_written_whole_or_not_at_all(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = tmp_path / "page.html"
    page.write_text("an earlier page")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    monkeypatch.setattr(Path, "replace", fails)
    found = run("profile", "corpus.jsonl", "--no-plots", "--html", "page.html")
    assert found.returncode == 3
    assert page.read_text() == "an earlier page"


@pytest.fixture
def no_browsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the start of a process: what a command finds is looked up once."""
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})


def browser(folder: Path) -> Path:
    """A program that writes the address it is given to a file."""
    file = folder / "browser"
    file.write_text(f'#!/bin/sh\nprintf %s "$1" > "{folder / "opened"}"\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.mark.usefixtures("corpus", "no_browsers")
def test_open_shows_the_page_in_a_browser(run: Run, tmp_path: Path):
    program = browser(tmp_path)
    words = ("compare", "corpus.jsonl", "--no-plots", "--html", "my page.html", "--open")
    found = run(*words, BROWSER=f"{program} %s")
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "opened").read_text() == (tmp_path / "my page.html").resolve().as_uri()
    assert "browser" not in found.stderr


@pytest.mark.usefixtures("corpus", "no_browsers")
def test_without_a_browser_open_says_so(run: Run, tmp_path: Path):
    words = ("compare", "corpus.jsonl", "--no-plots", "--html", "page.html", "--open")
    found = run(*words, PATH=str(tmp_path), BROWSER=str(tmp_path / "none"))
    assert found.returncode == 0
    assert "no browser to open page.html with" in found.stderr
    assert (tmp_path / "page.html").exists()
