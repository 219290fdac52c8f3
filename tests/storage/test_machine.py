"""What a machine keeps between runs."""

import stat

import pytest

from batchstat.storage import machine
from batchstat.storage.addresses import etag_of_identity, identity
from batchstat.storage.machine import cache_folder, machine_secret
from batchstat.storage.shown import Address


@pytest.fixture(autouse=True)
def forgotten():
    """As in a new process."""
    for kept in (machine._secret_in, machine._secret_of_process):
        kept.cache_clear()
    yield
    for kept in (machine._secret_in, machine._secret_of_process):
        kept.cache_clear()


def test_where_the_folder_is(monkeypatch, tmp_path):
    monkeypatch.setenv("BATCHSTAT_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("BATCHSTAT_CACHE_DIR")
    assert cache_folder() == tmp_path / "xdg" / "batchstat"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "batchstat"


def test_the_secret_is_made_once_and_only_its_user_reads_it(monkeypatch, tmp_path):
    monkeypatch.setenv("BATCHSTAT_CACHE_DIR", str(tmp_path / "new"))
    first = machine_secret()
    file = tmp_path / "new" / "secret"
    assert file.read_bytes() == first
    assert len(first) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["secret"]
    machine._secret_in.cache_clear()
    assert machine_secret() == first
    file.write_bytes(b"cut short")
    machine._secret_in.cache_clear()
    assert file.read_bytes() != (again := machine_secret())[:9]
    assert file.read_bytes() == again != first


def test_where_nothing_can_be_written_it_is_of_this_process(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BATCHSTAT_CACHE_DIR", str(tmp_path / "file"))
    first = machine_secret()
    assert machine_secret() == first
    machine._secret_of_process.cache_clear()
    machine._secret_in.cache_clear()
    assert machine_secret() != first


def test_an_etag_alone_does_not_identify_an_address(monkeypatch, tmp_path):
    monkeypatch.setenv("BATCHSTAT_CACHE_DIR", str(tmp_path))
    one, other = (Address(f"https://h/f?key={key}") for key in "ab")
    assert one == other
    assert identity(one, "etag:1") == identity(one, "etag:1") != identity(other, "etag:1")
    assert etag_of_identity(identity(one, "etag:1")) == "etag:1"
    assert identity(one, "") == ""  # its content is read
    assert identity("https://h/f", "etag:1") == "etag:1"
