"""The gate as its users meet it: a repository, its configuration, a change of data, CI."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema

from conftest import Run, check_schema, environment, write_jsonl

SHORT = ["some words of equal length"] * 2000
LONG = ["word " * 40 * (1 + i % 7) for i in range(100)]
CONFIGURATION = """
[project]
name = "models"

[tool.batchstat]
corpus = "data/train.jsonl"
current = "token-budget"
tokens-per-batch = 1024
read-ahead = 200
max-length = 512

[tool.batchstat.limits]
max-padding = "6%"
min-fill = {limit = "50%", level = "warn"}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    (tmp_path / "data").mkdir()
    data(tmp_path, SHORT)
    return tmp_path


def data(repository: Path, texts: list[str]) -> None:
    write_jsonl(repository / "data" / "train.jsonl", [{"text": text} for text in texts])


def test_a_change_of_data_breaks_the_check(repository: Path, run: Run):
    kept = run("check")
    assert (kept.returncode, kept.stderr) == (0, "settings from pyproject.toml\n")
    assert "all 2 limits are kept" in kept.stdout
    data(repository, SHORT + LONG)
    broken = run("check")
    assert broken.returncode == 1
    parts = re.search(
        r"FAIL     max-padding: padding is (\S+)%, which is (\S+) pp over the limit of 6.00%\n"
        r"set in   pyproject.toml \[tool.batchstat.limits\]\n"
        r"remedy   batchstat recipe [^;]* gives\s+(\S+)%, with\s+1,050 steps instead of 38, "
        r"min-fill\s+exceeded; then\s+set current = \"(\S+)\" in pyproject.toml "
        r"\[tool.batchstat\]\n",
        broken.stdout,
    )
    assert parts is not None, broken.stdout
    value, over, remedied, current = parts.groups()
    assert float(value) - 6 == pytest.approx(float(over), abs=0.011)
    assert "1 of 2 limits is exceeded" in broken.stdout
    mended = run("check", "--current", current)
    assert mended.returncode == 0  # a limit on fill only warns here
    assert re.search(rf"max-padding +{remedied}%", mended.stdout)
    assert run("check", "--warn-only").returncode == 0
    assert run("check", "--max-padding", "99%").returncode == 0
    assert sorted(path.name for path in repository.iterdir()) == ["data", "pyproject.toml"]


def test_the_same_numbers_as_compare(repository: Path, run: Run):
    data(repository, SHORT + LONG)
    found = json.loads(run("check", "--format", "json").stdout)["checks"][0]["report"]
    compared = json.loads(run("compare", "--json", "--no-plots").stdout)
    assert found["basis"] == compared["basis"]
    row = next(row for row in compared["strategies"] if row["name"] == "token-budget")
    assert found["strategy"] == row | {"speed_up": None, "first_batches": None}
    profiled = json.loads((repository / "batchstat-results" / "profile.json").read_text())
    for key in ("lengths", "truncation", "classes", "class_ratio", "corpus", "tokenizer"):
        assert found[key] == profiled[key]


def test_limit_and_value_differ_on_screen_where_they_differ(repository: Path, run: Run):
    data(repository, SHORT + LONG)
    report = json.loads(run("check", "--format", "json").stdout)["checks"][0]
    value = report["report"]["strategy"]["padding_ratio"]
    assert run("check", "--max-padding", repr(value)).returncode == 0
    below = value - 1e-9
    result = run("check", "--max-padding", repr(below))
    assert result.returncode == 1
    words = r"padding is (\S+)%, which is (\S+) pp over the limit of (\S+)%"
    parts = re.search(words, result.stdout)
    assert parts is not None
    assert float(parts[1]) > float(parts[3])
    assert float(parts[2]) > 0
    outcome = json.loads(run("check", "--max-padding", repr(below), "--format", "json").stdout)
    assert outcome["checks"][0]["limits"][0]["value"] == value
    assert outcome["checks"][0]["limits"][0]["limit"] == below
    assert outcome["status"] == "fail"


