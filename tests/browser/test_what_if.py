"""The what-if panel gives the numbers of `batchstat compare`."""

import json
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from browser.conftest import SETTINGS, published
from browser.harness import Browser, Keys, Page
from conftest import Run

Report = Callable[[str], Path]

STRATEGIES = ("static", "bucketed", "token-budget", "packed")

CHANGES: list[dict[str, object]] = [
    {},
    {"max_length": 40},
    {"max_length": 60, "overflow": "drop", "read_ahead": 64},
    {"max_length": 50, "overflow": "split", "batch_size": 5},
    {"world_size": 3, "tokens_per_batch": 3000, "batch_size": 16},
    {"world_size": 1, "read_ahead": 7, "tokens_per_batch": 999, "batch_size": 3},
    {"tokens_per_batch": 300, "batch_size": 500, "read_ahead": 100_000, "max_length": 2_000},
]

COUNTS = {
    "steps": "steps",
    "batches": "batches",
    "total tokens": "total_tokens",
    "padding tokens": "padding_tokens",
    "truncated samples": "truncated_samples",
    "truncated tokens": "truncated_tokens",
    "dropped samples": "dropped_samples",
    "dropped tokens": "dropped_tokens",
    "largest batch, total tokens": "max_batch_tokens",
    "batches over budget": "over_budget_batches",
}
"""Rows of the panel, and their names in compare.json."""


def change(page: Page, **settings: object) -> None:
    """Set fields as a user does, and wait for the new numbers."""
    for name, value in settings.items():
        page.js(
            """
            const field = document.getElementById(`what-if-${arguments[0]}`);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input", { bubbles: true }));
            """,
            name,
            str(value),
        )
    page.frame()


def reset(page: Page) -> None:
    page.find("#what-if-form button[type=reset]").click()
    page.frame()


def numbers(page: Page) -> dict[str, str]:
    """The panel's own column."""
    found: dict[str, str] = page.js("""
      const rows = [...document.querySelectorAll("#what-if-numbers tbody tr")];
      return Object.fromEntries(rows.map(({ cells }) => [cells[0], cells[1]]
        .map((cell) => cell.textContent.trim())));
    """)
    return found


def row_of(document: dict[str, Any], label: str) -> dict[str, Any]:
    (row,) = (row for row in document["strategies"] if row["label"] == label)
    return row


def check_row(shown: dict[str, str], row: dict[str, Any]) -> None:
    """Every number of the panel is that of a row of compare.json."""
    counts = {name: f"{row[key]:,}" for name, key in COUNTS.items()}
    assert {name: shown[name] for name in COUNTS} == counts
    assert float(shown["padding"].strip("<>%")) == pytest.approx(
        100 * row["padding_ratio"], abs=0.0051
    )
    assert shown["samples per batch, mean"] == f"{row['samples_per_batch']['mean']:,.1f}"
    if shown["speed-up"] != "-":
        speed_up = float(shown["speed-up"].rstrip("x"))
        assert speed_up == pytest.approx(row["speed_up"], abs=0.0051)


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


