"""The printed lines compile; tests/integration/test_recipes.py trains with them."""

from itertools import product

from batchstat.render.recipes.writing import FRAMEWORKS
from conftest import SAMPLE_DATA


def test_lines_compile(run, subtests):
    assert run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots").returncode == 0
    every_options = [
        [],
        ["--strategy", "packed"],
        ["--world-size", 2, "--gradient-accumulation-steps", 2],
    ]
    for framework, options in product(FRAMEWORKS, every_options):
        with subtests.test(framework=framework, options=options):
            printed = run("recipe", framework, *options)
            assert printed.returncode == 0, printed.stderr
            compile(printed.stdout, "train.py", "exec")
