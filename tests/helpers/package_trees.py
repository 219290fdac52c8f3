"""The modules of the package as trees, for tests of what stands in its code."""

import ast
from functools import cache
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "batchstat"


@cache
def tree_of(path: Path) -> ast.Module:
    """A module, parsed once for all tests that look at it, which leave it as it is."""
    return ast.parse(path.read_text(encoding="utf-8"))
