"""`preflight --calibration`: time, memory and cost of a trainer's configuration."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.errors import InputError, OptionError
from batchstat.trainers.preflight.report import Preflight
from calibrated import Constants, calibration, estimate, write
from conftest import check_schema, write_jsonl

LENGTHS = np.random.default_rng(3).integers(1, 700, 203).tolist()
SLOW = Constants(step=0.04, batch=0.02, token=5e-5, pair=4e-8)
TRAINED = {
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_train_epochs": 3,
    "learning_rate": 1e-5,
}
IN_SEQUENCE = TRAINED | {"train_sampling_strategy": "sequential"}


@pytest.fixture
def reported(tmp_path):
    """Reports on a corpus of given lengths."""
    path = write_jsonl(tmp_path / "a.jsonl", [{"ids": [1] * n} for n in LENGTHS])
    profile = batchstat.profile(path, tokens_column="ids")

    def report(values: dict[str, Any], **given: Any) -> Preflight:
        (tmp_path / "args.json").write_text(json.dumps(values))
        return batchstat.preflight(tmp_path / "args.json", profile, max_length=512, **given)

    return report


def seconds_by_hand(constants: Constants, steps: int) -> float:
    """Batch by batch, in as many steps of two batches, then from the beginning again."""
    widths = [max(min(n, 512) for n in LENGTHS[i : i + 4]) for i in range(0, len(LENGTHS), 4)]
    rows = [len(LENGTHS[i : i + 4]) for i in range(0, len(LENGTHS), 4)]
    batches = list(zip(rows, widths, strict=True))
    pairs = [batches[i : i + 2] for i in range(0, len(batches), 2)]
    seen: set[tuple[int, int]] = set()
    found = 0.0
    for step in range(steps):
        found += constants.step
        for n, width in pairs[step % len(pairs)]:
            found += constants.seconds(n * width, n * width**2)
            found += 0 if (n, width) in seen else constants.shape
            seen.add((n, width))
    return found


@pytest.mark.parametrize("compiles", [False, True])
def test_times_are_those_of_a_loop_over_its_batches(reported, compiles):
    constants = Constants(step=0.04, batch=0.02, token=5e-5, pair=4e-8, shape=1.5 * compiles)
    report = reported(
        IN_SEQUENCE, calibration=calibration(constants, compile=compiles), cost_per_hour=7.2
    )
    epoch = report.simulation.row.on_device
    assert report.total_steps == 3 * report.steps_per_epoch == 78
    assert epoch.seconds == pytest.approx(seconds_by_hand(constants, 26))
    assert report.total_seconds == pytest.approx(seconds_by_hand(constants, 78))
    assert report.total_cost == pytest.approx(report.total_seconds * 7.2 / 3600)


def test_a_rank_costs_as_much_as_another(reported):
    report = reported(TRAINED, calibration=calibration(SLOW), cost_per_hour=2, world_size=3)
    seconds = report.simulation.row.on_device.seconds
    assert report.total_seconds == pytest.approx(3 * seconds)
    assert report.total_cost == pytest.approx(3 * 3 * seconds * 2 / 3600)


def test_the_speed_up_of_a_change_is_of_time(reported):
    report = reported(TRAINED, calibration=calibration(SLOW))
    change = report.changes.star
    before, after = (each.row.on_device.seconds for each in (report.simulation, change))
    assert change.speed_up == pytest.approx(before / after)
    by_tokens = reported(TRAINED).changes.star
    assert change.speed_up != pytest.approx(by_tokens.speed_up, rel=0.01)


def test_a_change_that_does_not_fit_is_not_offered(tmp_path):
    """Packed rows are as long as they may be, those of one sample only as long as that."""
    path = write_jsonl(tmp_path / "a.jsonl", [{"ids": [1] * (n // 8 + 1)} for n in LENGTHS])
    profile = batchstat.profile(path, tokens_column="ids")
    (tmp_path / "sft.json").write_text(json.dumps(TRAINED | {"max_length": 512}))

    def offered(fits: int) -> list[Any]:
        device = calibration(SLOW, fits=SLOW.peak(fits))
        report = batchstat.preflight(tmp_path / "sft.json", profile, calibration=device)
        assert report.simulation.row.on_device.fits_memory
        changes = report.changes
        found = (*changes.ranked, *changes.others, *([changes.packed] if changes.packed else []))
        return [list(change.keys) for change in found if change.keys is not None]

    assert offered(4 * 512) == [["train_sampling_strategy"], ["packing"]]
    assert offered(1024) == [["train_sampling_strategy"]]


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        (1500, "batches of at most 1,024 tokens fit, so lower its"),
        (300, "not even one row of 512 tokens fits, so lower its"),
    ],
)
def test_what_does_not_fit_has_a_remedy_of_the_configuration(reported, fits, words):
    report = reported(TRAINED, calibration=calibration(SLOW, fits=SLOW.peak(fits)))
    [warning] = [each.message for each in report.warnings if each.id == "device/does-not-fit"]
    assert "peak memory is above the " in warning
    assert words in warning
    assert "--tokens-per-batch" not in warning
    assert "--max-length" not in warning


def test_an_estimate_of_memory_has_no_time(reported):
    report = reported(TRAINED, calibration=estimate(4 * 2**30))
    assert report.total_seconds is report.total_cost is None
    assert report.simulation.row.counts.peak_bytes
    with pytest.raises(OptionError, match="needs the time of an epoch"):
        reported(TRAINED, calibration=estimate(), cost_per_hour=2)


def test_gradients_that_accumulation_keeps_count(reported):
    kept = calibration(SLOW, gradients=2**30)
    peaks = [
        reported(TRAINED | {"gradient_accumulation_steps": steps}, calibration=kept)
        for steps in (1, 2)
    ]
    once, twice = (report.simulation.row.counts.peak_bytes for report in peaks)
    assert twice - once == 2**30


def test_a_configuration_that_trains_otherwise_is_refused(reported):
    with pytest.raises(InputError, match=r"dtype=bfloat16, but .*args.json trains with dtype=floa"):
        reported(TRAINED | {"fp16": True}, calibration=calibration(SLOW))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a corpus, a configuration and a calibration."""
    write_jsonl(tmp_path / "a.jsonl", [{"ids": [1] * n} for n in LENGTHS])
    (tmp_path / "args.json").write_text(json.dumps(TRAINED))
    write(tmp_path / "h100.json", calibration(SLOW))
    return tmp_path


