"""Print, as Markdown, what installed trainers do otherwise than the versions that batchstat knows.

    python tests/trainers/newest.py trl > differences.md

Exits with 1 if anything differs: keys, or tests that train. A workflow runs it each week with the
newest trainers, and opens an issue with what it prints.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from record_keys import recorded

ROOT = Path(__file__).parents[2]
MOST_LINES = 60
"""Of one difference: an issue holds 65,536 characters."""


@dataclass(frozen=True)
class Record:
    """How a trainer is recorded.

    Attributes:
        package: what is installed.
        keys: its keys.json.
        tests: train with it, and hold what batchstat's recorder saw against the plans.
    """

    package: str
    keys: Path
    tests: tuple[str, ...] = ()


TRAINING_TESTS = ("tests/trainers/trl", "tests/trainers/preflight", "tests/recording/recorder")
RECORDS = {
    "transformers": Record("transformers", Path("batchstat/trainers/transformers/keys.json")),
    "trl": Record("trl", Path("batchstat/trainers/trl/keys.json"), tests=TRAINING_TESTS),
}


def key_differences(record: Record) -> Iterator[str]:
    """Yield the keys that came and went."""
    known = json.loads(record.keys.read_text(encoding="utf-8"))
    try:
        before, now = {*known["keys"]}, {*recorded(record.keys)["keys"]}
    except (ImportError, AttributeError) as error:  # its classes are elsewhere now
        yield f"the keys of {record.package} {version(record.package)} cannot be read: {error}"
        return
    for names, verb in ((now - before, "has"), (before - now, "no longer has")):
        if names:
            listed = ", ".join(f"`{name}`" for name in sorted(names))
            yield f"{record.package} {version(record.package)} {verb}: {listed}"


def test_differences(record: Record) -> Iterator[str]:
    """Yield the tests that fail."""
    if not record.tests:
        return
    command = [sys.executable, "-m", "pytest", "-q", "-m", "torch", "--tb=short", *record.tests]
    environment = {**os.environ, "BATCHSTAT_TEST_ALL": "1", "PYTHONPATH": "tests/helpers"}
    result = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    if result.returncode:
        failed = re.findall(r"^(?:FAILED|ERROR) .*", result.stdout, re.MULTILINE)
        yield f"tests fail:\n{_block(chr(10).join(failed) or result.stdout + result.stderr)}"


def _block(text: str) -> str:
    lines = text.rstrip().splitlines()
    left_out = [f"… {len(lines) - MOST_LINES:,} lines before"] if len(lines) > MOST_LINES else []
    return "\n".join(["```text", *left_out, *lines[-MOST_LINES:], "```"])


def main(names: list[str]) -> int:
    os.chdir(ROOT)
    found = [
        f"- {name}: {difference}"
        for name in names
        for differences in (key_differences, test_differences)
        for difference in differences(RECORDS[name])
    ]
    print("\n".join(found) if found else "No difference.")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
