"""`--calibration` and `--cost-per-hour` of compare, balance, and check.

Those of preflight are in tests/trainers/preflight/test_preflight_on_device.py.
"""

import json
import re
import shlex
from dataclasses import replace

import pytest

import batchstat
from calibrated import GIB, Constants, calibration, estimate, write
from conftest import SAMPLE_DATA, check_schema
from html_panel import check_row, panel_of

LINES = (SAMPLE_DATA / "corpus.txt").read_text("utf-8").splitlines(keepends=True)
CORPUS = "corpus.txt"
"""A part of the sample corpus in the working folder."""
BUDGET = ("--tokens-per-batch", 4096, "--no-plots")
COST = ("--calibration", "h100.json", "--cost-per-hour", 2.5)
SLOW = Constants(step=0.04, batch=0.02, token=5e-5, pair=4e-8)
"""So slow that an epoch takes seconds."""


@pytest.fixture
def device(tmp_path):
    """A calibration in the working folder, of a device on which 5,000 tokens fit; and a corpus."""
    (tmp_path / CORPUS).write_text("".join(LINES[:300]), "utf-8")
    write(tmp_path / "h100.json", calibration(SLOW, fits=SLOW.peak(5000)))
    return tmp_path


def test_the_screen_has_time_peak_and_cost(cli, device):
    code, out, err = cli("compare", CORPUS, *BUDGET, *COST)
    assert code == 0, err
    report = json.loads((device / "batchstat-results/compare.json").read_text())
    lines = dict(re.findall(r"(?m)^(\w+) +(.*)$", out))
    assert lines["device"] == "h100.json: NVIDIA H200, bfloat16, a-decoder"
    facts = report["calibration"]
    time, memory = (f"±{100 * facts[f'{name}_residual']:.1f}%" for name in ("time", "memory"))
    table, _, _ = out.partition("★ best")
    assert re.findall(r"±[\d.]+%", table) == [time, memory, time]
    assert lines["fits"] == f"tokens_per_batch up to {report['calibration']['tokens_that_fit']:,}"
    for row in report["strategies"]:
        [line] = [each for each in out.splitlines() if re.match(rf"\W*{row['name']}  ", each)]
        assert re.search(rf" {row['seconds']:.1f} s +{row['peak_bytes'] / GIB:.1f} GiB +", line)
        assert row["cost"] == pytest.approx(row["seconds"] / 3600 * 2.5)
        assert f" {row['cost']:#.2g} " in line
    assert "Speed-ups are of time by the calibration." in out
    assert "Estimates" not in out
    best = next(row for row in report["strategies"] if row["label"] == report["choice"]["best"])
    assert f"takes {best['seconds']:.1f} s {time} instead of" in lines["result"]


def test_the_files_fit_their_schemas(run, device):
    for command, path in (("compare", CORPUS), ("balance", SAMPLE_DATA / "reviews.csv")):
        more = () if command == "compare" else ("--label-column", "label")
        assert run(command, path, *BUDGET, *COST, *more).returncode == 0
        report = json.loads((device / f"batchstat-results/{command}.json").read_text())
        check_schema(report, command)
        assert report["calibration"]["device"] == "NVIDIA H200"
    done = run("check", CORPUS, *BUDGET[:2], *COST, "--max-padding", "99%", "--format", "json")
    check_schema(json.loads(done.stdout), "check")


def test_without_a_calibration_there_is_only_a_hint(cli, device):
    _, out, _ = cli("compare", CORPUS, *BUDGET)
    assert "By total tokens; calibrate for time. More: --details, --all, --model\n" in out
    report = json.loads((device / "batchstat-results/compare.json").read_text())
    assert report["calibration"] is None
    for row in report["strategies"]:
        assert [row[key] for key in ("seconds", "cost", "peak_bytes", "fits_memory")] == [None] * 4