READ = ("a.jsonl", "--tokens-column", "ids", "--world-size", 2, "--calibration", "h100.json")


def test_the_screen_and_the_file_have_them(cli, folder):
    code, out, err = cli("preflight", "args.json", *READ, "--cost-per-hour", 2.5)
    assert code == 0, err
    report = json.loads((folder / "batchstat-results/preflight.json").read_text())
    check_schema(report, "preflight")
    total, epoch = report["schedule"], report["strategy"]
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if line[:1].isalpha())
    off = f"±{100 * report['calibration']['time_residual']:.1f}%"
    assert lines["time"] == (
        f"{epoch['seconds']:.1f} s {off} per epoch · {total['total_seconds']:.1f} s in all · "
        f"cost {epoch['cost']:#.2g} {off} per epoch · {total['total_cost']:#.2g} in all"
    )
    assert lines["device"].startswith("h100.json: NVIDIA H200")
    assert f"{epoch['peak_bytes'] / 2**30:.1f} GiB ±" in lines["padding"]
    assert lines["ranks"].startswith("104 samples and 13 steps each · idle ")
    assert re.search(r", \d\.\d\dx ±\d\.\d\d faster: ", lines["result"])
    compare = shlex.split(out[out.index("batchstat compare") :])
    done, compared, err = cli(*compare[1:], "--json", "--no-plots")
    assert done == 0, err
    assert json.loads(compared)["strategies"][0]["seconds"] == epoch["seconds"]


def test_without_a_calibration_there_is_no_time(cli, folder):
    code, out, err = cli("preflight", "args.json", *READ[:5])
    assert code == 0, err
    report = json.loads((folder / "batchstat-results/preflight.json").read_text())
    check_schema(report, "preflight")
    assert report["calibration"] is report["schedule"]["total_seconds"] is None
    assert "\ntime " not in out
    assert "GiB" not in out


def test_a_calibration_is_read_before_anything_is_counted(cli, folder):
    code, _, err = cli("preflight", "args.json", *READ[:-1], "missing.json")
    assert code == 3
    assert "no such file: missing.json" in err
    assert not (folder / "batchstat-results").exists()
