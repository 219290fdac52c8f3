"""The files that the HTML report is made of: small, self-contained, licensed, without eval."""

import re
import runpy
import tomllib

from conftest import ROOT
from tables import in_turn

ASSETS = ROOT / "batchstat/render/html/assets"
SOURCES = sorted([*ASSETS.glob("*.js"), *ASSETS.glob("*.css")])
BUNDLED = ASSETS / "d3.js"
OWN = [path for path in SOURCES if path != BUNDLED]
PACKAGES = runpy.run_path(str(ROOT / "docs/make_d3.py"))["PACKAGES"]

MOST_BYTES = 110_000
NAMESPACES = r"http://www\.w3\.org/(?:2000/svg|1999/xhtml)"


def test_all_assets_together_are_small():
    assert 0 < sum(path.stat().st_size for path in SOURCES) < MOST_BYTES


@in_turn("path", SOURCES)
def test_nothing_needs_what_the_policy_forbids(path):
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"\beval\(|\bnew Function\b|\bFunction\(|\bimport\(|@import", text)
    assert not re.findall(r"setAttribute\(\s*['\"](?:style|on\w+)['\"]", text)
    assert "</script" not in text.lower()
    assert "<!--" not in text


@in_turn("path", OWN)
def test_own_files_name_no_address(path):
    text = re.sub(NAMESPACES, "", path.read_text(encoding="utf-8"))
    assert not re.findall(r"https?://\S*|url\((?!data:)", text)
    assert not re.findall(
        r"\bfetch\(|XMLHttpRequest|\bnew Worker\b|innerHTML|insertAdjacentHTML", text
    )


def test_every_bundled_package_is_named_with_its_version_and_licence():
    licences = (ASSETS / "D3-LICENSE").read_text(encoding="utf-8")
    head = BUNDLED.read_text(encoding="utf-8").partition("*/")[0]
    for name, version in PACKAGES.items():
        assert re.search(rf"\b{name} {re.escape(version)}\b", licences)
        assert re.search(rf"\b{name} {re.escape(version)}\b", head)
    texts = licences.count("Permission to use, copy, modify, and/or distribute")
    assert texts == licences.count("\n---\n") + 1


def test_charts_use_every_function_of_the_bundle_and_no_other():
    entry = runpy.run_path(str(ROOT / "docs/make_d3.py"))["ENTRY"]
    bundled = {name.strip() for group in re.findall(r"{(.*?)}", entry) for name in group.split(",")}
    used = {name for path in OWN for name in re.findall(r"\bd3\.(\w+)", path.read_text("utf-8"))}
    assert used == bundled


def test_the_licence_is_part_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert str((ASSETS / "D3-LICENSE").relative_to(ROOT)) in project["license-files"]
