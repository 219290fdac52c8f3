"""Every printed training script compiles; tests/integration/test_recipes.py trains with them."""

import pytest

from batchstat.render.recipes.writing import FRAMEWORKS
from conftest import SAMPLE_DATA


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--snippet"],
        ["--snippet", "--strategy", "packed"],
        ["--world-size", 2, "--gradient-accumulation-steps", 2],
    ],
)
def test_scripts_compile(run, framework, options):
    assert run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots").returncode == 0
    printed = run("recipe", framework, *options)
    assert printed.returncode == 0, printed.stderr
    compile(printed.stdout, "train.py", "exec")