@pytest.mark.usefixtures("device")
def test_what_does_not_fit_and_what_is_extrapolated_is_marked(cli):
    code, out, err = cli("compare", CORPUS, "--tokens-per-batch", 6000, "--no-plots", *COST)
    assert code == 0, err
    assert "✗ does not fit" in out
    assert "~ extrapolated" in out
    assert re.search(r"(?m)^✗ token-budget .* ~[\d.]+ s +✗~[\d.]+ GiB", out)
    assert re.search(r"(?m)^● static .* ✗~[\d.]+ GiB", out)
    assert "no strategy in the table fits the device: set --tokens-per-batch" in out
    assert "warning: peak memory is above the" in err
    assert "warning: time and memory are extrapolated" in err


def test_a_row_that_would_come_first_is_named_with_its_peak(cli, device):
    write(device / "h100.json", calibration(SLOW, fits=SLOW.peak(3000)))
    rows = ("--strategy", "static:batch_size=4", "--strategy", "token-budget")
    code, out, err = cli("compare", CORPUS, *BUDGET, *COST, *rows)
    assert code == 0, err
    peak = rf"token-budget would come first, but its peak of {SLOW.peak(4096) / GIB:.1f} GiB"
    assert f"{peak} does not fit the device: set --tokens-per-batch " in out
    report = json.loads((device / "batchstat-results/compare.json").read_text())
    assert report["choice"]["best"] == "static:batch_size=4"
    assert [row["fits_memory"] for row in report["strategies"]] == [True, False]


def test_weights_that_alone_do_not_fit_are_said_so(cli, device):
    """No length of rows helps then."""
    write(device / "memory.json", replace(estimate(GIB), setup=calibration(dtype="float32").setup))
    _, out, err = cli("compare", CORPUS, *BUDGET, "--calibration", "memory.json")
    need = "weights, gradients and optimizer state alone need 2.0 GiB, so that no batch fits: run "
    assert f"{need}batchstat calibrate with --dtype bfloat16 or --optimizer sgd, or for a" in err
    assert "lower --max-length" not in out + err
    assert "fits     no batch, whatever its size\n" in out
    assert "no strategy in the table fits the device, nor does any other batch" in out
    flags = ("--model", "qwen3-8b", "--estimate", "--memory", "40GiB", "--dtype", "bfloat16")
    _, out, _ = cli("calibrate", *flags)
    shown = " ".join(out.split())
    assert "optimizer state alone need 61.0 GiB, so that no batch fits: run batchstat" in shown
    assert "with --optimizer sgd, or for a device with more memory" in shown
    assert "--dtype bfloat16" not in shown


def test_nothing_is_said_not_to_fit_where_nothing_ran_out_of_memory(cli, device):
    write(device / "h100.json", calibration(SLOW, most_tokens=2048))
    _, out, err = cli("compare", CORPUS, *BUDGET, *COST)
    assert "✗" not in out
    assert "fits " not in out
    assert "~" in out
    assert "rows of at most 1,024, and whether they fit is not known: " in err
    made = calibration(SLOW, most_tokens=2048)
    small = replace(made, hardware=replace(made.hardware, memory=SLOW.peak(3000)))
    write(device / "h100.json", small)
    _, out, err = cli("compare", CORPUS, *BUDGET, *COST)
    assert "✗ token-budget" in out
    assert f"peak memory is above the {SLOW.peak(3000) / GIB:.1f} GiB of NVIDIA H200: " in err
    assert "lower --tokens-per-batch, or run batchstat calibrate without it" in err


def test_an_interrupted_calibration_and_mixed_precision_are_named(cli, device):
    made = replace(calibration(SLOW, mixed_precision=True), is_complete=False)
    write(device / "h100.json", made)
    _, out, _ = cli("compare", CORPUS, *BUDGET, *COST)
    line = "h100.json: NVIDIA H200, bfloat16 mixed precision, a-decoder; its measurement was"
    assert f"{line} interrupted" in " ".join(out.split())


