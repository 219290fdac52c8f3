"""What holds for the page of every command: it loads nothing, and it reads everywhere."""

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from browser.conftest import KINDS
from browser.harness import Browser, Keys

Report = Callable[[str], Path]

every_kind = pytest.mark.parametrize("kind", KINDS)

CHARTS = {
    "profile": {"lengths", "classes"},
    "compare": {"padding", "batches", "tradeoff", "readAhead", "ranks", "lengths", "classes"},
    "balance": {"samplers", "coverage", "lengths", "classes"},
    "buckets": {"buckets", "rules", "lengths", "classes"},
    "check": {"lengths"},
}

A4 = 718
"""Pixels across a sheet of paper, between margins of 1 cm."""

SEEN = """
const seen = (each) => each.checkVisibility({ visibilityProperty: true });
return [...document.querySelectorAll(arguments[0])].filter(seen).length;
"""


@every_kind
def test_a_page_says_what_the_terminal_says(browser: Browser, report: Report, kind):
    with browser.page(report(kind)) as page:
        subject = "default" if kind == "check" else "corpus.jsonl"
        assert page.driver.title == f"batchstat {kind}: {subject}"
        assert page.text("h1") == subject
        assert page.texts("main > section > h2")[0] == "Result"
        assert page.texts("main > section:first-child > :is(p, .code)")
        for anchor in page.js(
            "return [...document.querySelectorAll('nav a')].map((each) => each.hash)"
        ):
            assert page.js("return document.querySelectorAll(arguments[0]).length", anchor) == 1
        ids = page.js("return [...document.querySelectorAll('[id]')].map((each) => each.id)")
        assert len(ids) == len(set(ids))


@every_kind
@pytest.mark.parametrize("width", [1000, 360])
def test_every_chart_is_drawn_beside_a_table(browser: Browser, report: Report, kind, width):
    with browser.page(report(kind), width=width) as page:
        charts = page.js("""
          return [...document.querySelectorAll("[data-chart]")].map((each) => ({
            name: each.dataset.chart,
            drawings: each.querySelectorAll("svg").length,
            tables: each.closest("section").querySelectorAll("table").length,
          }))
        """)
        assert {each["name"] for each in charts} == CHARTS[kind]
        assert all(each["drawings"] and each["tables"] for each in charts)
        broken = page.js(r"""
          const found = [];
          for (const each of document.querySelectorAll("svg, svg *")) {
            for (const { name, value } of each.attributes) {
              if (/NaN|undefined|Infinity|null|object Object/.test(value)) {
                found.push(`${each.tagName} ${name}=${value}`);
              }
            }
          }
          return found;
        """)
        assert broken == []
        words = page.js("return document.querySelector('main').innerText")
        assert not re.findall(r"\b(?:NaN|undefined|Infinity|\[object)\b", words)