def test_every_format_at_once(repository: Path, run: Run, tmp_path_factory):
    data(repository, SHORT + LONG)
    summary = tmp_path_factory.mktemp("github") / "summary.md"
    summary.write_text("# Before\n")
    files = ["--format", "json=out/check.json", "--format", "junit=out/junit.xml"]
    files += ["--format", "markdown=out/check.md", "--format", "text=out/check.txt"]
    result = run("check", "--format", "github", *files, GITHUB_STEP_SUMMARY=str(summary))
    assert result.returncode == 1
    out = repository / "out"
    assert {path.name for path in out.iterdir()} == {
        "check.json",
        "junit.xml",
        "check.md",
        "check.txt",
    }

    record = json.loads((out / "check.json").read_text(encoding="utf-8"))
    check_schema(record, "check")
    assert record["status"] == "fail"
    failed = [each for each in record["checks"][0]["limits"] if each["status"] == "fail"]
    assert [each["name"] for each in failed] == ["max-padding"]
    assert failed[0]["over"] > 0
    assert failed[0]["set_in"] == "pyproject.toml [tool.batchstat.limits]"
    assert failed[0]["remedy"]["value"] <= failed[0]["limit"]

    junit = out / "junit.xml"
    xmlschema.XMLSchema(Path(__file__).parent / "junit.xsd").validate(junit)
    root = ET.parse(junit).getroot()  # noqa: S314
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }

    [command] = annotations(result.stdout)
    level, properties, message = command
    assert (level, properties) == ("error", {"title": "batchstat: max-padding"})
    sentence, set_in, remedy = message.split("\n")
    assert set_in == "set in: pyproject.toml [tool.batchstat.limits]"
    assert remedy.startswith("remedy: batchstat recipe ")
    assert root.find(".//failure").get("message") == sentence
    screen = (out / "check.txt").read_text(encoding="utf-8")
    assert sentence in " ".join(screen.split())
    assert screen in result.stdout

    markdown = (out / "check.md").read_text(encoding="utf-8")
    assert summary.read_text(encoding="utf-8") == f"# Before\n{markdown}"
    assert "| max-padding | " in markdown


@pytest.mark.usefixtures("repository")
def test_files_have_no_colours(run: Run, tmp_path: Path):
    result = run("check", "--format", "text=out.txt", "--max-padding", "0%", FORCE_COLOR="1")
    assert result.returncode == 0
    assert "\x1b" not in (tmp_path / "out.txt").read_text(encoding="utf-8")


def annotations(text: str) -> list[tuple[str, dict[str, str], str]]:
    """The commands that GitHub's runner finds in a log, by its documented syntax."""
    found = []
    stopped = ""
    for line in text.splitlines():
        command = re.fullmatch(r"::(\S+?)(?: (.*?))?::(.*)", line.strip())
        if stopped:
            stopped = "" if line.strip() == f"::{stopped}::" else stopped
        elif command and command[1] == "stop-commands":
            stopped = command[3]
        elif command:
            pairs = (pair.split("=", 1) for pair in (command[2] or "").split(","))
            properties = {key: unescaped(value, ":,") for key, value in pairs}
            found.append((command[1], properties, unescaped(command[3])))
        assert stopped or "##[" not in line
    assert not stopped
    return found


def unescaped(text: str, also: str = "") -> str:
    assert not any(mark in text for mark in also)
    for mark in (*also, "\r", "\n", "%"):
        text = text.replace(f"%{ord(mark):02X}", mark)
    return text


HARMFUL = [
    "50% off, a: b",
    "two\nlines\r::error::fake",
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m \x07",
    "a|b `c` *d* [e](f) \\ ~g~ @h",
    "##[error]fake ::error::fake",
    "]]> & \" ' \ufffe \u202e",
]