def copied(page: Page) -> list[str]:
    """The words of the command that the panel gives, after `batchstat compare`."""
    program, command, *words = shlex.split(page.text("#what-if-command"))
    assert (program, command) == ("batchstat", "compare")
    return words


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_the_report_s_settings_it_shows_the_report_s_numbers(
    browser: Browser, report: Report, strategy
):
    file = report("compare")
    with browser.page(file) as page:
        change(page, strategy=strategy)
        assert page.text("#what-if-source").startswith("The report's own numbers")
        check_row(numbers(page), row_of(published(file), strategy))
        others = page.js("""
          const rows = [...document.querySelectorAll("#what-if-numbers tbody tr")];
          return rows.map(({ cells }) => [1, 2, 3].map((i) => cells[i].textContent));
        """)
        assert all(mine == other for mine, other, _ in others)
        assert {difference for _, _, difference in others} <= {"0", "-"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_copied_lines_give_the_page_s_numbers(
    browser: Browser, report: Report, compare, tmp_path: Path, strategy
):
    with browser.page(report("compare")) as page:
        for changes in CHANGES:
            reset(page)
            change(page, strategy=strategy, **changes)
            shown = numbers(page)
            words = copied(page)
            assert "--order file" in " ".join(words)
            row = row_of(compare(*words), strategy)
            check_row(shown, row)
            assert shown["speed-up"] != "-"
            if shown["rank idle"] != "-":
                idle = float(shown["rank idle"].strip("<>%")) / 100
                assert idle == pytest.approx(row["rank_idle"], abs=0.000051)
            written = page.text("#what-if-toml")
            assert tomllib.loads(written)["strategy"] == strategy
            (tmp_path / "user" / "batchstat.toml").write_text(written, encoding="utf-8")
            from_file = row_of(compare(), strategy)
            (tmp_path / "user" / "batchstat.toml").unlink()
            assert {key: from_file[key] for key in COUNTS.values()} == {
                key: row[key] for key in COUNTS.values()
            }


@pytest.mark.parametrize("order", ["shuffled", "blocks"])
@pytest.mark.parametrize(
    "extra",
    [
        ("--seed", 3, "--epoch", 2),
        ("--world-size", 3, "--remainder", "uneven", "--distribute", "balanced"),
        ("--gradient-accumulation-steps", 2, "--pad-to-multiple-of", 8, "--drop-last"),
        ("--model", "hidden=64,layers=2,vocabulary=100"),
    ],
    ids=["seed", "ranks", "steps", "model"],
)
def test_a_drawn_order_is_drawn_in_the_page(
    browser: Browser, compare, tmp_path: Path, order, extra
):
    file = tmp_path / "page.html"
    compare("--tokens-per-batch", 700, "--order", order, *extra, "--html", file)
    with browser.page(file) as page:
        for strategy, changes in zip(STRATEGIES, CHANGES[1:5], strict=True):
            reset(page)
            change(page, strategy=strategy, **changes)
            assert "exactly" in page.text("#what-if-source")
            row = row_of(compare(*copied(page)), strategy)
            check_row(numbers(page), row)


def test_parts_of_samples_are_dropped_and_repeated(browser: Browser, compare, tmp_path: Path):
    file = tmp_path / "page.html"
    words = ("--gradient-accumulation-steps", 2, "--drop-last", "--world-size", 3)
    compare("--tokens-per-batch", 3_000, *words, "--html", file)
    with browser.page(file) as page:
        change(page, strategy="packed", max_length=50, overflow="split")
        check_row(numbers(page), row_of(compare(*copied(page)), "packed"))


def lengths_of(samples: int) -> np.ndarray:
    drawn = np.random.default_rng(7).lognormal(4, 1, samples)
    return np.clip(drawn, 1, 3_000).astype(np.int64)


def padding_ratio(lengths: np.ndarray, strategy: str, settings: dict[str, Any]) -> float:
    comparison = batchstat.compare(lengths, strategies=[strategy], **settings)
    (found,) = (each for each in comparison.strategies if each.label == strategy)
    ratio: float = found.counts.padding_ratio
    return ratio


def test_from_a_histogram_it_estimates(browser: Browser, tmp_path: Path):
    lengths = lengths_of(100_001)
    own = {"max_length": 1_024, "tokens_per_batch": 16_384}
    file = tmp_path / "page.html"
    file.write_text(batchstat.to_html(batchstat.compare(lengths, **own)), encoding="utf-8")
    assert file.stat().st_size < 500_000
    with browser.page(file) as page:
        for strategy, changes in (
            ("static", {"batch_size": 24}),
            ("bucketed", {"batch_size": 24, "read_ahead": 500}),
            ("token-budget", {"read_ahead": 3_000, "tokens_per_batch": 8_192}),
            ("packed", {"max_length": 700}),
        ):
            change(page, strategy=strategy, **changes)
            assert "estimate" in page.text("#what-if-source").lower() or strategy == "packed"
            own |= changes
            ratios = [padding_ratio(lengths, strategy, own | {"seed": seed}) for seed in range(6)]
            shown = float(numbers(page)["padding"].strip("<>%")) / 100
            assert shown == pytest.approx(np.mean(ratios), abs=0.002)


@pytest.mark.parametrize("samples", [100_000, 100_001])
def test_in_file_order_it_needs_the_lengths_in_order(browser: Browser, tmp_path: Path, samples):
    comparison = batchstat.compare(lengths_of(samples), order="file", tokens_per_batch=16_384)
    file = tmp_path / "page.html"
    file.write_text(batchstat.to_html(comparison), encoding="utf-8")
    assert file.stat().st_size < 500_000
    with browser.page(file) as page:
        has_panel = page.js("return document.getElementById('what-if-panel') !== null")
        assert has_panel == (samples == 100_000)
        said = page.text("#what-if .note")
        assert ("100,001" in said and "order" in said) == (samples == 100_001)


@pytest.mark.parametrize("name", ["tokens_per_batch", "max_length", "world_size"])
@pytest.mark.parametrize("value", ["", "0", "-1", "1e99", "2.5", "words", "99999999999"])
def test_nonsense_in_a_field_is_named_beside_it(browser: Browser, report: Report, name, value):
    with browser.page(report("compare")) as page:
        change(page, strategy="token-budget")
        before = numbers(page)
        change(page, **{name: value})
        field = page.find(f"#what-if-{name}")
        assert field.get_attribute("aria-invalid") == "true"
        problem = page.find(f"#what-if-{name}-problem")
        assert problem.is_displayed()
        assert "whole number" in problem.text
        assert f"what-if-{name}-problem" in field.get_attribute("aria-describedby")
        assert numbers(page) == before
        change(page, **{name: 8})
        assert field.get_attribute("aria-invalid") is None
        assert not problem.is_displayed()
        assert numbers(page) != before


def test_settings_that_leave_nothing_are_one_clear_line(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        change(page, max_length=1, overflow="drop")
        said = page.text("#what-if-summary")
        assert said
        assert "NaN" not in page.text("#what-if")
        assert "undefined" not in page.text("#what-if")
        change(page, max_length=100, overflow="truncate")
        assert page.text("#what-if-summary") != said


def test_sliders_move_by_keyboard_and_reset_undoes_it(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        change(page, strategy="bucketed")
        before = (numbers(page), page.text("#what-if-command"))
        for name in ("batch_size", "max_length", "read_ahead", "world_size"):
            page.focus(f"#what-if-{name}-slider")
            own = page.find(f"#what-if-{name}")
            value = own.get_property("value")
            page.press(Keys.HOME, *[Keys.PAGE_UP] * 5, Keys.ARROW_RIGHT)
            page.frame()
            assert own.get_property("value") != value
            flag = f"--{name.replace('_', '-')} {own.get_property('value')} "
            assert flag in f"{page.text('#what-if-command')} "
        assert numbers(page) != before[0]
        reset(page)
        change(page, strategy="bucketed")
        assert (numbers(page), page.text("#what-if-command")) == before


def test_a_field_that_a_strategy_does_not_read_is_disabled(browser: Browser, report: Report):
    reads = {
        "static": {"batch_size"},
        "bucketed": {"batch_size", "read_ahead"},
        "token-budget": {"tokens_per_batch", "read_ahead"},
    }
    names = ("tokens_per_batch", "batch_size", "read_ahead")
    with browser.page(report("compare")) as page:
        for strategy, used in reads.items():
            change(page, strategy=strategy)
            enabled = {name for name in names if page.find(f"#what-if-{name}").is_enabled()}
            assert enabled == used


def test_the_first_batches_are_drawn(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        drawn = []
        for size in (1, 64):
            change(page, strategy="static", batch_size=size)
            drawn.append(
                page.js("return document.querySelectorAll('#what-if-batches .mark').length")
            )
            assert page.js("return document.querySelectorAll('#what-if-batches svg').length") == 1
        assert drawn[0] > drawn[1] > 0


def test_the_report_s_settings_are_in_the_command(browser: Browser, report: Report):
    with browser.page(report("compare")) as page:
        words = " ".join(copied(page))
        expected = [
            f"{flag} {value}" for flag, value in zip(SETTINGS[::2], SETTINGS[1::2], strict=True)
        ]
        assert all(each in words for each in expected)


def test_on_a_real_corpus_in_file_order(browser: Browser, run: Run, real_data: Path, tmp_path):
    corpus = real_data / "wikitext-valid.raw"
    words = ("--order", "file", "--max-length", 512, "--json", "--no-plots")
    found = run("compare", corpus, *words, "--html", "page.html")
    assert found.returncode == 0, found.stderr
    file = tmp_path / "page.html"
    assert file.stat().st_size < 500_000
    with browser.page(file) as page:
        for strategy in STRATEGIES:
            reset(page)
            change(page, strategy=strategy, max_length=300, read_ahead=900, tokens_per_batch=8_000)
            again = run("compare", *copied(page), "--json", "--no-plots")
            check_row(numbers(page), row_of(json.loads(again.stdout), strategy))
