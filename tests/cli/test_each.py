"""compare --each: a row per corpus, or per check of the configuration."""

import json

import numpy as np
import pytest

LENGTHS = ["--length-column", "n", "--no-plots"]


@pytest.fixture
def corpora(tmp_path):
    """Two corpora of lengths, in files of the same name."""
    rng = np.random.default_rng(0)
    for folder, scale in (("one", 0.3), ("two", 1.0)):
        (tmp_path / folder).mkdir()
        lengths = rng.lognormal(3, scale, 300).astype(int) + 1
        (tmp_path / folder / "a.csv").write_text("n\n" + "\n".join(map(str, lengths)) + "\n")
    return tmp_path


def test_each_row_is_the_comparison_of_its_corpus(run, corpora):
    shown = run("compare", "--each", "one/a.csv", "two/a.csv", "--batch-size", 4, *LENGTHS)
    assert shown.returncode == 0, shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith("a")]
    assert [row[0] for row in rows] == ["a", "a-2"]
    for (name, *cells), corpus in zip(rows, ("one/a.csv", "two/a.csv"), strict=True):
        alone = run("compare", corpus, "--batch-size", 4, "--json", "-o", "alone", *LENGTHS)
        expected = json.loads(alone.stdout)
        stored = json.loads((corpora / "batchstat-results" / name / "compare.json").read_text())
        assert stored["strategies"] == expected["strategies"]
        labels = {row["label"]: row for row in expected["strategies"]}
        best = labels[expected["choice"]["best"]]
        assert cells[0] == "300"
        assert cells[3] == best["label"]
        assert cells[2] == f"{100 * labels['static']['padding_ratio']:.1f}%"
        assert cells[-1] == f"{best['speed_up']:.2f}x"
    assert "would gain most" in shown.stdout


def test_json_is_that_of_all_files(run, corpora):
    printed = run("compare", "--each", "one/a.csv", "two/a.csv", "--json", *LENGTHS).stdout
    files = sorted((corpora / "batchstat-results").glob("*/compare.json"))
    assert json.loads(printed) == [json.loads(file.read_text()) for file in files]


def test_each_check_has_its_own_settings(run, corpora):
    (corpora / "batchstat.toml").write_text(
        'length-column = "n"\n'
        '[checks.short]\ncorpus = "one/a.csv"\ntokens-per-batch = 500\n'
        '[checks.long]\ncorpus = "two/a.csv"\ntokens-per-batch = 900\n'
    )
    shown = run("compare", "--each", "--json", "--no-plots")
    assert shown.returncode == 0, shown.stderr
    made = json.loads(shown.stdout)
    assert [each["basis"]["tokens_per_batch"] for each in made] == [500, 900]
    results = corpora / "batchstat-results"
    assert {path.name for path in results.iterdir()} == {"short", "long"}


@pytest.mark.usefixtures("corpora")
def test_what_each_cannot_do(run):
    nothing = run("compare", "--each", "--no-plots")
    assert nothing.returncode == 2
    assert "--each compares corpora: name them" in nothing.stderr
    missing = run("compare", "--each", "one/a.csv", "none.csv", *LENGTHS)
    assert missing.returncode == 3
    assert "none.csv" in missing.stderr


def test_no_name_leads_out_of_the_results_folder(run, corpora):
    (corpora / "here").mkdir()
    (corpora / "here" / "batchstat.toml").write_text(
        'length-column = "n"\n'
        '[checks.".."]\ncorpus = "../one/a.csv"\n[checks."a.b"]\ncorpus = "../two/a.csv"\n'
        '[checks."a/b"]\ncorpus = "../one/a.csv"\n'
    )
    before = {path.name for path in corpora.iterdir()}
    made = run("compare", "--each", "--no-plots", cwd=corpora / "here")
    assert made.returncode == 0, made.stderr
    results = corpora / "here" / "batchstat-results"
    assert {path.name for path in results.iterdir()} == {"corpus", "a-b", "a-b-2"}
    assert {path.name for path in (corpora / "here").iterdir()} == {
        *("batchstat.toml", "batchstat-results"),
    }
    assert {path.name for path in corpora.iterdir()} == before


def test_the_mean_length_is_that_of_the_samples_drawn(run, tmp_path):
    rows = [f"{n},{'a' if n == 9 else 'b'}" for n in [9] * 10 + [30] * 90]
    for name in ("x.csv", "y.csv"):
        (tmp_path / name).write_text("n,label\n" + "\n".join(rows) + "\n")
    labels = ["--label-column", "label", "--sampler", "downsampling"]
    shown = run("compare", "--each", "x.csv", "y.csv", *LENGTHS, *labels).stdout
    means = [line.split()[2] for line in shown.splitlines() if line[:2] in ("x ", "y ")]
    assert means == ["19.5", "19.5"]
