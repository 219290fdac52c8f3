"""Make d3.js, the part of D3 that the report's charts use, and D3-LICENSE.

    python docs/make_d3.py [--check]

Needs npm and the npm registry. With --check it writes nothing, and fails if the files differ.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

ASSETS = Path(__file__).parents[1] / "batchstat/render/html/assets"

PACKAGES = {"d3-array": "3.2.5", "d3-selection": "3.0.1", "internmap": "2.0.3"}
"""What is bundled and everything that it depends on, each with its version."""

BUNDLER = ("esbuild", "0.28.2")  # the program that makes one file of the packages, with its version

ENTRY = """\
export { ticks } from "d3-array";
export { select } from "d3-selection";
"""
"""The functions that the charts use."""

_OPTIONS = "--bundle --minify --format=iife --global-name=d3 --target=es2020 --legal-comments=none"
"""Of esbuild: one small file that defines `d3` when a browser runs it."""
_NPM = "--ignore-scripts --no-save --no-package-lock --no-audit --no-fund"
"""Of npm: run no code of the packages, and write nothing but them."""
_QUIET = "--fetch-retries=0 --loglevel=error"
"""Of npm: fail at once where the registry is not reached, and print only errors."""

_CODE_WORDS = 4
"""npm prints an error's codes first, in lines of at most so many words, then a sentence."""


class BundleError(Exception):
    """The bundle cannot be made, or differs."""


def main() -> None:
    """Write d3.js and D3-LICENSE, or with `--check` fail if they differ."""
    parser = argparse.ArgumentParser(description="Make d3.js and D3-LICENSE.")
    parser.add_argument("--check", action="store_true", help="fail if the files differ")
    is_check = parser.parse_args().check
    try:
        for name, content in bundle().items():
            path = ASSETS / name
            if not is_check:
                path.write_bytes(content)
                print(f"wrote {name}: {len(content):,} bytes", file=sys.stderr)
            elif not path.exists() or path.read_bytes() != content:
                raise BundleError(f"{name} differs from what it builds: run it without --check")
    except BundleError as error:
        sys.exit(f"make_d3.py: {error}")


def bundle() -> dict[str, bytes]:
    """Return the files by name: npm installs the packages, esbuild makes one file of them."""
    npm = which("npm")
    if npm is None:
        raise BundleError("npm not found: install Node.js, which brings it")
    with tempfile.TemporaryDirectory() as folder:
        pinned_packages = [f"{name}@{version}" for name, version in (*PACKAGES.items(), BUNDLER)]
        install = [npm, "install", *_NPM.split(), *_QUIET.split(), *pinned_packages]
        _run(install, folder, "npm cannot install the packages")
        modules = Path(folder, "node_modules")
        entry_file = Path(folder, "entry.js")
        entry_file.write_text(ENTRY, encoding="utf-8")
        esbuild = str(modules / ".bin" / "esbuild")
        code = _run([esbuild, entry_file.name, *_OPTIONS.split()], folder, "esbuild failed")
        packages = ", ".join(f"{name} {version}" for name, version in PACKAGES.items())
        head = f"/* {packages}; licences in D3-LICENSE; made by make_d3.py */\n".encode()
        names_of: dict[str, list[str]] = {}  # by the text of a licence, which is written once
        for name, version in PACKAGES.items():
            text = (modules / name / "LICENSE").read_text(encoding="utf-8").strip()
            names_of.setdefault(text, []).append(f"{name} {version}")
        parts = [f"{', '.join(names)}\n\n{text}\n" for text, names in names_of.items()]
        licences = "d3.js holds parts of these packages.\n\n" + "\n---\n\n".join(parts)
        return {"d3.js": head + code, "D3-LICENSE": licences.encode()}


def _run(command: list[str], folder: str, failure: str) -> bytes:
    """Run a command in a folder. Raises BundleError with the first sentence of its errors."""
    process = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if process.returncode:
        lines = process.stderr.decode(errors="replace").splitlines()
        sentences = (line for line in lines if len(line.split()) > _CODE_WORDS)
        message = next(sentences, "no message")
        raise BundleError(f"{failure}: {message.removeprefix('npm error ')}")
    return process.stdout


if __name__ == "__main__":
    main()
