"""Revisions of the git repository that the working folder is in."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, MissingError
from batchstat.storage.shown import one_line

_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
"""Variables by which git tells a hook its repository: with them, a checkout changes its index."""


@dataclass(frozen=True)
class Revision:
    """A revision of the repository that the working folder is in."""

    name: str
    commit: str
    root: Path
    folder: str
    is_here: bool
    checkout: Path

    def __str__(self) -> str:
        return f"{self.name}, commit {self.commit[:8]}"

    @contextmanager
    def checked_out(self) -> Iterator["Revision"]:
        """Check it out, unless it is already, into a folder that is deleted at the end."""
        if self.is_here:
            yield self
            return
        with tempfile.TemporaryDirectory(prefix="batchstat-", ignore_cleanup_errors=True) as parent:
            checkout = Path(parent).resolve() / "base"
            # A worktree and no archive, so that filters run, as for files in Git LFS; but no hooks.
            no_hooks = ("-c", f"core.hooksPath={os.devnull}")
            _git(*no_hooks, "worktree", "add", "--quiet", "--detach", str(checkout), self.commit)
            try:
                yield replace(self, checkout=checkout)
            finally:
                with suppress(InputError):
                    _git("worktree", "remove", "--force", str(checkout))

    def there(self, value: Any) -> Any:
        """Return a value that names paths as one for a process that works in the checkout."""
        return _moved(value, self.root, self.checkout, self.folder)

    def here(self, value: Any) -> Any:
        """Return a value of a process that works in the checkout as one of the repository."""
        return _moved(value, self.checkout, self.root, self.folder)

    def text_here(self, text: str) -> str:
        """Return a message about the checkout as one about the repository."""
        return text.replace(self.checkout.as_posix(), self.root.as_posix())


def find_revision(name: str) -> Revision:
    """Return a revision. Raises InputError if there is none, or no repository."""
    try:
        root, folder = _git("rev-parse", "--show-toplevel", "--show-prefix").split("\n")
        head = _git("rev-parse", "--verify", "HEAD")
    except InputError as error:
        raise InputError(f"--base {name}: there is no such file, and {error.problem}") from None
    try:
        tip = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except InputError:
        remote, _, branch = name.partition("/")
        remedy = "name a file, or what git rev-parse knows"
        if remote == "origin" and branch:  # git fetch origin X makes no origin/X in a shallow clone
            remedy = f"run git fetch origin +refs/heads/{branch}:refs/remotes/{name}"
        raise MissingError(
            f"--base {name}: there is neither such a file nor such a revision", remedy
        ) from None
    commit = tip
    # A shallow clone does not know where branches began: there it is the tip itself.
    with suppress(InputError):
        commit = _git("merge-base", tip, head)
    is_here = commit == head and not _git("status", "--porcelain", "--untracked-files=no")
    repository = Path(root).resolve()
    return Revision(name, commit, repository, folder, is_here, checkout=repository)


def named(path: Path) -> Path:
    """Return a path without the links on the way to it: the file itself may be one."""
    return path.parent.resolve() / path.name


def _moved(value: Any, of: Path, to: Path, folder: str) -> Any:
    """Return a value of a process that works in one checkout for one that works in another."""
    if isinstance(value, Mapping):
        return {key: _moved(each, of, to, folder) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(each, of, to, folder) for each in value)
    if to == of or not isinstance(value, str | Path):
        return value
    path = Path(value)
    if path.is_absolute():
        at = named(path)
        path = to / at.relative_to(of) if at.is_relative_to(of) else path
    elif ".." in path.parts:
        at = Path(os.path.normpath(of / folder / path))
        path = path if at.is_relative_to(of) else at
    else:
        return value
    return path if isinstance(value, Path) else path.as_posix()


def _git(*arguments: str) -> str:
    """Return what git prints. Raises InputError if it fails or is not installed."""
    environment = {key: os.environ[key] for key in os.environ if key not in _OF_HOOKS}
    try:
        done = subprocess.run(
            ["git", *arguments],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",  # names of folders may have any bytes
            check=True,
        )
    except OSError as error:
        raise InputError(f"git cannot be run ({one_line(error)})") from None
    except subprocess.CalledProcessError as error:
        raise InputError(f"git says: {one_line(error.stderr.strip())}") from None
    return done.stdout.removesuffix("\n")