def test_an_estimate_has_memory_only(cli, device):
    write(device / "memory.json", estimate(4 * GIB))
    _, out, _ = cli("compare", CORPUS, *BUDGET, "--calibration", "memory.json")
    assert "memory.json: NVIDIA H200, bfloat16, a-decoder; an estimate of memory" in out
    header = next(line for line in out.splitlines() if line.startswith("  strategy"))
    assert "peak" in header
    assert "time" not in header
    assert "By total tokens; calibrate for time." in out


@pytest.mark.usefixtures("device")
def test_several_ranks_are_told_once_that_communication_is_not_measured(cli):
    _, out, err = cli("compare", CORPUS, *BUDGET, *COST, "--world-size", 2)
    assert (out + err).count("communication") == 1
    _, out, err = cli("compare", CORPUS, *BUDGET, *COST)
    assert "communication" not in out + err


def test_new_shapes_are_in_the_time_of_the_first_epoch(cli, device):
    """Without torch.compile too: an H200 took 0.1 s more for each."""
    write(device / "h100.json", calibration(Constants(shape=0.11)))
    _, out, err = cli("compare", CORPUS, *BUDGET, *COST)
    assert "0.11 s for each new shape, in the first epoch" in " ".join(out.split())
    report = json.loads((device / "batchstat-results/compare.json").read_text())
    named = re.search(r"device/new-shapes\]", err)
    [warning] = [each for each in report["warnings"] if each["id"] == "device/new-shapes"]
    assert named
    for row in report["strategies"]:
        share = 0.11 * row["distinct_shapes"] / row["seconds"]
        said = f"{share:.0%} of {row['label']} ({row['distinct_shapes']} shapes)"
        assert (said in warning["message"]) == (share >= 0.1)


def test_the_page_has_the_same_numbers_and_so_have_its_plans(cli, device):
    _, out, _ = cli("compare", CORPUS, *BUDGET, *COST, "--html", "page.html")
    page = (device / "page.html").read_text()
    for line in out.splitlines():
        if found := re.search(r"[\d.]+ s +[\d.]+ GiB +[\d.]+", line):
            for cell in re.split(r"  +", found[0]):
                assert f">{cell}<" in page
    panel = panel_of(page)
    for choice, cells in list(zip(panel.choices, panel.rows, strict=True))[::9]:
        words = shlex.split(choice["command"])[2:]
        _, out, _ = cli("compare", *words, "--json", "--no-plots")
        check_row(cells, json.loads(out))
        _, out, _ = cli("compare", *words, "--no-plots")
        times = [cells[name] for name in cells if name.split()[0] in ("time", "peak", "cost")]
        assert len(times) == 3
        assert "  ".join(times) in re.sub(r" {2,}", "  ", out)


def test_balance_and_check_show_them(cli, device):
    reviews = (SAMPLE_DATA / "reviews.csv", "--label-column", "label")
    code, out, err = cli("balance", *reviews, *BUDGET, *COST)
    assert code == 0, err
    assert "device   h100.json: NVIDIA H200" in out
    rows = json.loads((device / "batchstat-results/balance.json").read_text())["samplers"]
    for row in rows:
        seconds = row["strategy"]["seconds"]
        assert (f" {seconds:.1f} s " if seconds >= 1 else f" {seconds:#.2g} s ") in out
    without = next(row["strategy"]["seconds"] for row in rows if row["name"] == "none")
    for row in rows:
        assert row["relative_compute"] == pytest.approx(row["strategy"]["seconds"] / without)
    for form in ("text", "markdown", "html"):
        code, out, err = cli(
            *("check", CORPUS, *BUDGET[:2], *COST, "--max-padding", "99%", "--format", form)
        )
        assert code == 0, err
        assert "h100.json: NVIDIA H200" in out
        assert re.search(
            r" s ±0\.0%, [\d.]+ GiB ±0\.0% at the peak, [\d.]+ ±0\.0% is the cost", out
        )


