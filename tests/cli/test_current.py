"""`--current`: a trainer's own configuration as the current setup of `compare` and `check`."""

import json
import random
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.documents.balance import balance_document
from batchstat.documents.comparison import comparison_document
from conftest import Run, write_jsonl

READ = {"corpus": "pairs.jsonl", "prompt_column": "prompt", "completion_column": "completion"}
PAIRS = ("--prompt-column", "prompt", "--completion-column", "completion", "--no-plots")
SETTINGS = {"max_length": 48, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}


@pytest.fixture
def config(tmp_path) -> Path:
    """A configuration that names pairs, of which the trainer drops some."""
    rng = random.Random(0)
    rows = [
        {"prompt": "word " * rng.randint(1, 60), "completion": "end " * rng.randint(1, 9)}
        for _ in range(60)
    ]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return saved(tmp_path / "sft.json", SETTINGS | naming("pairs.jsonl"))


def naming(file: str) -> dict[str, Any]:
    return {"datasets": [{"path": "json", "data_files": file}]}


def saved(path: Path, values: dict[str, Any]) -> Path:
    path.write_text(json.dumps(values))
    return path


def printed(run: Run, *arguments: object, code: int = 0, **environment: Any) -> Any:
    done = run(*arguments, **environment)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def checked(run: Run, *arguments: object, code: int = 0) -> Any:
    [check] = printed(run, "check", *arguments, "--format", "json", code=code)["checks"]
    return check["report"]


