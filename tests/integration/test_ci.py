"""What the documentation, init and the dot-files tell CI systems to do is what works there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

import pytest
import yaml

from batchstat.render.recipes import writing
from batchstat.render.recipes.writing import workflow as printed_workflow
from conftest import ROOT, SAMPLE_DATA, Run, environment

PAGE = (ROOT / "docs/how-to/ci.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
[CONFIGURATION] = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)

INSTALL = "python -m pip install git+ADDRESS"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With the documented configuration and the sample data."""
    folder = tmp_path / "repository"
    folder.mkdir()
    shutil.copytree(SAMPLE_DATA, folder / "sample_data")
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    return folder


def in_shell(command: str, folder: Path, **extra: str):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment(PATH=path, **extra),
        capture_output=True,
        encoding="utf-8",
    )


def test_the_documented_configuration_holds(repository: Path, run: Run):
    result = run("check", cwd=repository)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "check    pretraining" in result.stdout
    assert "check    reviews" in result.stdout


def test_the_workflow_is_the_one_that_init_prints(repository: Path, run: Run):
    assert YAML[0] == printed_workflow()
    (repository / "pyproject.toml").unlink()
    assert run("init", "sample_data/corpus.txt", cwd=repository).stdout == printed_workflow()
    workflow = yaml.safe_load(printed_workflow())
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in printed_workflow()
    assert set(workflow[True]) == {"pull_request", "push"}  # YAML reads `on` as true
    *_, install, check, upload, link = workflow["jobs"]["padding"]["steps"]
    assert install["run"] == INSTALL
    summary = repository / "summary.md"
    result = in_shell(check["run"], repository, GITHUB_STEP_SUMMARY=str(summary))
    assert result.returncode == 0, result.stderr
    assert summary.read_text(encoding="utf-8").startswith("## batchstat: PASS\n")
    page = repository / upload["with"]["path"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    address = f"${{{{ steps.{upload['id']}.outputs.artifact-url }}}}"
    in_shell(
        link["run"].replace(address, "https://reports/1"),
        repository,
        GITHUB_STEP_SUMMARY=str(summary),
    )
    last = summary.read_text(encoding="utf-8").splitlines()[-1]
    assert last == "[Report with all numbers](https://reports/1)"


ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


class GitHub(BaseHTTPRequestHandler):
    """Comments of one pull request, as GitHub's API keeps them, 2 on a page."""

    comments: ClassVar[list[dict[str, Any]]] = []
    may_write = True
    asked: ClassVar[list[str]] = []

    def answer(self, content: object, code: int = 200) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        assert path == "/repos/o/r/issues/7/comments"
        assert self.headers["Authorization"] == "Bearer secret"
        page = int(parse_qs(query)["page"][0])
        self.answer(self.comments[2 * page - 2 : 2 * page])

    def written(self) -> str | None:
        self.asked.append(self.command)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        if not self.may_write:
            self.answer({"message": "Resource not accessible by integration"}, 403)
            return None
        return body

    def do_POST(self) -> None:
        assert self.path == "/repos/o/r/issues/7/comments"
        if (body := self.written()) is not None:
            made = {"id": 90 + len(self.comments), "body": body, "user": {"type": "Bot"}}
            self.comments.append(made)
            self.answer(made, 201)

    def do_PATCH(self) -> None:
        number = int(self.path.removeprefix("/repos/o/r/issues/comments/"))
        if (body := self.written()) is not None:
            [comment] = [each for each in self.comments if each["id"] == number]
            comment["body"] = body
            self.answer(comment)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What GitHub tells a step by variables, with its API on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), GitHub)
    Thread(target=server.serve_forever, daemon=True).start()
    foreign = {"id": 1, "body": "<!-- batchstat w / j -->", "user": {"type": "User"}}
    monkeypatch.setattr(GitHub, "comments", [foreign, {**foreign, "id": 2, "body": "fine"}])
    monkeypatch.setattr(GitHub, "asked", [])
    (tmp_path / "event.json").write_text('{"pull_request": {"number": 7}}')
    yield {
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_JOB": "j",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_WORKFLOW": "w",
    }
    server.shutdown()
    server.server_close()