def test_limits_on_time_memory_and_cost(run, device):
    write(device / "h100.json", calibration())
    asked = f'corpus = "{CORPUS}"\ntokens-per-batch = 4096\n'
    named = 'calibration = "h100.json"\ncost-per-hour = 2.5\n'
    limits = "[limits]\nstrategy.{} = {{max = {}}}\n"

    def check(content: str) -> tuple[int, str]:
        (device / "batchstat.toml").write_text(content)
        done = run("check")
        return done.returncode, done.stdout + done.stderr

    for number, most in (("seconds", 1e6), ("peak_bytes", 2**50), ("cost", 1e6)):
        assert check(asked + named + limits.format(number, most))[0] == 0
        assert check(asked + named + limits.format(number, 0))[0] == 1
        code, out = check(asked + limits.format(number, most))
        assert code == 3
        assert f"the report has no strategy.{number}: name a calibration that has " in out


def test_a_file_of_the_configuration_is_beside_it(run, device):
    (device / "batchstat.toml").write_text('calibration = "h100.json"\ncost-per-hour = 2\n')
    (device / "below").mkdir()
    done = run("compare", device / CORPUS, *BUDGET, "--json", cwd=device / "below")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calibration"]["file"] == "../h100.json"
    assert json.loads(done.stdout)["calibration"]["cost_per_hour"] == 2


def test_another_calibration_is_a_change_since_the_base(run, device):
    asked = ("check", CORPUS, *BUDGET[:2], "--max-padding", "100%")
    known = ("--calibration", "h100.json")
    assert run(*asked, *known, "--format", "json=base.json").returncode == 0
    since = (*asked, "--base", "base.json")
    assert "changed  nothing since base.json" in run(*since, *known).stdout
    other = calibration()
    write(
        device / "other.json", replace(other, hardware=replace(other.hardware, name="NVIDIA A100"))
    )
    for more in ((), ("--calibration", "other.json")):
        assert "since base.json: another calibration" in run(*since, *more).stdout


@pytest.mark.usefixtures("device")
def test_another_model_than_the_one_named(run):
    done = run("compare", CORPUS, *COST, "--model", "gpt2")
    assert done.returncode == 3
    assert (
        "h100.json was measured for a-decoder, not for the model you named (hidden 64"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("own", "values", "words"),
    [
        ({"dtype": "float32"}, {"bf16": True}, "dtype=float32, but args.json trains with dtype=bf"),
        ({}, {"fp16": True}, "dtype=bfloat16, but args.json trains with dtype=float16"),
        ({}, {"gradient_checkpointing": True}, "gradient_checkpointing=false, but args.json"),
        ({}, {"bf16": True}, ""),
        ({"mixed_precision": True}, {"bf16": True, "gradient_checkpointing": False}, ""),
        ({}, {"bf16": False}, ""),
        ({}, {"bf16": "auto", "gradient_checkpointing": "offload"}, ""),
        ({"model": "train:step", "shape": None, "dtype": "float32"}, {"bf16": True}, ""),
        ({}, {}, ""),
    ],
)
def test_what_the_trainer_says_of_itself(run, device, own, values, words):
    write(device / "h100.json", calibration(**own))
    arguments = {"per_device_train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 1e-5}
    (device / "args.json").write_text(json.dumps(arguments | values))
    current = ("--current", "args.json")
    commands = (
        ("compare", CORPUS, *current, *BUDGET[2:]),
        ("check", CORPUS, *current, "--max-padding", "99%"),
        ("preflight", "args.json", CORPUS),
    )
    for command in commands:
        done = run(*command, "--calibration", "h100.json")
        assert done.returncode == (3 if words else 0), done.stderr
        assert words in done.stderr


def test_the_library_takes_a_check_too(device):
    profile = batchstat.profile(device / CORPUS)
    known = calibration()
    checked = batchstat.check(
        profile, {"strategy.seconds": {"max": 1e9}}, calibration=known, tokens_per_batch=4096
    )
    [outcome] = checked.outcomes
    row = batchstat.compare(
        profile, strategies="static", tokens_per_batch=4096, calibration=known
    ).best
    assert outcome.value == row.on_device.seconds
