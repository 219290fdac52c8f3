"""Another report beside the page's own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import KINDS, published
from browser.harness import Browser, Page
from conftest import Run

Report = Callable[[str], Path]

CELLS = """
return [...document.querySelectorAll("#other-result tbody tr")].map((row) =>
  [...row.cells].map((cell) => cell.textContent.trim()));
"""

NUMBERS = {
    "padding": "padding_ratio",
    "steps": "steps",
    "batches": "batches",
    "total tokens": "total_tokens",
}
"""Names on the page, and in compare.json."""


def choose(page: Page, file: Path) -> None:
    page.find("#other-file").send_keys(str(file))
    page.frame()
    page.wait("""
      return document.getElementById("other-error").textContent !== ""
        || document.querySelector("#other-result table") !== null;
    """)


def drop(page: Page, file: Path) -> None:
    page.js(
        """
        const dropped = new DataTransfer();
        dropped.items.add(new File([arguments[0]], arguments[1]));
        for (const kind of ["dragover", "drop"]) {
          const options = { dataTransfer: dropped, bubbles: true, cancelable: true };
          document.body.dispatchEvent(new DragEvent(kind, options));
        }
        """,
        file.read_text(encoding="utf-8"),
        file.name,
    )
    page.wait("return document.querySelector('#other-result table') !== null")


@pytest.fixture
def other(run: Run, results: Path, report: Report) -> Path:
    """compare.json of the same corpus with other settings and one more strategy."""
    report("compare")
    words = ("--tokens-per-batch", 2048, "--order", "file", "--max-length", 100)
    wanted = ("--strategy", "static", "--strategy", "bucketed", "--strategy", "fixed")
    found = run("compare", *words, *wanted, "--json", "--no-plots", cwd=results)
    assert found.returncode == 0, found.stderr
    file = results / "other.json"
    file.write_text(found.stdout, encoding="utf-8")
    return file


def number(text: str) -> float:
    return float(text.split()[0].strip("%x+<>").replace(",", "").replace("−", "-"))


def rows_by_label(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["label"]: row for row in document["strategies"]}


@pytest.mark.parametrize("give", [choose, drop])
def test_both_are_shown_with_their_differences(browser: Browser, report: Report, other: Path, give):
    file = report("compare")
    ours, theirs = rows_by_label(published(file)), rows_by_label(json.loads(other.read_text()))
    assert len(ours.keys() & theirs.keys()) >= 2
    with browser.page(file) as page:
        give(page, other)
        assert page.text("#other-error") == ""
        assert "other.json" in page.text("#other-result")
        assert "2,048" in page.text("#other-result")
        found = page.js(CELLS)
        assert {row[0] for row in found} == ours.keys() | theirs.keys()
        checked = 0
        for label, name, here, there, difference in found:
            if name not in NUMBERS:
                continue
            key, scale = NUMBERS[name], 100 if name == "padding" else 1
            values = [rows.get(label, {}).get(key) for rows in (ours, theirs)]
            for text, value in zip((here, there), values, strict=True):
                if value is None:
                    assert text == "-"
                else:
                    assert number(text) == pytest.approx(scale * value, abs=0.0051)
            if None in values:
                assert difference == "-"
                continue
            change = scale * (values[1] - values[0])
            checked += 1
            if change == 0:
                assert difference == "same"
            else:
                assert number(difference) == pytest.approx(change, abs=0.0051)
                assert difference.startswith("+") == (change > 0)
            if name == "padding" and change:
                assert difference.endswith("better" if change < 0 else "worse")
        assert checked >= 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_does_not_differ_from_itself(browser: Browser, report: Report, kind):
    file = report(kind)
    with browser.page(file) as page:
        choose(page, file.with_suffix(".json"))
        assert page.text("#other-error") == ""
        found = page.js(CELLS)
        assert found
        assert {row[-1] for row in found} <= {"same", "-"}
        assert all(row[2] == row[3] for row in found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.json", ""),
        ("words.json", "some words"),
        ("null.json", "null"),
        ("number.json", "3"),
        ("list.json", "[]"),
        ("two.json", '[{"schema": "batchstat.compare/1"}, {"schema": "batchstat.compare/1"}]'),
        ("another.json", '{"schema": "batchstat.profile/1"}'),
        ("bare.json", '{"schema": "batchstat.compare/1"}'),
        ("wrong.json", '{"schema": "batchstat.compare/1", "strategies": [{"label": 3}, null]}'),
        ("<b>bold<b>.json", '{"schema": "<img src=x onerror=alert(1)>"}'),
    ],
)
def test_what_is_no_such_report_is_named_in_one_line(
    browser: Browser, report: Report, tmp_path: Path, name, text
):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with browser.page(report("compare")) as page:
        images = page.js("return document.images.length")
        choose(page, file)
        said = page.text("#other-error")
        assert said.startswith(name)
        assert "\n" not in said
        assert "undefined" not in said
        assert page.text("#other-result") == ""
        assert page.js("return document.images.length") == images


def test_a_good_report_after_a_wrong_one_is_shown(
    browser: Browser, report: Report, other: Path, tmp_path: Path
):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{", encoding="utf-8")
    with browser.page(report("compare")) as page:
        choose(page, wrong)
        assert page.text("#other-error")
        choose(page, other)
        assert page.text("#other-error") == ""
        assert page.js(CELLS)
