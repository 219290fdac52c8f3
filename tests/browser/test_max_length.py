"""The movable max_length says what it truncates."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from browser.harness import Browser, Keys, Page

Report = Callable[[str], Path]

FIGURE = "[data-chart=lengths]"
HANDLE = f"{FIGURE} .handle"


def expected(lengths: np.ndarray, most: int) -> list[str]:
    above = lengths[lengths > most]
    return [f"{number:,}" for number in (most, len(above), len(lengths), (above - most).sum())]


def said(page: Page) -> list[str]:
    """The numbers of the sentence, in its order; shares have a percent sign."""
    return re.findall(r"[<>]?\d[\d,.]*%?", page.text(f"{FIGURE} p[aria-live]"))


@pytest.mark.parametrize("kind", ["profile", "compare", "balance", "buckets"])
def test_it_says_what_is_truncated_and_lost(browser: Browser, report: Report, results: Path, kind):
    file = report(kind)
    table = pq.read_table(results / "batchstat-results" / "lengths.parquet")
    lengths = table["length"].to_numpy()
    with browser.page(file) as page:
        page.focus(HANDLE)
        seen = set()
        for keys in (
            *([], [Keys.HOME], [Keys.ARROW_RIGHT] * 3, [Keys.PAGE_UP] * 4, [Keys.ARROW_LEFT]),
            *([Keys.ARROW_UP] * 2, [Keys.ARROW_DOWN], [Keys.PAGE_DOWN], [Keys.END]),
            [Keys.ARROW_LEFT],
        ):
            page.press(*keys)
            most = int(page.find(HANDLE).get_attribute("aria-valuenow"))
            numbers = [each for each in said(page) if "%" not in each]
            assert numbers == expected(lengths, most)
            shares = [each for each in said(page) if "%" in each]
            above = lengths[lengths > most]
            real = (len(above) / len(lengths), (above - most).sum() / lengths.sum())
            for share, ratio in zip(shares, real, strict=True):
                shown = float(share.strip("<>%")) / 100
                assert 0 < ratio < shown if share[0] == "<" else abs(shown - ratio) <= 0.00051
            seen.add(most)
        end = int(page.find(HANDLE).get_attribute("aria-valuemax"))
        assert end >= lengths.max()
        assert {1, 4, end, end - 1} <= seen


def test_it_can_be_dragged(browser: Browser, report: Report):

    with browser.page(report("profile")) as page:
        page.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", FIGURE)
        before = page.text(f"{FIGURE} p[aria-live]")
        page.drag(f"{HANDLE} .grip", -120)
        page.frame()
        after = int(page.find(HANDLE).get_attribute("aria-valuenow"))
        assert said(page)[0] == f"{after:,}"
        assert page.text(f"{FIGURE} p[aria-live]") != before