def harmful_repositories(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    for i, name in enumerate(HARMFUL):
        folder = tmp_path / str(i)
        folder.mkdir()
        file = name.replace("/", "_").replace("\0", "") + ".jsonl"
        records = [{"text": "word " * (1 + n % 30), "label": name if n % 9 else "b"}
                   for n in range(200)]  # fmt: skip
        write_jsonl(folder / file, records)
        corpus = json.dumps(file, ensure_ascii=True)
        (folder / "batchstat.toml").write_text(
            f"corpus = {corpus}\ntext-column = 'text'\nlabel-column = 'label'\n"
            "tokens-per-batch = 64\nread-ahead = 10\nmax-length = 1000\ncurrent = 'token-budget'\n"
            f"[limits]\nmax-padding = '1%'\nmax-class-ratio = 1.5\n"
            f"'classes[label=b].share' = {{min = 0.9, level = 'warn'}}\n"
            f"[checks]\n{corpus} = {{}}\n",
            encoding="utf-8",
        )
        yield folder, name


def test_names_full_of_marks_come_out_harmless(tmp_path: Path, run: Run):
    """File names, labels and names of checks, in every format."""
    for folder, name in harmful_repositories(tmp_path):
        formats = [f"--format={kind}=out.{kind}" for kind in ("text", "json", "markdown", "junit")]
        result = run("check", "--format", "github", *formats, cwd=folder)
        assert result.returncode == 1, (name, result.stderr)
        for level, properties, message in annotations(result.stdout):
            assert level in ("error", "warning")
            assert set(properties) == {"title"}
            assert "\x1b" not in message
        assert len(annotations(result.stdout)) == 3
        for stream in (result.stdout, result.stderr):
            assert not any(ord(mark) < 32 and mark != "\n" for mark in stream), name
            assert "\u202e" not in stream
        record = json.loads((folder / "out.json").read_text(encoding="utf-8"))
        check_schema(record, "check")
        assert name in {each["label"] for each in record["checks"][0]["report"]["classes"]}

        xmlschema.XMLSchema(Path(__file__).parent / "junit.xsd").validate(folder / "out.junit")
        markdown = (folder / "out.markdown").read_text(encoding="utf-8")
        assert "<script" not in markdown
        assert not re.search(r"(?<!\\)[`*~@]", markdown.replace("**", "").replace("<br>", ""))
        for line in markdown.splitlines():
            if line.startswith("|"):
                assert len(re.findall(r"(?<!\\)\|", line)) == 5


NO_ANSWER = {
    "no corpus": (["--max-padding", "5%"], "no corpus given"),
    "no such file": (["nope.txt", "--max-padding", "5%"], "no such file: nope.txt"),
    "empty": (["empty.txt", "--max-padding", "5%"], "empty.txt is empty"),
    "blank": (["blank.txt", "--max-padding", "5%"], "no samples in blank.txt"),
    "unreadable records": (
        ["bad.jsonl", "--on-error", "skip", "--max-padding", "5%"],
        "1 record could not be read",
    ),
    "no label": (["good.txt", "--max-class-ratio", "5"], "was a label column read"),
    "no base": (["good.txt", "--base", "no.json"], "--base no.json: there is no such file"),
    "a broken base": (["good.txt", "--base", "bad.jsonl"], "bad.jsonl is not a report of a check"),
    "another schema": (["good.txt", "--base", "old.json"], "old.json has schema b/0, but this"),
    "no tokenizer": (["good.txt", "--tokenizer", "./no", "--max-padding", "5%"], "no such file"),
    "a file that cannot be written": (
        ["good.txt", "--max-padding", "50%", "--format", "json=good.txt/x.json"],
        "cannot be written",
    ),
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "good.txt").write_text("some words\nmore of them\n")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    (tmp_path / "old.json").write_text('{"schema": "b/0", "checks": {}}')
    return tmp_path


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", NO_ANSWER)
def test_never_a_green_nothing(name: str, run: Run):
    arguments, message = NO_ANSWER[name]
    result = run("check", *arguments, "--warn-only")
    assert result.returncode == 3
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


WRONG = {
    "no limit": (["good.txt"], "there are no limits to check: pass --max-padding 5%"),
    "a bare number": (["good.txt", "--max-padding", "15"], "did you mean 15%?"),
    "no number": (["good.txt", "--min-fill", "nan"], "min-fill='nan': must be a number"),
    "below zero": (["good.txt", "--max-batches=-1"], "a limit must not be negative"),
    "a format": (["good.txt", "--max-padding", "5%", "--format", "xml"], "unknown format 'xml'"),
    "two formats": (
        ["good.txt", "--max-padding", "5%", "--format", "markdown", "--format", "text"],
        "both write to standard output",
    ),
    "one file for two": (
        ["good.txt", "--max-padding", "5%", "--format", "json=a", "--format", "text=a"],
        "two formats write to the same file",
    ),
    "an empty limit": (
        ["good.txt", "--max-padding", "", "--min-fill", "1%"],
        "--max-padding is empty",
    ),
    "no file": (["good.txt", "--max-padding", "5%", "--format", "json="], "has no file name"),
    "a format twice": (
        ["good.txt", "--max-padding", "5%", "--format", "json=a", "--format", "json=b"],
        "given twice",
    ),
    "a strategy": (
        ["good.txt", "--max-padding", "5%", "--current", "token-budge"],
        "did you mean 'token-budget'?",
    ),
    "a check": (["--check", "x", "--max-padding", "5%"], "unknown check 'x'"),
    "both of them": (
        ["--config", "a", "--no-config", "--max-padding", "5%"],
        "are mutually exclusive",
    ),
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str, run: Run):
    arguments, message = WRONG[name]
    result = run("check", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_unreadable_records_pass_where_there_is_a_limit_on_them(files: Path, run: Run):
    (files / "batchstat.toml").write_text(
        "corpus = 'bad.jsonl'\non-error = 'skip'\n[limits]\n'corpus.unreadable' = {max = 1}\n"
        "corpus.skipped.malformed = {max = 0, level = 'warn'}\n"
    )
    result = run("check")
    assert result.returncode == 0, result.stderr
    assert "WARN     max corpus.skipped.malformed: corpus.skipped.malformed is 1" in result.stdout


@pytest.mark.parametrize(
    "limits",
    ["corpus.skipped.blank = {max = 0}", "corpus.unreadable = {min = 0}", "max-padding = '99%'"],
)
def test_unreadable_records_are_refused_whatever_else_is_limited(files: Path, run: Run, limits):
    (files / "batchstat.toml").write_text(
        f"corpus = 'bad.jsonl'\non-error = 'skip'\n[limits]\n{limits}\n"
    )
    result = run("check")
    assert result.returncode == 3
    assert "1 record could not be read" in result.stderr


def test_the_kept_profile_is_of_what_the_check_is_of(files: Path, run: Run):
    assert run("profile", "good.txt", "--no-plots").returncode == 0
    flags = run("check", "--max-padding", "50%", "--tokenizer", "gpt2")
    assert flags.returncode == 2
    assert "--tokenizer needs a corpus to count: name one" in flags.stderr
    (files / "batchstat.toml").write_text("tokenizer = 'gpt2'\nlimits.max-padding = '50%'\n")
    other = run("check")
    assert other.returncode == 3
    assert "has another tokenizer than batchstat.toml sets" in other.stderr
    (files / "batchstat.toml").write_text("tokenizer = 'builtin'\nlimits.max-padding = '50%'\n")
    same = run("check")
    assert same.returncode == 0
    assert "profile of just now in batchstat-results" in same.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs and links for everybody")
def test_what_is_no_regular_file_stays_what_it_is(files: Path, run: Run):
    import os
    import threading

    (files / "real.json").write_text("{}")
    (files / "link.json").symlink_to("real.json")
    os.mkfifo(files / "fifo")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((files / "fifo").read_text()))
    reader.start()
    formats = ["--format", "json=link.json", "--format", "markdown=fifo"]
    assert run("check", "good.txt", "--max-padding", "90%", *formats).returncode == 0
    reader.join(timeout=60)
    assert (files / "fifo").is_fifo()
    assert read[0].startswith("## batchstat: PASS")
    assert (files / "link.json").is_symlink()
    assert json.loads((files / "real.json").read_text())["status"] == "pass"


LABELS = ["x].y", "b].share", 'qu"ote', "back\\slash", "None", "null", "a" * 40 + "b" + "a" * 40]


def test_limits_on_classes_of_any_name(files: Path, run: Run):
    labels = [*LABELS, "a" * 40 + "c" + "a" * 40]
    records = [{"text": "word", "y": label} for label in labels] + [{"text": "x", "y": None}] * 3
    write_jsonl(files / "l.jsonl", records)
    paths = [f"classes[label={json.dumps(label)}].count" for label in labels]
    paths += ["classes[label=null].count"]
    most = [0, *[1] * (len(paths) - 1)]
    limits = "".join(
        f"{json.dumps(path)} = {{max = {n}}}\n" for path, n in zip(paths, most, strict=True)
    )
    (files / "batchstat.toml").write_text(
        f"corpus = 'l.jsonl'\ntext-column = 'text'\nlabel-column = 'y'\n[limits]\n{limits}"
    )
    result = run("check", "--format", "json", "--format", "junit=j.xml")
    assert result.returncode == 1, result.stderr
    found = json.loads(result.stdout)["checks"][0]["limits"]
    assert [each["value"] for each in found] == [1] * len(labels) + [3]
    assert [each["status"] for each in found] == ["fail"] + ["pass"] * (len(labels) - 1) + ["fail"]
    cases = ET.parse(files / "j.xml").getroot().iter("testcase")  # noqa: S314
    failed = [case.find("failure") is not None for case in cases]
    assert failed == [each["status"] == "fail" for each in found]


def test_the_kept_profile_where_no_corpus_is_named(files: Path, run: Run):
    assert run("profile", "good.txt", "--no-plots").returncode == 0
    assert run("check", "--max-padding", "50%").returncode == 0
    (files / "good.txt").write_text("some words\nmore of them\nand another\n")
    result = run("check", "--max-padding", "50%")
    assert result.returncode == 3
    assert "good.txt has changed since it was profiled" in result.stderr


def test_several_checks(files: Path, run: Run):
    (files / "more.txt").write_text("word\n" * 50 + "word " * 300)
    (files / "batchstat.toml").write_text(
        "[limits]\nmax-padding = '1.0'\n"
        "[checks.good]\ncorpus = 'good.txt'\n"
        "[checks.more]\ncorpus = 'more.txt'\nlimits.max-p99 = 100\n"
        "[checks.none]\ncorpus = 'none.txt'\n"
    )
    result = run("check", "--format", "json")
    assert result.returncode == 3
    record = json.loads(result.stdout)
    check_schema(record, "check")
    assert [(each["name"], each["status"]) for each in record["checks"]] == [
        ("good", "pass"),
        ("more", "fail"),
        ("none", "error"),
    ]
    assert record["checks"][2]["report"] is None
    assert record["checks"][2]["error"]["message"] == "no such file: none.txt"
    assert run("check", "--check", "good").returncode == 0
    assert run("check", "--check", "good", "--check", "more").returncode == 1
    text = run("check").stdout
    assert "ERROR    no such file: none.txt" in text
    assert "no answer from 1 of 3 checks; 1 of 3 limits is exceeded" in text
    markdown = run("check", "--format", "markdown").stdout
    assert "**No answer:** no such file: none.txt" in markdown
    junit = ET.fromstring(run("check", "--format", "junit").stdout)  # noqa: S314
    assert junit.find(".//error").get("message") == "no such file: none.txt"
    levels = [each[0] for each in annotations(run("check", "--format", "github").stdout)]
    # Of each check with an answer, that nothing names what is trained.
    assert levels == ["error", "error", "warning", "warning"]


def test_more_annotations_than_github_shows(files: Path, run: Run):
    limits = "".join(f"'lengths.p{p}' = {{max = 0}}\n" for p in (50, 90, 95, 99))
    checks = "".join(f"[checks.c{i}]\nseed = {i}\n" for i in range(4))
    (files / "batchstat.toml").write_text(f"corpus = 'good.txt'\n[limits]\n{limits}{checks}")
    found = annotations(run("check", "--format", "github").stdout)
    errors = [each for each in found if each[0] == "error"]
    assert len(errors) == 10
    assert errors[-1][2] == "and 7 more: see the job's summary"


@pytest.mark.slow
def test_a_check_of_standard_input(tmp_path: Path):
    result = subprocess.run(
        [sys.executable, "-m", "batchstat", "check", "-", "--max-padding", "99%"],
        input=b"some words\n" * 20,
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    assert b"standard input" in result.stdout
