"""What is built, and the lines with which people install it, from a repository and an index."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from batchstat._version import __version__
from conftest import ROOT, environment

pytestmark = [
    pytest.mark.install,
    pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell"),
]

PAGE = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
LINES = [
    line.partition("  #")[0]
    for block in re.findall(r"```bash\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines()
    if line and not line.startswith("#")
]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))


def in_shell(command: str, folder: Path, **extra: str) -> str:
    """The output of a command as GitHub runs it; fails where it does."""
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
        cwd=folder,
        env=environment(**extra),
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert ended.returncode == 0, command + ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with what the working tree has, committed."""
    folder = tmp_path_factory.mktemp("clone") / "repository"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, files.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    commit = "git -c user.name=a -c user.email=a@b commit -q -m a"
    in_shell(f"git init -q && git add -A && {commit}", folder)
    return folder


@pytest.fixture(scope="module")
def built(repository: Path) -> Path:
    """The folder of what the shell steps of the release build, on the tag of this version."""
    for step in WORKFLOW["jobs"]["build"]["steps"]:
        if "run" in step and "pip install" not in step["run"]:
            in_shell(step["run"], repository, GITHUB_REF_NAME=f"v{__version__}")
    return repository / "dist"


@pytest.fixture(scope="module")
def index(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which only the wheel, what it needs and what builds it can be installed."""
    folder = tmp_path_factory.mktemp("index")
    [wheel] = built.glob("*.whl")
    shutil.copy(wheel, folder)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    subprocess.run([*command, str(wheel), "hatchling"], check=True)
    where = {f"{tool}_FIND_LINKS": str(folder) for tool in ("PIP", "UV")}
    work = tmp_path_factory.mktemp("home")
    own = {"UV_CACHE_DIR": str(work / "uv"), "PIPX_HOME": str(work / "pipx")}
    return {**where, **own, "PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "PIP_NO_COMPILE": "0"}


def tracked(folder: Path) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "batchstat"], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(listed.stdout.splitlines())


def test_the_wheel_holds_the_package_and_nothing_else(built: Path, repository: Path):
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [name for name in names if name.endswith("METADATA")]
        facts = Parser().parsestr(archive.read(metadata).decode())
    about = {name for name in names if ".dist-info/" in name}
    assert {name.rpartition("/")[2] for name in about} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "LICENSE", "D3-LICENSE", "NOTICE")
    }
    assert names - about == tracked(repository)
    for key in ("Summary", "Keywords", "License-Expression", "Requires-Python", "Author"):
        assert facts[key], key
    classifiers = facts.get_all("Classifier")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["classifiers"] == classifiers
    assert facts["Description-Content-Type"] == "text/markdown"
    assert facts.get_payload().startswith("# batchstat")


def test_the_sdist_holds_what_the_wheel_is_built_of(built: Path, repository: Path):
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    others = {"PKG-INFO", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"}
    assert names - others == tracked(repository)


def new_environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a new virtual environment."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(folder)}


def test_every_line_of_the_page_works(repository: Path, index: dict[str, str], tmp_path: Path):
    """In a new folder; of those that install, the command is then there."""
    (tmp_path / "corpus.txt").write_text("a line\na longer line of text\n", encoding="utf-8")
    address = f"git+file://{repository}"
    assert sum("ADDRESS" in line for line in LINES) >= 4
    for number, line in enumerate(LINES):
        own = new_environment(tmp_path / str(number)) if " pip " in line else {}
        shown = in_shell(line.replace("git+ADDRESS", address), tmp_path, **index, **own)
        if " pip install " in line:
            shown = in_shell("batchstat profile corpus.txt", tmp_path, **index, **own)
        assert " pip wheel " in line or "2 samples" in shown, line


def test_the_wheel_is_used_as_the_release_does(built: Path, index: dict[str, str], tmp_path: Path):
    own = new_environment(tmp_path)
    shutil.copytree(built, tmp_path / "dist")
    job = WORKFLOW["jobs"]["test"]
    assert job["defaults"]["run"]["shell"] == "bash"
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert [in_shell(step, tmp_path, **index, **own) for step in steps][-1].count("2 samples") == 2


def test_the_workflows_are_as_github_takes_them():
    for kind, files in (("workflows", "workflows/*.yml"), ("actions", "../action.yml")):
        schema = f"check-jsonschema --builtin-schema vendor.github-{kind}"
        in_shell(f"{schema} .github/{files}", ROOT)


def test_a_tag_of_another_version_is_not_released(repository: Path):
    [step] = [each for each in WORKFLOW["jobs"]["build"]["steps"] if "tag" in each.get("name", "")]
    with pytest.raises(AssertionError):
        in_shell(step["run"], repository, GITHUB_REF_NAME="v9.9.9")
    in_shell(step["run"], repository, GITHUB_REF_NAME=f"v{__version__}")
