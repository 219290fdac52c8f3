import os

import pytest

from conftest import ROOT


def test_without_torch_the_message_says_how_to_get_it(tmp_path, run_process):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = run_process("calibrate", "--model", "small", PYTHONPATH=path)
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr == (
        "error: calibrate needs torch, which is not installed: run python -m pip install "
        "'.[torch]' in a clone of batchstat\n"
    )


@pytest.mark.parametrize(
    ("output", "reason"),
    [("taken.json", "it is a folder"), ("file/x.json", "file is not a folder")],
)
def test_a_file_that_cannot_be_written_is_refused_before_any_work(run, tmp_path, output, reason):
    (tmp_path / "taken.json").mkdir()
    (tmp_path / "file").touch()
    result = run("calibrate", "--model", "gpt2", "--estimate", "-o", output)
    assert result.returncode == 3
    assert f"cannot be written: {reason}: name another with -o" in result.stderr.replace(
        f"{tmp_path.as_posix()}/", ""
    )
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "no model: pass --model with a folder, a name, or module:function"),
        (["--model", "m", "--dtype", "float8"], "unknown dtype 'float8': did you mean 'float32'?"),
        (["--model", "m", "--attention", "flash"], "did you mean 'flash_attention_2'?"),
        (["--model", "m", "--optimizer", "adam"], "did you mean 'adamw'?"),
        (["--model", "m", "--max-length", "0"], "max_length=0: must be between 1 and"),
        (["--model", "m", "--tokens-per-batch", "-4"], "tokens_per_batch=-4: must be between 1"),
        (
            ["--model", "m", "--mixed-precision"],
            "mixed_precision with dtype=float32: set dtype=",
        ),
        (["--model", "m", "-o", "out.txt"], "output=out.txt: must end in .json"),
        (
            ["--model", "train:step", "--dtype", "bfloat16"],
            "dtype is not for a function, which decides it by itself: remove it, and train with it",
        ),
        (["m"], "unexpected"),
    ],
)
def test_wrong_arguments_are_refused_before_torch_loads(run, flags, message):
    result = run("calibrate", *flags)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""
