"""Functions of the report's scripts, called with node."""

import base64
import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import ROOT

ASSETS = ROOT / "batchstat" / "render" / "html" / "assets"
PLANNER = ("random.js", "epoch.js", "cutting.js", "packing.js", "ranks.js", "planner.js")


def call_all(scripts: Sequence[str], calls: Sequence[Sequence[Any]]) -> list[Any]:
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
    found = json.loads(done.stdout)
    assert len(found) == len(calls)
    return found


def planes(numbers: np.ndarray, width: int) -> bytes:
    """All first bytes of whole numbers, the lowest, then all second ones, …"""
    whole = numbers.astype("<u8")[:, None].view(np.uint8)
    return whole[:, :width].T.tobytes()


def embedded(lengths: Sequence[int], order: str, kind: str = "order") -> dict[str, Any]:
    """Lengths as the page has them: in their order, or as a histogram."""
    whole = np.asarray(lengths)
    values, counts = np.unique(whole, return_counts=True)
    if kind == "order":
        found = {"values": 4, "counts": 0, "data": planes(whole, 4)}
    else:
        rises = np.diff(values, prepend=0)
        found = {"values": 4, "counts": 4, "data": planes(rises, 4) + planes(counts, 4)}
    data = base64.b64encode(zlib.compress(found["data"])).decode("ascii")
    return {"order": order, "lengths": found | {"kind": kind, "data": data}}