def numbers_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row but for what only a comparison has."""
    kept = {key: row[key] for key in row if key not in ("first_batches", "speed_up")}
    return kept | {"ranks": row["ranks"] | {"timeline": None}}


def test_the_current_row_is_what_preflight_reports(run, config):
    report = printed(run, "preflight", config.name, "--world-size", 2, "--json")
    assert report["samples"]["dropped"]
    named = ("--current", config.name, "--world-size", 2)
    compared = printed(run, "compare", *named, "--json", "--no-plots")
    row = report["strategy"]
    assert numbers_of(compared["strategies"][0]) == numbers_of(row)
    assert compared["basis"]["tokens_per_batch"] == report["basis"]["tokens_per_batch"]
    kept = report["samples"]["kept"]
    rows = compared["strategies"]
    assert {each["samples"] - each["duplicated_samples"] for each in rows} == {kept}
    [warning] = [each for each in compared["warnings"] if each["id"] == "lost/left-out"]
    assert f"leaves out {60 - kept} of 60 samples" in warning["message"]
    found = checked(run, *named, "--max-padding", "100%")
    assert numbers_of(found["strategy"]) == numbers_of(row)


def test_what_stands_beside_it_and_above_overrides_it(run, config, tmp_path):
    def basis(*arguments: object) -> tuple[int, int]:
        limit = [] if "limits" in own.read_text() else ["--max-padding", "100%"]
        found = checked(run, *arguments, *limit)["basis"]
        return found["max_length"], found["gradient_accumulation_steps"]

    own = tmp_path / "batchstat.toml"
    own.write_text('current = "sft.json"\n')
    assert basis() == (48, 2)
    own.write_text('current = "sft.json"\nmax-length = 32\n')
    assert basis() == (32, 2)
    assert basis("--max-length", 16) == (16, 2)
    own.write_text('corpus = "other.jsonl"\nmax-length = 32\ngradient-accumulation-steps = 3\n')
    assert basis("--current", config.name) == (48, 2)
    own.write_text(
        'max-length = 32\n[checks.sft]\ncurrent = "sft.json"\nlimits.max-padding = "99%"'
    )
    assert basis() == (32, 2)


def test_init_writes_its_name_so_that_a_change_of_it_is_checked(run, config, tmp_path):
    assert run("init", "--current", config.name).returncode == 0
    text = (tmp_path / "batchstat.toml").read_text()
    assert text.splitlines()[:2] == ['current = "sft.json"', ""]
    assert run("check").returncode == 0
    saved(config, SETTINGS | naming("pairs.jsonl") | {"max_length": 16})
    done = run("check")
    assert done.returncode == 1
    assert re.search(r"FAIL +max-dropped", done.stdout)


def test_init_does_not_write_a_length_that_the_trainer_does_not_limit(run, tmp_path):
    rows = [{"input_ids": [1] * n, "labels": [1] * n} for n in range(2, 20)]
    write_jsonl(tmp_path / "ids.jsonl", rows)
    saved(tmp_path / "whole.json", {"max_length": None, "packing": False})
    columns = ("--tokens-column", "input_ids", "--trained-column", "labels")
    named = ("--current", "whole.json", "--framework", "trl")
    done = run("init", "ids.jsonl", *columns, *named)
    assert done.returncode == 0, done.stderr
    assert "max-length" not in (tmp_path / "batchstat.toml").read_text()
    write_jsonl(tmp_path / "ids.jsonl", [*rows, {"input_ids": [1] * 90, "labels": [1] * 90}])
    # The longer sample pads more than the limits allow, but is whole.
    assert checked(run, code=1)["strategy"]["truncated_samples"] == 0


def test_a_path_in_the_file_is_relative_to_it(run, config, tmp_path):
    saved(config, SETTINGS)
    (tmp_path / "batchstat.toml").write_text('current = "sft.json"\ncorpus = "pairs.jsonl"\n')
    inside = tmp_path / "inside"
    inside.mkdir()
    assert checked(run, "--max-padding", "100%")["basis"]["max_length"] == 48
    shown = run("config", cwd=inside).stdout
    for word in ("../sft.json", "../pairs.jsonl"):
        assert word in shown


def test_a_configuration_without_a_corpus_is_of_the_profile_in_the_folder(run, config):
    assert run("profile", "pairs.jsonl", *PAIRS).returncode == 0
    named = printed(run, "compare", "--current", config.name, "--no-plots", "--json")
    saved(config, SETTINGS)
    assert run("profile", "pairs.jsonl", *PAIRS).returncode == 0
    stored = printed(run, "compare", "--current", config.name, "--no-plots", "--json")
    assert stored["strategies"] == named["strategies"]


def test_a_recipe_of_fewer_samples_than_the_profile_is_refused(run, config):
    done = run("compare", "--current", config.name, "--no-plots")
    assert "leaves out" in done.stderr
    assert "batchstat recipe" not in done.stdout
    refused = run("recipe")
    assert refused.returncode == 3
    assert "samples that the trainer keeps; a recipe trains on all 60" in (refused.stderr)


@pytest.mark.parametrize(
    ("command", "limit"), [("compare", ()), ("check", ("--max-padding", "90%")), ("init", ())]
)
def test_a_corpus_that_is_not_here_is_not_that_of_another_run(run, config, command, limit):
    assert run("profile", "pairs.jsonl", *PAIRS).returncode == 0
    saved(config, SETTINGS | {"dataset_name": "trl-lib/Capybara"})
    done = run(command, "--current", config.name, *limit)
    assert done.returncode == 3
    assert f"{config.name} names the dataset 'trl-lib/Capybara'" in done.stderr


def test_another_tokenizer_than_the_one_that_counted_is_said(run, config):
    assert run("profile", "pairs.jsonl", *PAIRS).returncode == 0
    for values, is_said in (({}, False), ({"model_name_or_path": "./other"}, True)):
        saved(config, SETTINGS | values)
        done = run("compare", "--current", config.name, "--no-plots")
        assert done.returncode == 0
        said = "trains with the tokenizer ./other, but builtin counted the profile: pass the corpus"
        assert (said in done.stderr) == is_said


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        (SETTINGS, {"train_sampling_strategy": "group_by_length"}),
        ({"per_device_train_batch_size": 2, "warmup_ratio": 0.0}, {"group_by_length": True}),
    ],
)
def test_the_change_is_for_the_trainer_of_the_configuration(run, tmp_path, values, keys):
    rng = random.Random(0)
    lengths = [round(5 * 2 ** rng.uniform(0, 6)) for _ in range(300)]
    rows = [{"input_ids": [7] * length, "labels": [7] * length} for length in lengths]
    write_jsonl(tmp_path / "ids.jsonl", rows)
    saved(tmp_path / "a.json", values)
    columns = ("--tokens-column", "input_ids", "--trained-column", "labels")
    done = run("compare", "ids.jsonl", *columns, "--current", "a.json", "--no-plots")
    [begin] = [each for each in done.stdout.splitlines() if each.startswith("change ")]
    assert "hf-group-by-length" in begin
    assert f" {json.dumps(keys)[1:-1]} in a.json\n" in done.stdout


def test_the_framework_can_be_named(run, tmp_path):
    write_jsonl(tmp_path / "texts.jsonl", [{"text": "word " * i} for i in range(1, 30)])
    saved(tmp_path / "few.json", {"seed": 1})
    for framework, longest in (("trl", 1024), ("transformers", 30)):
        named = ("--current", "few.json", "--framework", framework)
        compared = printed(run, "compare", "texts.jsonl", *named, "--json", "--no-plots")
        assert compared["basis"]["max_length"] == longest


def test_what_the_trainer_drops_is_limited(run, config, tmp_path):
    """By the tokens of the whole corpus: of a pair whose completion begins beyond max_length, none
    is trained on."""
    columns = {"prompt_column": "prompt", "completion_column": "completion"}
    profile = batchstat.profile(tmp_path / "pairs.jsonl", **columns)
    is_left = profile.trained.counts(stops=48) > 0
    dropped = [n for n, left in zip(profile.lengths, is_left, strict=True) if not left]
    cut = [n - 48 for n, left in zip(profile.lengths, is_left, strict=True) if left and n > 48]
    row = checked(run, "--current", config.name, "--max-dropped", "0%", code=1)["strategy"]
    assert row["dropped_samples"] == len(dropped)
    assert row["dropped_ratio"] == sum(dropped) / sum(profile.lengths)
    assert row["truncated_tokens"] == sum(cut)
    done = run("init", "--current", config.name)
    assert f"sft.json leaves out {len(dropped)} of 60 samples" in done.stderr
    assert (
        f"# measured {100 * row['dropped_ratio']:.2f}%" in (tmp_path / "batchstat.toml").read_text()
    )


def test_remedies_are_keys_of_the_configuration(run, config):
    """Pasted into it, they change the training, and the check with it."""
    own = SETTINGS | naming("pairs.jsonl") | {"gradient_accumulation_steps": 1}
    saved(config, own)
    padding = checked(run, "--current", config.name, "--max-padding", "0%", code=1)
    percent = 100 * padding["strategy"]["padding_ratio"] - 1
    arguments = ("check", "--current", config.name, "--max-padding", f"{percent:.2f}%")
    done = run(*arguments, "--format", "json")
    assert done.returncode == 1, done.stderr
    [outcome] = json.loads(done.stdout)["checks"][0]["limits"]
    remedy = outcome["remedy"]
    assert remedy["change"] == '"train_sampling_strategy": "group_by_length" in sft.json'
    assert remedy["then"] == ""  # the check reads the file
    saved(config, own | remedy["settings"])
    assert run(*arguments).returncode == 0
    after = checked(run, *arguments[1:])["strategy"]["padding_ratio"]
    assert after == pytest.approx(remedy["value"])
    # Where a step has several batches, what keeps every step comes first: a sampler's batches.
    saved(config, own | {"gradient_accumulation_steps": 2})
    done = run(*arguments, "--format", "json")
    [outcome] = json.loads(done.stdout)["checks"][0]["limits"]
    assert "regrouped:of=hf-trainer" in outcome["remedy"]["change"]
    assert run("check", *shlex.split(outcome["remedy"]["then"])[1:], *arguments[3:]).returncode == 0


def test_a_remedy_that_packs_says_what_it_needs(run, config):
    saved(config, SETTINGS | naming("pairs.jsonl") | {"completion_only_loss": False})
    done = run("check", "--current", config.name, "--max-padding", "0%")
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert re.search('"packing": true in sft.json gives 0.00%, with .*varlen attention', text)


def told(document: Any) -> Any:
    """A document but for when it was made, and what a command adds."""
    return {key: value for key, value in encoded(document).items() if key != "created"}


def encoded(document: Any) -> Any:
    return json.loads(json.dumps(document))


def test_compare_takes_it_in_python(run, config, tmp_path, monkeypatch):
    arguments = ("--current", config.name, "--world-size", 2)
    expected = printed(run, "compare", *arguments, "--json", "--no-plots")
    monkeypatch.chdir(tmp_path)
    for profile in (None, batchstat.profile(**READ)):
        made = batchstat.compare(profile, current=config.name, world_size=2)
        document = told(comparison_document(made))
        assert document.keys() == expected.keys() - {"created"}
        # What it drops is said, as the command says it.
        assert document["warnings"] == expected["warnings"]
        same = document.keys() - {"corpus"}
        assert {key: document[key] for key in same} == {key: expected[key] for key in same}
    with pytest.raises(batchstat.OptionError, match="which samples it keeps is unknown"):
        batchstat.compare([1, 2, 3], current=config.name)
    with pytest.raises(batchstat.OptionError, match="no samples: pass a profile or lengths, or a"):
        batchstat.compare(current="hf-trainer")


def test_check_takes_it_in_python(run, config, tmp_path, monkeypatch):
    limits = ["--max-padding", "1%", "--max-dropped", "0%"]
    [expected] = printed(
        run, "check", "--current", config.name, *limits, "--format", "json", code=1
    )["checks"]
    monkeypatch.chdir(tmp_path)
    made = batchstat.check(
        None, {"max-padding": "1%", "max-dropped": "0%"}, current=Path(config.name)
    )
    assert encoded(made.report)["strategy"] == expected["report"]["strategy"]
    less = f"{100 * made.report['strategy']['padding_ratio'] - 1:.2f}%"
    [failure] = batchstat.check(None, {"max-padding": less}, current=Path(config.name)).failures
    assert failure.remedy is not None
    assert failure.remedy.change.startswith("training with current='regrouped:")
    assert failure.remedy.then == "check with the same"
    with pytest.raises(batchstat.OptionError, match="lengths are not enough"):
        batchstat.check([1, 2], {"max-padding": "1%"})


def test_balance_and_buckets_take_it_in_python(run, tmp_path, monkeypatch):
    rows = [{"text": "word " * (1 + i % 20), "label": "ab"[i % 9 == 0]} for i in range(100)]
    write_jsonl(tmp_path / "r.jsonl", rows)
    saved(tmp_path / "t.json", {"per_device_train_batch_size": 4, "dataloader_drop_last": True})
    arguments = ("r.jsonl", "--text-column", "text", "--label-column", "label")
    expected = printed(run, "balance", *arguments, "--current", "t.json", "--json", "--no-plots")
    monkeypatch.chdir(tmp_path)
    profile = batchstat.profile("r.jsonl", text_column="text", label_column="label")
    made = told(balance_document(batchstat.balance(profile, current="t.json")))
    assert made["samplers"] == expected["samplers"]
    by_file = batchstat.find_buckets(profile, current="t.json", buckets=3)
    by_hand = batchstat.find_buckets(profile, batch_size=4, drop_last=True, buckets=3)
    assert by_file.chosen.edges == by_hand.chosen.edges
    assert by_file.basis.drop_last
