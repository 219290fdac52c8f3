"""Axe finds nothing that bars a reader from a page."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from browser.conftest import KINDS
from browser.harness import Browser, Page

Report = Callable[[str], Path]

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

RUN = """
const options = { runOnly: { type: "tag", values: arguments[0] }, resultTypes: ["violations"] };
return axe.run(document, options).then(({ violations, passes }) => ({
  passed: passes.length,
  found: violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
    `${id}: ${target.join(" ")}: ${failureSummary.replace(/\\s+/g, " ")}`)),
}));
"""


@cache
def axe() -> str:
    """The script; the test is skipped without it, or fails where BATCHSTAT_TEST_ALL is set."""
    path = os.environ.get("BATCHSTAT_AXE")
    if path is None and not os.environ.get("BATCHSTAT_TEST_ALL"):
        pytest.skip("BATCHSTAT_AXE names no axe.min.js")
    assert path is not None, "BATCHSTAT_AXE names no axe.min.js"
    return Path(path).read_text(encoding="utf-8")


def violations(page: Page) -> list[str]:
    page.js(axe() + "; window.axe = axe;")
    result = page.js(RUN, TAGS)
    assert result["passed"] > 10
    found: list[str] = result["found"]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_a_page_has_no_violation(browser: Browser, report: Report, kind, scheme, width):
    with browser.page(report(kind), width=width, scheme=scheme) as page:
        page.js("for (const each of document.querySelectorAll('details')) each.open = true")
        page.frame()
        assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_a_reader_adds_to_a_page_has_no_violation(
    browser: Browser, report: Report, scheme, tmp_path: Path
):
    file = report("compare")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}", encoding="utf-8")
    with browser.page(file, scheme=scheme) as page:
        page.find("#other-file").send_keys(str(file.with_suffix(".json")))
        page.wait("return document.querySelector('#other-result table') !== null")
        page.js("""
          const field = document.getElementById("what-if-strategy");
          field.value = "static";
          field.dispatchEvent(new Event("input", { bubbles: true }));
        """)
        page.focus("[data-chart] .mark")
        page.frame()
        assert violations(page) == []
        page.find("#other-file").send_keys(str(wrong))
        page.wait("return document.getElementById('other-error').textContent !== ''")
        assert violations(page) == []
