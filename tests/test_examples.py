"""Examples in public docstrings, run as they stand there."""

import doctest
import inspect

import pytest

import batchstat
from conftest import ROOT


@pytest.mark.parametrize("name", sorted({*batchstat.__all__} - {"__version__"}))
def test_every_public_docstring_has_an_example_that_runs(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    documented = getattr(batchstat, name)
    text = inspect.getdoc(documented) or ""
    found = doctest.DocTestParser().get_doctest(text, {"batchstat": batchstat}, name, None, 0)
    assert found.examples
    printed = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(found, out=printed.append)
    assert not printed, "".join(printed)
