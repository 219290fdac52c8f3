"""What scripts add to the tables and lines of a page: sorting, copying, saving."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from browser.conftest import KINDS, published
from browser.harness import Browser, Keys, Page

Report = Callable[[str], Path]

every_kind = pytest.mark.parametrize("kind", KINDS)

TABLE = "main > section:first-child > .scroll > table"


def rows_of(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.js(
        """
        const rows = document.querySelector(arguments[0]).tBodies[0].rows;
        return [...rows].map((row) => [...row.cells].map((cell) => cell.textContent));
        """,
        TABLE,
    )
    return found


def numbers_of(cells: list[str]) -> list[float] | None:
    """The numbers that cells show, each as it is written; None unless all hold one."""
    found = [re.search(r"-?[\d,]*\.?\d+", each) for each in cells]
    if not all(found):
        return None
    return [float(each[0].replace(",", "")) for each in found if each is not None]


def test_a_table_is_sorted_by_its_headings(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        before = rows_of(page)
        headings = page.texts(f"{TABLE} thead th")
        assert set(page.js(SORTS, TABLE)) == {"none"}
        for column in range(1, len(headings)):
            if numbers_of([row[column] for row in before]) is None:
                continue
            page.focus(f"{TABLE} th:nth-child({column + 1}) button")
            for key, direction in ((Keys.ENTER, "ascending"), (Keys.SPACE, "descending")):
                page.press(key)
                after = rows_of(page)
                assert sorted(after) == sorted(before)
                numbers = numbers_of([row[column] for row in after])
                assert numbers == sorted(numbers or [], reverse=direction == "descending")
                sorts = page.js(SORTS, TABLE)
                assert sorts.pop(column) == direction
                assert set(sorts) == {"none"}
        page.find(f"{TABLE} th:first-child button").click()
        names = [row[0].lstrip("★●!+† ") for row in rows_of(page)]
        assert names == sorted(names, key=str.casefold)


SORTS = """
const headings = document.querySelectorAll(`${arguments[0]} thead th`);
return [...headings].map((each) => each.ariaSort);
"""


@every_kind
def test_the_saved_file_is_the_published_document(
    browser: Browser, report: Report, tmp_path: Path, kind
):
    file = report(kind)
    with browser.page(file) as page:
        page.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        page.find("#save").click()
        saved = tmp_path / f"{kind}.json"
        page.wait("return true")
        for _ in range(200):
            if saved.exists() and saved.stat().st_size:
                break
            page.frame()
        assert json.loads(saved.read_text(encoding="utf-8")) == published(file)


@every_kind
def test_every_line_can_be_copied(browser: Browser, report: Report, kind):
    with browser.page(report(kind)) as page:
        page.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite"])
        buttons = page.driver.find_elements("css selector", "button.copy")
        lines = page.js("return document.querySelectorAll('pre').length")
        # A check says what to change in words.
        assert len(buttons) == lines
        assert lines or kind == "check"
        for button in buttons:
            button.click()
            page.wait("return arguments[0].textContent === 'Copied'", button)
            beside = page.js("return arguments[0].parentElement.querySelector('code')", button)
            assert beside.text == page.js("return navigator.clipboard.readText()").strip()
            assert beside.text


def test_a_line_is_selected_where_nothing_may_be_copied(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        page.js("""
          navigator.clipboard.writeText = () => Promise.reject(new Error("denied"));
          document.execCommand = () => false;
        """)
        button = page.find("button.copy")
        button.click()
        page.wait("return arguments[0].textContent !== 'Copy'", button)
        line = page.js(
            "return arguments[0].parentElement.querySelector('code').textContent", button
        )
        assert page.js("return String(getSelection())") == line
        assert "Ctrl" in button.text