def test_the_policy_stops_scripts_that_are_not_the_page_s_own(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        page.js("""
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          const button = document.createElement("button");
          button.setAttribute("onclick", "window.ran = true");
          document.body.append(button);
          button.click();
          const image = document.createElement("img");
          image.src = "other.png";
          document.body.append(image);
          // Code of a debugger, such as this, may call eval; the page's own may not.
          setTimeout(() => {
            try {
              eval("window.ran = true");
            } catch (error) {
              window.caught = error.name;
            }
          });
        """)
        page.wait("return window.caught === 'EvalError'")
        assert page.js("return window.ran ?? null") is None
        found = page.noted()
        assert all(each.startswith("policy: ") for each in found)
        assert {each.split()[1] for each in found} == {
            *("script-src-elem", "script-src-attr", "script-src", "img-src"),
        }
        assert len(browser.severe()) == 3  # eval raises an exception instead
        assert [Path(each).name for each in browser.requests(page.address)] == ["other.png"]


@every_kind
def test_a_page_reads_without_scripts(browser: Browser, report: Report, kind):
    file = report(kind)
    with browser.page(file, script=False) as page:
        assert (
            page.js(SEEN, "[data-chart], .with-script, button, input, select, #what-if-panel") == 0
        )
        shown = "table:not(details table, #what-if-panel table)"
        tables = page.js("return document.querySelectorAll(arguments[0]).length", shown)
        assert page.js(SEEN, shown) == tables > 0
        assert page.js(SEEN, "noscript p") > 0
        without = page.texts("main > section:first-child p.line")
        assert without
    with browser.page(file) as page:
        assert page.texts("main > section:first-child p.line") == without
        assert page.js(SEEN, "noscript p") == 0


@every_kind
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_a_phone(browser: Browser, report: Report, kind, scheme):
    with browser.page(report(kind), width=360, scheme=scheme) as page:
        wide = page.js("""
          const ends = (each) => Math.round(each.getBoundingClientRect().right);
          return [...document.querySelectorAll("body *")]
            .filter((each) => ends(each) > innerWidth && each.closest(".scroll, pre, svg") === null)
            .map((each) => `${each.tagName} .${each.className} #${each.id} ${ends(each)}`);
        """)
        assert page.js("return document.documentElement.scrollWidth") <= 360, wide
        paper = page.js("return getComputedStyle(document.body).backgroundColor")
        lightness = [int(part) for part in re.findall(r"\d+", paper)[:3]]
        assert all((part > 200) == (scheme == "light") for part in lightness)


@every_kind
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_prints_on_paper(browser: Browser, report: Report, kind, scheme):
    with browser.page(report(kind)) as page:
        page.look(width=A4, scheme=scheme, media="print")
        assert page.js("return document.documentElement.scrollWidth") <= A4
        controls = "button:not(thead button), input, select, #what-if, #other-report, nav"
        assert page.js(SEEN, controls) == 0
        assert page.js(SEEN, "table:not(details table)") > 0
        assert page.js(SEEN, "[data-chart] svg") > 0
        colours = page.js("""
          const style = getComputedStyle(document.body);
          return [style.color, style.backgroundColor];
        """)
        ink, paper = ([int(part) for part in re.findall(r"\d+", each)[:3]] for each in colours)
        assert max(ink) < 100
        assert min(paper) > 200
        made = page.cdp("Page.printToPDF")
        assert base64.b64decode(made["data"]).startswith(b"%PDF")


def test_what_a_reader_has_folded_is_printed(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        closed = "return document.querySelectorAll('details:not([open])').length"
        assert page.js(closed) > 0
        page.js("dispatchEvent(new Event('beforeprint'))")
        assert page.js(closed) == 0


def test_the_keyboard_reaches_everything(browser: Browser, report: Report):
    reached = set()
    with browser.page(report("compare")) as page:
        page.js("document.activeElement.blur()")
        for _ in range(600):
            page.press(Keys.TAB)
            kind, is_marked = page.js("""
              const at = document.activeElement;
              const kinds = {
                "nav a": "anchors", "thead button": "sort", "button.copy": "copy",
                ".scroll[tabindex='0']": "tables", "svg .mark": "marks", "svg .walker": "marks",
                "svg .handle": "handle", "summary": "folded", "#what-if-form select": "lists",
                "#other-file": "file",
                "#save": "save", "pre": "lines",
              };
              const found = Object.entries(kinds).find(([selector]) => at.matches(selector));
              const style = getComputedStyle(at.querySelector(".grip") ?? at);
              const isMarked = style.outlineStyle !== "none" || style.strokeWidth === "3px";
              return [found?.[1] ?? at.outerHTML.slice(0, 80), isMarked];
            """)
            if "<body" in kind:
                break
            assert is_marked, kind
            reached.add(kind)
    assert reached >= {
        *("anchors", "sort", "copy", "tables", "marks", "handle", "folded", "lists"),
        *("file", "save", "lines"),
    }


@every_kind
def test_marks_tell_what_they_stand_for(browser: Browser, report: Report, kind):
    with browser.page(report(kind)) as page:
        marks = page.js("""
          return [...document.querySelectorAll("svg .mark[tabindex], svg .walker")].map((each) =>
            each.getAttribute("aria-label"));
        """)
        assert marks
        assert all(marks)
        page.look(height=12_000)  # nothing has to be scrolled
        page.focus("svg .mark[tabindex], svg .walker")
        assert page.js(SEEN, ".chart-tooltip") == 1
        page.press(Keys.ESCAPE)
        assert page.js(SEEN, ".chart-tooltip") == 0


def test_a_tooltip_stays_where_only_the_page_moves_below_the_pointer(
    browser: Browser, report: Report
):
    with browser.page(report("compare")) as page:
        page.point("h1")
        page.focus("[data-chart=lengths] .mark[tabindex], [data-chart=lengths] .walker")
        page.frame()
        page.frame()
        assert page.js(SEEN, ".chart-tooltip") == 1
