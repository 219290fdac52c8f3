"""Functions of the report's scripts, called with node."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

ASSETS = ROOT / "batchstat" / "render" / "html" / "assets"


def call_all(scripts: list[str], calls: list[list[Any]]) -> list[Any]:
    """What each call, [function, *arguments], returns; `function` is any JavaScript expression.

    The test is skipped without node, or fails where BATCHSTAT_TEST_ALL is set.
    """
    if shutil.which("node") is None and not os.environ.get("BATCHSTAT_TEST_ALL"):
        pytest.skip("node is not installed")
    wanted = {"scripts": [str(ASSETS / name) for name in scripts], "calls": calls}
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("run.mjs"))],
        input=json.dumps(wanted),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