def steps_of_action(
    repository: Path, github: dict[str, str], arguments: str = "", base: str = ""
) -> tuple[int, str]:
    """Run the shell steps of the action as GitHub does, but for the installation; what it sets for
    `${{ … }}` is given. Returns the exit code of the last step, and all that was printed.
    """
    output = Path(github["GITHUB_OUTPUT"])
    output.write_text("")
    values = {"inputs.arguments": arguments, "inputs.base": base, "inputs.token": "secret"}
    values["steps.base.outputs.base"] = ""
    values["steps.page.outputs.artifact-url"] = "https://reports/1"
    printed, code = "", 0
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] == "Install":
            continue
        if step.get("if") == "inputs.base" and not base:
            continue
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # what a pull request names is no code
        given = {key: values[text[4:-3]] for key, text in step.get("env", {}).items()}
        result = in_shell(step["run"], repository, **github, **given)
        printed, code = printed + result.stdout + result.stderr, result.returncode
        lines = output.read_text().splitlines()
        outputs = dict(line.split("=", 1) for line in lines)
        for identity in filter(None, [step.get("id")]):
            values |= {f"steps.{identity}.outputs.{key}": each for key, each in outputs.items()}
        assert code == 0 or step["name"] == "Result", result.stderr
    return code, printed


@pytest.mark.slow
def test_the_action(repository: Path, github: dict[str, str]):
    """It checks, and keeps one comment of its own, after those of others and of people."""
    [install] = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Install"]
    assert install["run"] == 'python -m pip install "$GITHUB_ACTION_PATH"'  # where this file lies
    code, printed = steps_of_action(repository, github)
    assert (code, "::error" in printed) == (0, False)
    report = json.loads(Path(github["GITHUB_OUTPUT"]).read_text().partition("json=")[2])
    assert [report["status"], *(each["name"] for each in report["checks"])] == [
        *("warn", "pretraining", "reviews")
    ]
    assert Path(github["GITHUB_STEP_SUMMARY"]).read_text().count("https://reports/1") == 1
    [_, _, first] = GitHub.comments
    assert first["body"].startswith("<!-- batchstat w / j -->\n## batchstat: WARN\n")
    assert first["body"].endswith("[Report with all numbers](https://reports/1)\n")
    code, printed = steps_of_action(repository, github, "--max-padding 1% --seed 1")
    assert (code, "\n::error title=batchstat" in printed) == (1, True)
    [_, _, second] = GitHub.comments
    assert "## batchstat: FAIL" in second["body"]
    assert GitHub.asked == ["POST", "PATCH"]
    assert GitHub.comments[0]["body"] == "<!-- batchstat w / j -->"


