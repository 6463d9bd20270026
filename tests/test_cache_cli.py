"""The command ``python -m torch_tpu cache`` on caches good and bad."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from torch_tpu import _C
from torch_tpu._cli import main


def key_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def file_of(folder: Path, name: str) -> Path:
    return folder / "v1" / "entries" / key_of(name)[:2] / key_of(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache of three programs of 1,000 bytes."""
    tier = _C._HostTier(str(tmp_path / "cache"), 1 << 30, True)
    for name in ("add", "mul", "sub"):
        assert tier.write(key_of(name), f"aten::{name}", name.encode() * 333 + b"!")
    return tmp_path / "cache"


@pytest.fixture
def run(capsys):
    """Runs an action on a folder: exit code and output."""

    def call(folder: Path, *arguments: str) -> tuple[int, str]:
        code = main(["cache", "--folder", str(folder), *arguments])
        return code, capsys.readouterr().out

    return call


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def names(run, folder: Path) -> set[str]:
    code, out = run(folder, "ls", "--json")
    assert code == 0
    return {json.loads(line)["name"] for line in out.splitlines()}


def test_ls_shows_every_entry(run, folder):
    code, out = run(folder, "ls")
    assert code == 0
    for name in ("add", "mul", "sub"):
        line = next(line for line in out.splitlines() if f"aten::{name}" in line)
        assert line.startswith(key_of(name)[:16])
        assert "1.1 KiB" in line


def test_ls_of_a_folder_that_is_missing_does_not_make_it(run, tmp_path):
    assert run(tmp_path / "none", "ls") == (0, f"no entries in {tmp_path / 'none'}\n")
    assert not (tmp_path / "none").exists()


def test_stats_counts_entries_and_bytes(run, folder):
    code, out = run(folder, "stats", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["entries"] == 3
    assert report["bytes"] == sum(file_of(folder, n).stat().st_size for n in ("add", "mul", "sub"))
    assert report["kinds"] == {"program": 3}
    assert "3 program" in run(folder, "stats")[1]


def test_verify_names_and_sets_aside_bad_entries(run, folder):
    assert run(folder, "verify") == (0, "3 entries, 0 bad\n")
    damage(file_of(folder, "mul"))
    file_of(folder, "sub").write_text("#!/bin/sh\n")
    code, out = run(folder, "verify")
    assert code == 1
    assert f"{key_of('mul')}  damaged, set aside" in out
    assert f"{key_of('sub')}  foreign, set aside" in out
    assert run(folder, "verify") == (0, "1 entries, 0 bad\n")
    assert json.loads(run(folder, "stats", "--json")[1])["quarantined"] == 2


def test_prune_keeps_what_was_used_last(run, folder):
    for age, name in enumerate(("mul", "add", "sub")):
        os.utime(file_of(folder, name), (1.7e9 - age * 1000, 1.7e9))
    code, out = run(folder, "prune", "--size", "1.5K")
    assert (code, out) == (0, "2 entries removed\n")
    assert names(run, folder) == {"aten::mul"}


def test_clear_removes_everything(run, folder):
    assert run(folder, "clear") == (0, "3 entries removed\n")
    assert names(run, folder) == set()


@pytest.mark.parametrize("suffix", ["tar", "file"])
def test_a_cache_that_is_exported_can_be_imported_elsewhere(run, folder, tmp_path, suffix):
    archive = tmp_path / f"archive.{suffix}"
    target = f"file://{archive}" if suffix == "file" else str(archive)
    assert run(folder, "export", target)[0] == 0
    elsewhere = tmp_path / "elsewhere"
    assert run(elsewhere, "import", target) == (0, "3 entries imported\n")
    for name in ("add", "mul", "sub"):
        assert file_of(elsewhere, name).read_bytes() == file_of(folder, name).read_bytes()
    assert run(elsewhere, "verify")[0] == 0


def test_some_entries_can_be_exported_by_the_start_of_their_keys(run, folder, tmp_path):
    run(folder, "export", str(tmp_path / "a.tar"), key_of("add")[:12])
    run(tmp_path / "elsewhere", "import", str(tmp_path / "a.tar"))
    assert names(run, tmp_path / "elsewhere") == {"aten::add"}


def test_bad_entries_are_not_exported(run, folder, tmp_path):
    damage(file_of(folder, "mul"))
    run(folder, "export", str(tmp_path / "a.tar"))
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert set(archive.getnames()) == {key_of("add"), key_of("sub")}


def test_import_takes_nothing_but_whole_entries(run, folder, tmp_path):
    good = file_of(folder, "add").read_bytes()
    flipped = bytearray(file_of(folder, "mul").read_bytes())
    flipped[200] ^= 4
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in {
            "../../escape": good,
            key_of("mul"): bytes(flipped),
            key_of("sub"): good[:-5],
            "script.sh": b"#!/bin/sh\n",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(key_of("link"))
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
    code, out = run(tmp_path / "elsewhere", "import", str(tmp_path / "a.tar"))
    assert code == 1
    assert set(out.splitlines()) == {
        "1 entries imported",
        "1 not imported: damaged",
        "1 not imported: truncated",
        "2 not imported: foreign",
    }
    assert names(run, tmp_path / "elsewhere") == {"aten::add"}
    assert not (tmp_path / "escape").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00damaged gzip"])
def test_an_archive_that_is_none_is_an_error_in_one_line(folder, tmp_path, capsys, content):
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(SystemExit) as stopped:
        main(["cache", "--folder", str(folder), "import", str(tmp_path / "a.tar")])
    assert stopped.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["prune", "--size", "much"], ["import", "/nowhere/a.tar"], ["nonsense"], []]
)
def test_wrong_calls_end_with_code_2(folder, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["cache", "--folder", str(folder), *arguments])
    assert stopped.value.code == 2
    assert capsys.readouterr().err


def test_a_folder_that_others_can_write_is_refused(folder, capfd):
    folder.chmod(0o777)
    assert main(["cache", "--folder", str(folder), "ls"]) == 0
    assert capfd.readouterr().out == f"no entries in {folder}\n"
    with pytest.raises(SystemExit):
        main(["cache", "--folder", str(folder), "import", "-"])
    assert f"{folder} can't be used" in capfd.readouterr().err


def test_the_command_line_starts_no_device_and_finds_the_folder_by_itself(folder):
    code = (
        "import runpy, sys, torch; sys.argv = ['torch_tpu', 'cache', 'ls', '--json']\n"
        "try: runpy.run_module('torch_tpu', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not torch.tpu.is_initialized()"
    )
    environment = {
        **os.environ,
        "TORCH_TPU_CACHE_DIR": str(folder.parent),
        "TORCH_TPU_TIER2_COMPILATION_CACHE": folder.name,
    }
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 3


def test_a_host_tier_that_is_off_is_said_to_be_off(monkeypatch, capsys):
    monkeypatch.setenv("TORCH_TPU_TIER2_COMPILATION_CACHE", "disabled")
    assert _C._cache_host_options() is None
    with pytest.raises(SystemExit):
        main(["cache", "ls"])
    assert "turned off" in capsys.readouterr().err
