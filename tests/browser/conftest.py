import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from browser.harness import Browser, started_browser
from conftest import Run, write_jsonl

KINDS = ("profile", "compare", "balance", "buckets", "check")

SETTINGS = ("--tokens-per-batch", 512, "--order", "file", "--world-size", 2)
"""Settings of the page of `compare`: small batches, an order, ranks."""

_COMMANDS = {
    "profile": ("corpus.jsonl", "--label-column", "label"),
    "compare": SETTINGS,
    "balance": (),
    "buckets": (),
}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def corpus(folder: Path) -> Path:
    """400 texts of very different lengths, in four classes."""
    rng = random.Random(5)
    labels = ["news", "wiki", "code", "mail"]
    records: list[dict[str, object]] = [
        {
            "text": " ".join(["word"] * int(rng.lognormvariate(3, 1))),
            "label": rng.choice(labels[: 1 + rng.randrange(4)]),
        }
        for _ in range(400)
    ]
    return write_jsonl(folder / "corpus.jsonl", records)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the pages of `report` are made, once per session."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def report(run: Run, results: Path) -> Callable[[str], Path]:
    """Returns the page of a kind of result, whose JSON lies beside it."""

    def make(kind: str) -> Path:
        page = results / f"{kind}.html"
        if page.exists():
            return page
        if kind == "check":
            corpus(results)
            found = run(
                *("check", "corpus.jsonl", "--label-column", "label", "--max-padding", "1%"),
                *("--format", "json=check.json", "--format", f"html={page}"),
                cwd=results,
            )
            assert found.returncode == 1, found.stderr
            return page
        if kind == "profile":
            corpus(results)
        elif not (results / "batchstat-results").exists():
            make("profile")
        command = (kind, *_COMMANDS[kind], "--json", "--no-plots", "--html", page)
        found = run(*command, cwd=results)
        assert found.returncode == 0, found.stderr
        (results / f"{kind}.json").write_text(found.stdout, encoding="utf-8")
        return page

    return make


def published(page: Path) -> dict[str, object]:
    """The JSON that was printed with a page."""
    found: dict[str, object] = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    return found