@pytest.mark.slow
@pytest.mark.parametrize("depth", ["--depth=1", "--no-single-branch"])
def test_the_action_says_what_changed_since_the_base(
    repository: Path, github: dict[str, str], tmp_path: Path, depth: str
):
    """In a checkout of one commit, as actions/checkout makes it, and in a whole one."""
    (repository / "pyproject.toml").write_text(
        '[tool.batchstat]\ncorpus = "sample_data/corpus.txt"\ncurrent = "hf-trainer"\n'
        '[tool.batchstat.limits]\nmax-padding = "90%"\n'
    )
    commit = "git add . && git -c user.name=a -c user.email=a@b commit --quiet -m more"
    assert in_shell(f"git init --quiet -b main && {commit}", repository).returncode == 0
    longer = "seq -s ' ' 400 > long.txt && cat long.txt long.txt >> sample_data/corpus.txt"
    assert in_shell(f"git checkout -q -b new && {longer} && {commit}", repository).returncode == 0
    checkout = tmp_path / "checkout"
    clone = f"git clone --quiet {depth} -b new {repository.as_uri()} {checkout}"
    assert in_shell(clone, tmp_path).returncode == 0
    code, printed = steps_of_action(checkout, github, base="main")
    assert code == 0, printed
    [*_, comment] = GitHub.comments
    [changed] = [line for line in comment["body"].splitlines() if line.startswith("Changed: ")]
    assert re.match(r"Changed: padding 59\.18% → \d\d\.\d\d% since origin/main: 2 more ", changed)
    assert "in sample\\_data/corpus.txt (104.2 → " in changed
    assert changed in Path(github["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    code, printed = steps_of_action(checkout, github, base="none")  # such as a tag
    assert code == 0
    assert "Changed: " not in GitHub.comments[-1]["body"]


@pytest.mark.slow
def test_the_action_in_a_pull_request_from_a_fork(repository, github, monkeypatch):
    monkeypatch.setattr(GitHub, "may_write", False)
    code, printed = steps_of_action(repository, github)
    assert code == 0
    assert "no comment: the token may not write one (403)" in printed
    assert "## batchstat: WARN" in Path(github["GITHUB_STEP_SUMMARY"]).read_text()
    code, _ = steps_of_action(repository, github, "--nonsense")
    assert code == 2


def test_the_page_names_inputs_that_the_action_has():
    [used] = yaml.safe_load(YAML[1])
    assert set(used["with"]) <= set(ACTION["inputs"])
    assert {"actions/setup-python", "actions/cache", "actions/upload-artifact"} == {
        step["uses"].partition("@")[0] for step in ACTION["runs"]["steps"] if "uses" in step
    }


def test_the_gitlab_job(repository: Path, run: Run):
    job = yaml.safe_load(YAML[2])["padding"]
    install, check = job["script"]
    assert install == INSTALL
    cache = job["variables"]["BATCHSTAT_CACHE_DIR"].replace("$CI_PROJECT_DIR", str(repository))
    program, *arguments = shlex.split(check)  # which no shell has to interpret
    assert program == "batchstat"
    assert not set(check) & set("|&;<>$")
    result = run(*arguments, cwd=repository, BATCHSTAT_CACHE_DIR=cache)
    assert result.returncode == 0, result.stderr
    assert ET.parse(repository / job["artifacts"]["reports"]["junit"]).getroot()  # noqa: S314
    assert list((repository / job["cache"]["paths"][0]).iterdir())


@pytest.mark.slow
def test_the_hook(repository: Path):
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    [local] = yaml.safe_load(YAML[3])["repos"]
    # The one that is copied runs what is installed; the other one is for a clone as `repo`.
    of_clone = {key: value for key, value in hook.items() if key != "description"}
    assert local == {"repo": "local", "hooks": [{**of_clone, "language": "system"}]}
    for name in (
        "data/a.jsonl",
        "a.parquet",
        "b.txt.gz",
        "pyproject.toml",
        "x/batchstat.toml",
        "sft.yaml",
        "a/b.yml",
        "args.json",
    ):
        assert re.search(hook["files"], name)
    for name in ("a.py", "README.md", "a.toml"):
        assert not re.search(hook["files"], name)
    assert in_shell(hook["entry"], repository).returncode == 0
    (repository / "sample_data" / "corpus.txt").write_text("word\n" * 900 + "word " * 3000)
    assert in_shell(hook["entry"], repository).returncode == 1


def test_nothing_says_to_install_what_is_not_published():
    """Until a package index has it, it comes from a clone, and no address has an owner."""
    tracked = [ROOT / ".pre-commit-hooks.yaml", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    tracked += [*(ROOT / ".github").rglob("*.*"), *(ROOT / "batchstat").rglob("*.*")]
    assert len(tracked) > 100
    for path in tracked:
        if path.suffix in (".py", ".md", ".yaml", ".yml", ".json"):
            text = path.read_text(encoding="utf-8")
            assert "OWNER/batchstat" not in text, path
            assert not re.search(r"pip install ['\"]?batchstat", text), path


@pytest.mark.parametrize(
    ("origin", "urls", "expected"),
    [
        (None, [], "git+ADDRESS"),
        ({"url": "file:///home/a/batchstat", "dir_info": {}}, [], "git+ADDRESS"),
        ({"url": "file:///b", "vcs_info": {"vcs": "git", "commit_id": "c0"}}, [], "git+ADDRESS"),
        (
            {"url": "https://host/o/b", "vcs_info": {"vcs": "git", "commit_id": "c0"}},
            ["Repository, https://host/other"],
            "git+https://host/o/b@c0",
        ),
        (None, ["Docs, https://d", "Repository, https://host/o/b"], "git+https://host/o/b@v1.2"),
    ],
)
def test_a_workflow_installs_what_is_installed_here(monkeypatch, origin, urls, expected):
    class Installed:
        version = "1.2"
        metadata = Message()

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    Installed.metadata = Message()
    for url in urls:
        Installed.metadata["Project-URL"] = url
    monkeypatch.setattr(writing, "distribution", lambda _: Installed())
    assert f"- run: python -m pip install {expected}\n" in printed_workflow()


def test_a_workflow_of_a_checkout_has_an_address_to_complete(monkeypatch):
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(writing, "distribution", missing)
    assert "- run: python -m pip install git+ADDRESS\n" in printed_workflow()
