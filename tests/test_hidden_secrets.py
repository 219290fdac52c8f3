"""Secrets in commands, settings and texts: hidden in every form, and nothing else is."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchstat.errors import InputError
from batchstat.hidden_secrets import LEFT_OUT, hidden_in, without_secrets

CANARY = "S3cretZq9"
NAMES = (
    *("hub_token", "HF_TOKEN", "token", "TOKEN_2", "hubToken", "hftoken", "use_auth_token"),
    *("key", "KEY", "api-key", "apiKey", "WANDB_API_KEY", "aws_secret_access_key", "TOKEN_HF"),
    *("password", "PASSWD", "db-pass", "MYSQL_PWD", "passphrase", "auth", "credentials"),
    *("client_secret", "trainer.logger.api_key", "MY-TOKEN", "TEST_TOKEN", "data.api_key"),
)
"""Of options and keys whose values are secrets."""
PLAIN = {
    "pad_token": "PAD",
    "eos_token": "END",
    "image_token": "<image>",
    "model.pad_token": "!x",
    "max_new_tokens": "64",
    "max_token": "1e3",
    "tokens_per_batch": "4096",
    "pad_token_id": "0",
    "tokenizer": "gpt2",
    "num_key_value_heads": "8",
    "key_column": "text",
    "sort_key": "length",
    "text_key": "text",
    "primary_key": "id",
    "metric_key_prefix": "eval",
    "author": "me",
    "keyword": "x",
    "token": "$HF_TOKEN",
    "use_auth_token": "true",
    "key": "0",
    "ssh_key": "none",
    "token_file": "token.txt",
    "password_file": "p.txt",
    "key_path": "~/.ssh/id",
    "model": "hf_model",
    "script": "task-1234567890123456789",
    "lang": "sk-cs",
    "n_pass": "two",
}
BEGIN = ("hf_", "sk-", "ghp_", "github_pat_", "glpat-", "xoxb-", "eyJ", "Bearer ")


@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_a_secret_name_is_hidden(name):
    words = (
        ["train.py", f"--{name}", CANARY, "--lr", "1"],
        [f"--{name}={CANARY}", "data.txt"],
        ["env", f"{name}={CANARY}", "python"],
        ["--config", json.dumps({"model": [{name: CANARY}], "n": 3})],
        [f"--config={json.dumps({name: CANARY})}"],
        ["--optim_args", f"lr=1,{name}={CANARY}"],
        ["bash", "-c", f"{name}='{CANARY}' python train.py --lr=1"],
        ["bash", "-c", f"python train.py --{name} {CANARY} --lr 1"],
        ["-c", f'os.environ["{name}"] = "{CANARY}"'],
        [f"+model.kwargs={{{name}:{CANARY}}}"],
        [f"--{name}=a, b {CANARY}"],
        json.loads(json.dumps({name: [CANARY, {"x": CANARY}]})),
    )
    for each in words:
        shown = hidden_in(each)
        assert CANARY not in str(shown)
        assert LEFT_OUT in str(shown)
        assert hidden_in(shown) == shown
        assert len(shown) == len(each)  # each word stays, to be completed
    for text in (
        f"cannot start x --{name} {CANARY}",
        f"{name}={CANARY}: no",
        f"{{'{name}': '{CANARY}'}}",
    ):
        assert CANARY not in without_secrets(text)
        assert CANARY not in str(InputError(text))


@pytest.mark.parametrize("begin", BEGIN)
def test_a_token_is_hidden_wherever_it_stands(begin):
    for text in (f"{begin}{CANARY}", f"a {begin}{CANARY}, b", f"x={begin}{CANARY}"):
        assert CANARY not in without_secrets(text)
        assert CANARY not in str(hidden_in({"notes": [text]}))


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_no_secret_is_shown(name):
    value = PLAIN[name]
    for words in ([f"--{name}", value], [f"--{name}={value}"], [f"{name}={value}"]):
        assert hidden_in(words) == words
        assert without_secrets(shlex.join(words)) == shlex.join(words)
    settings = {"model_kwargs": {name: value}, "flag": True, "none": None, "number": 3}
    assert hidden_in(settings) == settings


def test_flags_sentences_and_numbers_are_shown():
    for words in (["--use_auth_token", "--push_to_hub"], ["--per-token", "data.json"]):
        assert hidden_in(words) == words
    settings = {"token": 3, "pad_token": None, "password": 3}
    assert hidden_in(settings) == settings | {"password": LEFT_OUT}
    for text in ("token: must be a text", "hides a secret: pass the whole", "no key 'x' in y"):
        assert without_secrets(text) == text


NESTED = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.sampled_from(NAMES), inner)),
)


@given(NESTED, st.text(max_size=60))
def test_any_settings_and_texts_stay_of_their_kind(settings, text):
    shown = hidden_in(settings)
    assert hidden_in(shown) == shown
    assert json.loads(json.dumps(shown)) == shown
    assert isinstance(without_secrets(text), str)
    assert CANARY not in str(hidden_in({"password": [settings, CANARY]}))
    assert CANARY not in without_secrets(f"--hub_token {CANARY} {text}")
