"""Names that could end a script, change the direction of text or fill a page; odd corpora."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import batchstat
from browser.harness import Browser, Page
from conftest import write_jsonl

Report = Callable[[str], Path]

NAMES = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "]]><svg onload=alert(1)>",
    "\"><script>alert(1)</script>' onfocus='alert(1)",
    "line\u2028paragraph\u2029end",
    "nul\x00bell\x07escape\x1b[31m",
    "right \u202e to left \u2066 marks \u200f",
    "\N{PILE OF POO}\N{ZERO WIDTH JOINER}\N{WOMAN}e\N{COMBINING ACUTE ACCENT}",
    "{{ 7 * 7 }} {% raw %} ${alert(1)}",
    "long " * 2_000,
    " ",
]


def written(folder: Path, html: str) -> Path:
    file = folder / "page.html"
    file.write_bytes(html.encode("utf-8", "backslashreplace"))
    assert file.stat().st_size < 500_000
    return file


def profile_of(folder: Path, lengths: list[int], labels: list[str]) -> batchstat.Profile:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = zip(lengths, labels, strict=True)
    records: list[dict[str, object]] = [
        {"text": "word " * length, "label": label} for length, label in pairs
    ]
    file = write_jsonl(folder / "corpus.jsonl", records)
    return batchstat.profile(file, label_column="label")


def check_page(page: Page) -> None:
    """Nothing is drawn with numbers that are none, and nothing is wider than a phone."""
    page.look(width=360)
    assert page.js("return document.documentElement.scrollWidth") <= 360
    assert "NaN" not in page.js("return document.body.innerText")
    broken = page.js("""
      const parts = [...document.querySelectorAll("svg, svg *")];
      return parts.flatMap((each) => [...each.attributes].map(({ value }) => value))
        .filter((value) => /NaN|undefined|Infinity/.test(value));
    """)
    assert broken == []
    assert page.js("""
      const boxes = document.querySelectorAll("[data-chart]");
      return [...boxes].every((each) => each.querySelector("svg, .chart-nothing") !== null);
    """)


@pytest.fixture
def tags(browser: Browser) -> Callable[[Path], dict[str, int]]:
    """Returns how many elements of each kind a page has that could carry a script."""

    def count(file: Path) -> dict[str, int]:
        with browser.page(file) as page:
            page.js("for (const each of document.querySelectorAll('[data-chart]')) each.remove()")
            found: dict[str, int] = page.js("""
              const found = {};
              const names = "script, img, iframe, svg, style";
              for (const { tagName } of document.querySelectorAll(names)) {
                found[tagName] = (found[tagName] ?? 0) + 1;
              }
              const handlers = [...document.querySelectorAll("*")].flatMap((each) =>
                [...each.attributes].filter(({ name }) => name.startsWith("on")));
              return { ...found, handlers: handlers.length };
            """)
        return found

    return count


@pytest.mark.parametrize("kind", ["profile", "compare", "balance"])
def test_names_are_text(browser: Browser, tags, tmp_path: Path, kind):
    pages = []
    for number, names in enumerate((NAMES, [f"class {i}" for i in range(len(NAMES))])):
        folder = tmp_path / str(number)
        labels = [name for i, name in enumerate(names) for _ in range(i + 1)]
        lengths = [3 + i % 17 for i in range(len(labels))]
        # A path may hold what would end a script, in two folders, and bytes that are no text.
        hostile = Path("a<", "script><script>alert(1)<", "script><!--\u202e\n\udcff")
        path = folder if number else folder / hostile
        profile = profile_of(path, lengths, labels)
        result: object = profile
        if kind == "compare":
            result = batchstat.compare(profile, tokens_per_batch=100)
        elif kind == "balance":
            result = batchstat.balance(profile, samplers=["none", "weighted-random"])
        html = batchstat.to_html(result, None if kind == "profile" else profile)
        pages.append(written(folder, html))
    hostile, usual = pages
    assert tags(hostile) == tags(usual)
    with browser.page(hostile) as page:
        check_page(page)
        own = json.loads(page.text("#data-profile" if kind != "profile" else "#data-document"))
        found = {each["label"] for each in own["classes"]}
        assert {"</script><script>alert(1)</script>", "<!--<script>", " "} <= found
        assert "</script>" in page.text("#classes")


def test_of_many_classes_the_largest_are_shown(browser: Browser, tmp_path: Path):
    labels = [f"class {i}" for i in range(100_000)] + [f"large {i % 5}" for i in range(50)]
    profile = profile_of(tmp_path, [2] * len(labels), labels)
    with browser.page(written(tmp_path, batchstat.to_html(profile))) as page:
        check_page(page)
        assert "99,805" in page.text("footer")
        assert "99,805" in page.text("#classes p.note")
        assert page.js("return document.querySelectorAll('#classes tbody tr').length") == 200
        rows = page.texts("#classes tbody th")
        assert {f"large {i}" for i in range(5)} <= set(rows)


@pytest.mark.parametrize(
    "lengths",
    [[7], [0, 5], [5] * 300, [1] * 300, [1, 10**9], [0] * 50 + [1], list(range(1, 3_000))],
    ids=["one", "none and some", "equal", "shortest", "far apart", "mostly none", "all different"],
)
def test_odd_lengths_make_a_good_page(browser: Browser, tmp_path: Path, lengths):
    comparison = batchstat.compare(
        lengths, batch_size=4, max_length=max(min(max(lengths), 4_096), 1)
    )
    with browser.page(written(tmp_path, batchstat.to_html(comparison))) as page:
        check_page(page)
        said = page.text("#what-if-summary")
        assert "padding" in said
        for strategy in ("static", "bucketed", "token-budget", "packed"):
            page.js(
                """
                const field = document.getElementById("what-if-strategy");
                field.value = arguments[0];
                field.dispatchEvent(new Event("input", { bubbles: true }));
                """,
                strategy,
            )
            page.frame()
            assert page.text("#what-if-summary").startswith(strategy)
            check_page(page)


@pytest.mark.parametrize("lengths", [[7], [5] * 300], ids=["one", "equal"])
def test_odd_corpora_make_good_pages(browser: Browser, tmp_path: Path, lengths):
    profile = profile_of(tmp_path, lengths, ["one"] * len(lengths))
    results = [profile, batchstat.balance(profile), batchstat.find_buckets(profile)]
    for result in results:
        html = batchstat.to_html(result, None if result is profile else profile)
        with browser.page(written(tmp_path, html)) as page:
            check_page(page)


def test_very_many_samples_make_a_good_page(browser: Browser, tmp_path: Path):
    drawn = np.random.default_rng(1).lognormal(5, 1, 10_000_000)
    lengths = np.clip(drawn, 1, 8_192).astype(np.int32)
    comparison = batchstat.compare(lengths, strategies=["static"], max_length=2_048)
    with browser.page(written(tmp_path, batchstat.to_html(comparison))) as page:
        check_page(page)
        assert "would have taken too long" in page.text("#what-if")


def test_very_many_strategies_make_a_good_page(browser: Browser, tmp_path: Path):
    specs = [f"bucketed:batch_size={i},read_ahead={1_000 * i}" for i in range(1, 61)]
    comparison = batchstat.compare(list(range(1, 400)), strategies=specs, tokens_per_batch=4_000)
    with browser.page(written(tmp_path, batchstat.to_html(comparison))) as page:
        check_page(page)
        assert (
            page.js("return document.querySelector('#result table').tBodies[0].rows.length") >= 60
        )


def test_a_very_long_sampler_makes_a_good_page(browser: Browser, tmp_path: Path):
    labels = [f"a quite long name of a class {i}" for i in range(80)]
    profile = profile_of(tmp_path, [5] * 80, labels)
    spec = f"weights={json.dumps(dict.fromkeys(labels, 2))}"
    report = batchstat.balance(profile, samplers=[spec])
    with browser.page(written(tmp_path, batchstat.to_html(report, profile))) as page:
        check_page(page)
