"""What a repository configures, and what is in force."""

import json
import re
import tomllib
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from batchstat.cli.configuration import load_configuration
from batchstat.errors import OptionError
from batchstat.render.command_lines import configuration_toml
from conftest import Run

CORPUS = "some words of a text\nand more of them\n" * 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "a.txt").write_text(CORPUS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = {
    "corpos = 'a.txt'": "unknown key 'corpos': did you mean 'corpus'?",
    "tokens_per_batch = 5": "did you mean 'tokens-per-batch'?",
    "tokens-per-batch = '5'": "tokens-per-batch='5': must be a whole number",
    "tokens-per-batch = true": "must be a whole number",
    "tokens-per-batch = 0": "must be between 1 and",
    "drop-last = 1": "drop-last=1: must be true or false",
    "corpus = ['a', 5]": "corpus=5: must be text",
    "tokenizer = ''": "tokenizer='': must be text",
    "order = 'shufled'": "did you mean 'shuffled'?",
    "on-error = 'stop'": "unknown on_error 'stop'",
    "current = 'token-budget:read_ahed=1'": "did you mean 'read_ahead'?",
    "text-column = 'a'\nlength-column = 'b'": "are mutually exclusive",
    "limits = 5": "limits: must be a table",
    "limits.max-padding = 15": r"\[limits\]: max-padding='15': did you mean 15%\?",
    "limits.max-paddin = '5%'": r"\[limits\]: unknown limit 'max-paddin'",
    "checks = 5": "name checks, as in [checks.sft]",
    "[checks]": "name checks, as in [checks.sft]",
    "[checks.a.checks.b]\nseed = 1": r"\[checks.a\]: unknown key 'checks'",
    "checks.a = 5": r"\[checks.a\]: must be a table",
    "[checks.a]\nseed = -1": r"\[checks.a\]: seed=-1",
    "[checks.a.limits]\nmin-fill = 7": r"\[checks.a.limits\]: min-fill='7'",
    "corpus = ": "batchstat.toml is not valid TOML",
}
NUMBERS_AND_DEPTHS = [
    f"seed = {'9' * 5000}",
    f"seed = 0x{'f' * 5000}",
    f"tokenizer = 0x{'f' * 5000}",
    f"corpus = [0x{'f' * 5000}]",
    f"limits.lengths.max = 0x{'f' * 5000}",
    f"[limits]\nmax-padding = {{limit = 0x{'f' * 5000}}}",
    f"[checks.a.limits]\nlengths.max = {{max = {2**64}}}",
    f"{'a.' * 5000}b = 1",
    f"seed = {'[' * 5000}",
    f"seed = {2**63}",
]
"""That no configuration has."""
WRONG |= dict.fromkeys(NUMBERS_AND_DEPTHS, "batchstat.toml")


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_meant(folder, text):
    (folder / "batchstat.toml").write_text(text)
    message = WRONG[text]
    with pytest.raises(OptionError) as raised:
        load_configuration()
    assert re.search(message if "\\" in message else re.escape(message), str(raised.value))
    assert len(str(raised.value)) < 2_000


def test_mistakes_name_the_table_and_exit_with_2(folder, run: Run):
    (folder / "pyproject.toml").write_text("[tool.batchstat]\nsede = 1\n")
    for command in ("check", "compare", "profile", "config"):
        result = run(command)
        assert result.returncode == 2
        assert result.stderr.startswith(
            "error: pyproject.toml [tool.batchstat]: unknown key 'sede': did you mean 'seed'?"
        )
    assert run("profile", "a.txt", "--no-config", "--no-plots").returncode == 0
    (folder / "pyproject.toml").write_text("[tool.batchstat\n")
    assert run("profile", "a.txt", "--no-plots").returncode == 2


def test_the_nearest_file_counts(folder, monkeypatch):
    below = folder / "below" / "there"
    below.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.batchstat]\nseed = 1\ncorpus = 'a.txt'\n")
    (folder / "below" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    found = load_configuration()
    assert (found.path, found.shared.values["seed"].value) == ("pyproject.toml", 1)
    monkeypatch.chdir(below)
    found = load_configuration()
    assert found.path == "../../pyproject.toml"
    assert found.shared.values["corpus"].value == ("../../a.txt",)
    (folder / "below" / "batchstat.toml").write_text("seed = 2\n")
    assert load_configuration().shared.values["seed"].value == 2
    (folder / "batchstat.toml").write_text("seed = 3\n")
    assert load_configuration().shared.values["seed"].value == 2
    assert load_configuration(folder / "batchstat.toml").shared.values["seed"].value == 3


def test_checks_share_what_they_do_not_say(folder):
    (folder / "batchstat.toml").write_text(
        "corpus = 'a.txt'\nseed = 1\ntext-column = ['a', 'b']\nlabel-column = 2\n"
        "[limits]\nmax-padding = '5%'\nmin-fill = '50%'\n"
        "[checks.one]\nseed = 2\nlimits.max-padding = 'off'\nlimits.max-p99 = 10\n"
        "[checks.two]\n"
    )
    one, two = load_configuration().checks
    assert one.values["seed"].value == 2
    assert one.values["seed"].origin == "batchstat.toml [checks.one]"
    assert two.values["seed"].value == 1
    assert two.values["text_column"].value == ("a", "b")
    assert two.values["label_column"].value == ("2",)
    assert one.limits["max strategy.padding_ratio"] is None
    assert one.limits["max lengths.p99"].origin == "batchstat.toml [checks.one.limits]"
    assert one.limits["min strategy.fill"].origin == "batchstat.toml [limits]"
    assert set(two.limits) == {"max strategy.padding_ratio", "min strategy.fill"}


def in_force(text: str) -> dict[str, tuple[str, str]]:
    """Keys with their values and origins, as `config` prints them."""
    starts = [text.splitlines()[0].index(word) for word in ("key", "value", "set in")]
    found = {}
    for line in text.splitlines()[1:]:
        key, value = line[: starts[1]].strip(), line[starts[1] : starts[2]].strip()
        found[key] = (value, line[starts[2] :].strip())
    return found


def test_config_says_what_is_in_force_and_from_where(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "corpus = ['a.txt']\nseed = 1\nread-ahead = 500\nmessages-column = 'm'\n"
        "chat-template = 't.jinja'\n[limits]\nmax-padding = '5%'\nmin-fill = '50%'\n"
    )
    options = ["--read-ahead", 9, "--min-fill", "60%", "--text-column", "text"]
    result = run("config", *options)
    assert result.returncode == 0, result.stderr
    found = in_force(result.stdout)
    assert found["corpus"] == ("a.txt", "batchstat.toml")
    assert found["seed"] == ("1", "batchstat.toml")
    assert found["read-ahead"] == ("9", "--read-ahead on the command line")
    assert found["tokens-per-batch"] == ("", "not set")
    assert found["max-length"] == ("", "not set")
    assert found["max-padding"] == ("5%", "batchstat.toml [limits]")
    assert found["min-fill"] == ("60%", "the command line")
    assert found["text-column"] == ("text", "--text-column on the command line")
    assert found["messages-column"] == found["chat-template"] == ("", "not set")


@pytest.mark.usefixtures("folder")
def test_config_shows_the_limit_that_comes_with_a_base(run: Run):
    found = in_force(run("config", "--base", "b.json").stdout)
    assert found["max-increase"] == ("0", "a default, which --max-increase changes")


def test_a_flag_for_one_kind_of_content_takes_the_place_of_others(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "text-column = 'text'\nstrip = true\ntokenizer = 'builtin'\n"
    )
    (folder / "n.csv").write_text("text,n,m\nsome words,5,x\n")
    kept = in_force(run("config", "--text-column", "m").stdout)
    assert kept["strip"] == ("true", "batchstat.toml")
    for flag in ("--length-column", "--messages-column"):
        found = in_force(run("config", flag, "n").stdout)
        assert found["text-column"][1] == "not set"
        assert found["strip"][1] == "default"
    result = run("profile", "n.csv", "--length-column", "n", "--no-plots")
    assert result.returncode == 0, result.stderr


def test_a_flag_for_text_takes_the_place_of_what_is_for_chats(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "messages-column = 'messages'\nassistant-only-loss = true\n"
    )
    (folder / "n.jsonl").write_text('{"text": "some words", "prompt": "p", "completion": "c"}\n')
    assert in_force(run("config").stdout)["assistant-only-loss"] == ("true", "batchstat.toml")
    for flags in (
        ["--text-column", "text"],
        ["--prompt-column", "prompt", "--completion-column", "completion"],
    ):
        result = run("profile", "n.jsonl", *flags, "--no-plots")
        assert result.returncode == 0, result.stderr


def test_flags_beat_the_file_and_the_file_beats_defaults(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "corpus = 'a.txt'\ntokens-per-batch = 64\nseed = 5\ncurrent = 'static:batch_size=3'\n"
    )
    basis = json.loads(run("compare", "--json", "--no-plots", "--seed", 7).stdout)
    assert basis["basis"]["tokens_per_batch"] == 64
    assert basis["basis"]["seed"] == 7
    assert basis["basis"]["read_ahead"] == 10_000
    names = [row["name"] for row in basis["strategies"]]
    grouped = "hf-group-by-length"
    assert names == ["static", "fixed", "bucketed", grouped, "token-budget", "packed"]
    assert basis["strategies"][0]["params"]["batch_size"] == 3
    rows = json.loads(run("compare", "--json", "--no-plots", "--strategy", "fixed").stdout)
    assert [row["name"] for row in rows["strategies"]] == ["static", "fixed"]
    assert run("profile", "--no-plots").returncode == 0
    assert run("compare", "--no-config", "--no-plots").stderr.count("settings from") == 0


def test_init_proposes_limits_that_hold(folder, run: Run):
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'")
    result = run("init", "a.txt", "--tokens-per-batch", 64, "--current", "token-budget")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("wrote to pyproject.toml: max-padding ")
    text = (folder / "pyproject.toml").read_text()
    assert text.startswith("[project]\nname = 'x'\n\n[tool.batchstat]\ncorpus = \"a.txt\"\n")
    own = tomllib.loads(text)["tool"]["batchstat"]
    assert own["tokens-per-batch"] == 64
    limits = {"max-padding", "min-fill", "max-truncated", "min-samples", "max-over-budget"}
    assert set(own["limits"]) == limits
    check = run("check")
    assert check.returncode == 0, check.stdout
    assert "all 5 limits are kept" in check.stdout
    again = run("init", "a.txt")
    assert again.returncode == 3
    assert "already has settings for batchstat" in again.stderr
    assert (folder / "pyproject.toml").read_text() == text


def test_init_without_a_project(folder, run: Run):
    (folder / "l.csv").write_text("text,label\n" + "some words,a\n" * 9 + "others,b\n" * 2)
    options = ["--text-column", "text", "--label-column", "label", "--drop-last"]
    options += ["--tokens-per-batch", 4]
    result = run("init", "l.csv", *options)
    assert result.returncode == 0, result.stderr
    limits = tomllib.loads((folder / "batchstat.toml").read_text())["limits"]
    assert limits["max-class-ratio"] == 5.0
    assert "max-dropped" in limits
    assert run("init", "a.txt").returncode == 3
    (folder / "batchstat.toml").unlink()
    assert run("init").returncode == 2
    assert run("init", "-").returncode == 2
    (folder / "pyproject.toml").write_text("tool = {}\n")
    refused = run("init", "a.txt")
    assert refused.returncode == 3
    assert "cannot add the settings to pyproject.toml" in refused.stderr


ODD = [
    "tool = 3\n",
    "tool = 'batchstat'\n",
    "[[tool]]\nbatchstat = 1\n",
    "[tool.other]\n",
    "",
]


@pytest.mark.parametrize("text", ODD)
def test_a_pyproject_that_has_nothing_for_batchstat(folder, text):
    (folder / "pyproject.toml").write_text(text)
    assert load_configuration().path is None


@pytest.mark.parametrize("text", ["[[tool.batchstat]]\nseed = 1\n", "[tool]\nbatchstat = 3\n"])
def test_settings_that_are_no_table(folder, text):
    (folder / "pyproject.toml").write_text(text)
    with pytest.raises(OptionError, match=r"pyproject.toml \[tool.batchstat\]: must be a table"):
        load_configuration()


def test_odd_files(folder):
    (folder / "pyproject.toml").write_text("x = " + "[" * 5000)
    with pytest.raises(OptionError, match="is not valid TOML"):
        load_configuration()
    (folder / "pyproject.toml").write_bytes(b"\xef\xbb\xbf[tool.batchstat]\r\nseed = 4\r\n")
    assert load_configuration().shared.values["seed"].value == 4


def test_init_keeps_line_ends_links_and_modes(folder, run: Run):
    real = folder / "real.toml"
    real.write_bytes(b"[project]\r\nname = 'x'\r\n")
    real.chmod(0o600)
    (folder / "pyproject.toml").symlink_to("real.toml")
    assert run("init", "a.txt").returncode == 0
    assert (folder / "pyproject.toml").is_symlink()
    data = real.read_bytes()
    assert data.startswith(b"[project]\r\nname = 'x'\r\n\r\n[tool.batchstat]\r\n")
    assert data.count(b"\n") == data.count(b"\r\n")
    assert real.stat().st_mode & 0o777 == 0o600
    assert run("check").returncode == 0


@pytest.mark.usefixtures("folder")
def test_init_proposes_no_fill_above_what_can_be_written(run: Run):
    result = run("init", "a.txt", "--current", "static:batch_size=5000", "--tokens-per-batch", 16)
    assert result.returncode == 0
    assert run("check").returncode in (0, 1)


def test_flags_beat_limits_by_path_and_switches_can_be_undone(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "corpus = 'a.txt'\ndrop-last = true\nstrip = true\n"
        "[limits]\nlengths.p99 = {max = 0}\nmax-padding = '0%'\n"
        "[checks.a.limits]\nstrategy.padding_ratio = 'off'\n"
    )
    found = in_force(run("config", "--max-p99", 1000, "--no-drop-last", "--no-strip").stdout)
    assert found["max-p99"] == ("1000", "the command line")
    assert "max lengths.p99" not in found
    assert "max-padding" not in found
    assert found["drop-last"][0] == found["strip"][0] == "false"
    empty = run("config", "--max-padding", "")
    assert empty.returncode == 2
    assert "--max-padding is empty" in empty.stderr


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(TEXT, st.lists(TEXT, min_size=2), st.integers(0, 10**9), st.booleans())
def test_what_is_written_is_read_back(one, several, number, flag):
    values = {"a": one, "b": tuple(several), "c": number, "d": flag}
    text = configuration_toml("tool.batchstat", values, [("max-padding", '"5%"', "measured 4%")])
    found = tomllib.loads(text)["tool"]["batchstat"]
    assert found.pop("limits") == {"max-padding": "5%"}
    assert found == {"a": one, "b": several, "c": number, "d": flag}


def test_a_tokenizer_whose_name_is_too_long_for_a_file(tmp_path):
    (tmp_path / "batchstat.toml").write_text(f"tokenizer = '{'a' * 10_000}'")
    found = load_configuration(tmp_path / "batchstat.toml")
    assert found.shared.values["tokenizer"].value == "a" * 10_000


def test_a_model_of_the_configuration_is_found_from_its_folder(run, tmp_path):
    (tmp_path / "shape").mkdir()
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4}
    (tmp_path / "shape" / "config.json").write_text(json.dumps(config))
    (tmp_path / "a.txt").write_text("some words\n" * 20)
    (tmp_path / "batchstat.toml").write_text('corpus = "a.txt"\nmodel = "shape"\n')
    (tmp_path / "below").mkdir()
    below = run("compare", "--no-plots", cwd=tmp_path / "below")
    assert "hidden 64, 3 layers" in below.stdout
    named = run("compare", "--no-plots", "--model", "gpt2", cwd=tmp_path)
    assert "hidden 768, 12 layers" in named.stdout
    edges = ("buckets", "--no-plots", "--buckets", 1)
    assert run(*edges, "--cost", "linear").returncode == 0
    assert run(*edges, "--cost", "linear", "--model", "gpt2").returncode == 2
    assert json.loads(run(*edges, "--json").stdout)["cost"] == "model"
