"""The what-if panel shows plans that were simulated for it, each with its command."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import SETTINGS, published
from browser.harness import Browser, Keys, Page
from conftest import Run
from html_panel import check_row

Report = Callable[[str], Path]

CHOICES = ("strategy", "size", "ranks")
OPTIONS = """
return [...document.getElementById(`what-if-${arguments[0]}`).options].map(({ value }) => value);
"""
CHOSEN = """
const table = document.getElementById("what-if-chosen");
const texts = (row) => [...row.cells].map((cell) => cell.textContent);
return [...table.tBodies[0].rows].map((row) =>
  Object.fromEntries(texts(row).map((text, i) => [texts(table.tHead.rows[0])[i], text])));
"""


def choose(page: Page, **wanted: str) -> None:
    """Choose from the lists as a user does."""
    for name, value in wanted.items():
        page.js(
            """
            const list = document.getElementById(`what-if-${arguments[0]}`);
            list.value = arguments[1];
            list.dispatchEvent(new Event("input", { bubbles: true }));
            """,
            name,
            value,
        )


def options(page: Page, name: str) -> list[str]:
    found: list[str] = page.js(OPTIONS, name)
    return found


def chosen(page: Page) -> dict[str, str]:
    """The cells of the chosen plan."""
    found: dict[str, str] = page.js(CHOSEN)[0]
    return found


def copied(page: Page) -> list[str]:
    """The words of the command that the panel gives, after `batchstat compare`."""
    program, command, *words = shlex.split(page.text("#what-if-command"))
    assert (program, command) == ("batchstat", "compare")
    return words


@pytest.fixture
def compare(run: Run, results: Path, report: Report, tmp_path: Path) -> Callable[..., Any]:
    """Returns what `batchstat compare` prints with --json, run on the profile of `report`."""
    report("profile")
    folder = tmp_path / "user"
    folder.mkdir()
    shutil.copy(results / "corpus.jsonl", folder)
    shutil.copytree(results / "batchstat-results", folder / "batchstat-results")

    def start(*arguments: object) -> Any:
        found = run("compare", *arguments, "--json", "--no-plots", cwd=folder)
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    return start


def test_it_begins_with_the_report_s_best_row(browser: Browser, report: Report):
    file = report("compare")
    document: dict[str, Any] = published(file)
    with browser.page(file) as page:
        check_row(chosen(page), document)
        assert chosen(page)["strategy"] == document["choice"]["best"]
        current = page.js(CHOSEN)[1]
        assert current["strategy"] == document["choice"]["current"]
        assert current["speed-up"] == "1.00x"
        words = " ".join(copied(page))
        pairs = zip(SETTINGS[::2], SETTINGS[1::2], strict=True)
        assert all(f"{flag} {value}" in words for flag, value in pairs)


def test_twelve_plans_are_what_their_commands_print(browser: Browser, report: Report, compare):
    seen = set()
    with browser.page(report("compare")) as page:
        for i, strategy in enumerate([*options(page, "strategy")] * 2):
            choose(page, strategy=strategy)
            sizes = options(page, "size")
            assert len(sizes) == 5
            choose(page, size=sizes[(2 * i + i // 5) % 5])
            choose(page, ranks=options(page, "ranks")[i % 3])
            words = copied(page)
            assert "--order file" in " ".join(words)
            check_row(chosen(page), compare(*words))
            seen.add(tuple(words))
    assert len(seen) == 12


def test_the_lists_have_what_was_simulated(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        document: dict[str, Any] = published(report("compare"))
        assert options(page, "strategy") == [row["label"] for row in document["strategies"]]
        assert options(page, "ranks") == ["1 rank", "2 ranks", "4 ranks"]
        own = [each for each in options(page, "size") if each.endswith("(now)")]
        assert own == ["batch_size 1 (now)"]
        choose(page, ranks="4 ranks", strategy="static")
        assert page.find("#what-if-ranks").get_property("value") == "4 ranks"
        assert page.find("#what-if-size").get_property("value").endswith("(now)")
        assert page.js("return document.querySelectorAll('#what-if-all tbody tr').length") == 90


def test_the_keyboard_chooses_and_the_choice_is_announced(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        before = page.text("#what-if-summary")
        page.focus("#what-if-strategy")
        page.press(Keys.HOME)
        assert page.find("#what-if-summary").get_attribute("role") == "status"
        assert page.text("#what-if-summary") != before
        said = page.text("#what-if-summary")
        cells = chosen(page)
        assert said.startswith(f"{cells['strategy']} on 2 ranks: {cells['padding']} padding, ")
        assert re.search(rf"{re.escape(cells['speed-up'])} as fast as static", said)


def test_without_scripts_all_plans_are_a_table(browser: Browser, report: Report):
    with browser.page(report("compare"), script=False) as page:
        page.js("document.querySelector('#what-if-all').open = true")
        assert (
            page.js("""
          return [...document.querySelectorAll("#what-if-all tbody tr")]
            .filter((each) => each.checkVisibility()).length
        """)
            == 90
        )


def test_on_a_real_corpus_in_file_order(browser: Browser, run: Run, real_data: Path, tmp_path):
    corpus = real_data / "wikitext-valid.raw"
    words = ("--order", "file", "--max-length", 512, "--current", "hf-trainer", "--world-size", 4)
    found = run("compare", corpus, *words, "--json", "--no-plots", "--html", "page.html")
    assert found.returncode == 0, found.stderr
    file = tmp_path / "page.html"
    assert file.stat().st_size < 500_000
    with browser.page(file) as page:
        for strategy in options(page, "strategy"):
            choose(page, strategy=strategy)
            choose(page, size=options(page, "size")[1], ranks="8 ranks")
            again = run("compare", *copied(page), "--json", "--no-plots")
            check_row(chosen(page), json.loads(again.stdout))
