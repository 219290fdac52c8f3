"""`--calibration` of buckets: on the command line, and in the configuration."""

import json
import re
import shlex

import pytest

from calibrated import Constants, calibration, write
from conftest import SAMPLE_DATA

LINES = (SAMPLE_DATA / "corpus.txt").read_text("utf-8").splitlines(keepends=True)
CORPUS = "corpus.txt"
"""A part of the sample corpus in the working folder: edges are sought among all of its lengths."""
SLOW = Constants(step=0.04, batch=0.02, token=5e-5, pair=4e-8)
BUDGET = ("--tokens-per-batch", 4096, "--no-plots")
CALIBRATED = ("--calibration", "device.json")


@pytest.fixture
def device(tmp_path):
    """A calibration in the working folder, of a device on which 5,000 tokens fit; and a corpus."""
    (tmp_path / CORPUS).write_text("".join(LINES[:200]), "utf-8")
    write(tmp_path / "device.json", calibration(SLOW, fits=SLOW.peak(5000)))
    return tmp_path


def results(folder):
    return json.loads((folder / "batchstat-results/buckets.json").read_text())


@pytest.mark.parametrize("shape", [0.0, 0.5])
def test_the_time_shown_is_that_of_the_line_to_paste(cli, device, shape):
    slow = Constants(step=0.04, batch=0.02, token=5e-5, pair=4e-8, shape=shape)
    write(device / "device.json", calibration(slow, compile=shape > 0))
    code, out, err = cli("buckets", CORPUS, *BUDGET, *CALIBRATED)
    assert code == 0, err
    found = results(device)
    best = found["times"][found["recommended"] - 1]
    assert best["seconds"] == min(each["seconds"] for each in found["times"])
    margin = f"±{100 * found['calibration']['time_residual']:.1f}%"
    words = " ".join(out.split())
    shown = f"{best['seconds']:.3f} s" if best["seconds"] < 10 else f"{best['seconds']:.1f} s"
    assert f"{best['buckets']} buckets with the least time: {shown} {margin} for 1 epoch" in words
    assert ("no time for a new shape" in words) == (shape == 0)
    assert "more buckets never" not in words
    assert f"time {margin}" in words
    assert "device device.json: NVIDIA H200" in words
    [use] = [line for line in out.splitlines() if line.startswith("use ")]
    code, _, err = cli(*shlex.split(use)[2:], "--no-plots")
    assert code == 0, err
    [row] = json.loads((device / "batchstat-results/compare.json").read_text())["strategies"]
    assert row["seconds"] == pytest.approx(best["seconds"], rel=1e-12)


@pytest.mark.usefixtures("device")
def test_what_is_extrapolated_and_what_does_not_fit_is_marked(cli, device):
    code, out, err = cli("buckets", CORPUS, "--tokens-per-batch", 6000, "--no-plots", *CALIBRATED)
    assert code == 0, err
    assert re.search(r"(?m)^8 .* ~[\d.]+ s$", out)
    words = " ".join(out.split())
    assert re.search(r"with the least time: ~[\d.]+ s", words)
    assert "~ extrapolated; ✗ does not fit the device" in words
    assert re.search(r"its peak of [\d.]+ GiB does not fit the device", words)
    assert "warning: peak memory is above the" in err
    assert "warning: time and memory are extrapolated" in err
    assert {each["id"] for each in results(device)["warnings"]} == {
        "device/does-not-fit",
        "device/extrapolated",
    }
    _, out, err = cli("buckets", CORPUS, *BUDGET, *CALIBRATED)
    assert not re.search("~|✗|extrapolated|does not fit", out + err)


@pytest.mark.parametrize(
    ("flags", "cost"),
    [
        ((), "time"),
        (("--cost", "time"), "time"),
        (("--cost", "linear"), "linear"),
        (("--cost", "model"), "model"),
        (("--model", "gpt2"), "model"),
        (CALIBRATED, "time"),
    ],
)
def test_a_calibration_of_the_configuration_is_used_unless_a_flag_has_another_cost(
    cli, device, flags, cost
):
    (device / "batchstat.toml").write_text('calibration = "device.json"\nmodel = "bert-base"\n')
    code, out, err = cli("buckets", CORPUS, *BUDGET, *flags)
    assert code == 0, err
    found = results(device)
    assert found["cost"] == cost
    assert (found["calibration"] is not None) == (found["model"] is None) == bool(
        found["times"]
    ) or cost == "linear"
    assert ("with the least time" in out) == (cost == "time")


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (
            ("--model", "gpt2", *CALIBRATED),
            2,
            "error: --model and --calibration are mutually exclusive: give one",
        ),
        (("--cost", "quadratic", *CALIBRATED), 2, "uses no calibration: remove --cost or --cal"),
        (("--cost", "time"), 2, "cost=time needs a calibration: name one with --calibration"),
        (("--calibration", "none.json"), 3, "no such file: none.json"),
    ],
)
def test_mistakes_are_one_line_before_any_work(cli, flags, code, words):
    found, out, err = cli("buckets", CORPUS, *BUDGET, *flags)
    assert (found, out) == (code, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_trainer_of_another_dtype_is_named(cli, device):
    (device / "args.json").write_text(
        '{"per_device_train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 1e-5, '
        '"fp16": true}'
    )
    (device / "batchstat.toml").write_text('current = "args.json"\n')
    code, _, err = cli("buckets", CORPUS, "--no-plots", *CALIBRATED)
    assert code == 3, err
    assert "dtype=bfloat16, but args.json trains with dtype=float16" in err


def test_the_page_has_the_times(cli, device):
    code, _, err = cli("buckets", CORPUS, *BUDGET, *CALIBRATED, "--html", "page.html")
    assert code == 0, err
    page = (device / "page.html").read_text()
    for each in results(device)["times"]:
        assert f">{each['seconds']:.3f} s<" in page or f">{each['seconds']:.1f} s<" in page
