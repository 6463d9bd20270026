"""torch.tpu.cache, and the fleet tier over fsspec. The tiers themselves: csrc/cache/*_test.cc."""

import hashlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

from torch_tpu import _cache

KEY = hashlib.sha256(b"a program").hexdigest()


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    start = "import sys, torch, torch_tpu\nfrom torch_tpu import _C, _cache\n"
    return subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def start(folder: Path, code: str, fleet: Path | str = "", **environment: str) -> str:
    """Runs code in a process whose host tier is in the folder; what it wrote to stderr."""
    result = run(
        code,
        TORCH_TPU_CACHE_DIR=str(folder),
        TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT=str(fleet),
        **environment,
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


STORE = f"_C._cache_store('{KEY}', 'name', b'code')"
FIND = f"assert _C._cache_find('{KEY}') == b'code'"
MISS = f"assert _C._cache_find('{KEY}') is None"


def test_stats_have_a_part_for_each_tier_that_is_on(tmp_path):
    code = f"""
    assert torch.tpu.cache.stats().fleet is None
    {STORE}
    {FIND}
    host = torch.tpu.cache.stats().host
    assert (host.writes, host.hits) == (1, 1), host
    """
    assert start(tmp_path, code) == ""
    code = "assert torch.tpu.cache.stats().host is None; assert torch.tpu.cache.folder() is None"
    assert start(tmp_path, code, TORCH_TPU_TIER2_COMPILATION_CACHE="disabled") == ""


def test_folder_is_where_the_variables_say(tmp_path):
    code = "print(torch.tpu.cache.folder(), file=sys.stderr)"
    assert start(tmp_path, code) == f"{tmp_path}/default\n"
    with_name = start(tmp_path, code, TORCH_TPU_TIER2_COMPILATION_CACHE="job1")
    assert with_name == f"{tmp_path}/job1\n"
    result = run(code, TORCH_TPU_CACHE_SIZE="much")
    assert "ValueError: TORCH_TPU_CACHE_SIZE" in result.stderr


def test_clear_leaves_the_folder_alone_unless_told(tmp_path):
    start(tmp_path, f"{STORE}; torch.tpu.cache.clear(); {FIND}")
    start(tmp_path, f"{FIND}; torch.tpu.cache.clear(host=True); {MISS}")


def test_cache_only_can_be_nested_and_ends_with_an_error_too():
    with pytest.raises(KeyError), torch.tpu.cache.cache_only(), torch.tpu.cache.cache_only():
        raise KeyError
    assert torch.tpu.cache.cache_only.__doc__


def test_what_one_machine_stores_another_finds(tmp_path):
    start(tmp_path / "one", STORE, fleet=tmp_path / "fleet")
    code = f"{FIND}; assert torch.tpu.cache.stats().fleet.hits == 1"
    assert start(tmp_path / "two", code, fleet=f"file://{tmp_path}/fleet") == ""
    assert [p.name for p in (tmp_path / "fleet").glob("v1/*/*")] == [KEY]


def test_the_root_may_be_a_folder_a_url_or_in_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for root in (f"{tmp_path}/there", f"file://{tmp_path}/there", "~/there"):
        store = _cache.FleetStore(root)
        store.write("v1/ab/abc", root.encode())
        assert (tmp_path / "there/v1/ab/abc").read_text() == root


def test_nothing_is_imported_for_the_fleet_tier_until_it_is_used(tmp_path):
    code = "assert 'fsspec.implementations.local' not in sys.modules"
    result = subprocess.run(
        [sys.executable, "-c", f"import sys, torch_tpu; {code}"],
        env={**os.environ, "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": str(tmp_path / "f")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "f").exists()


def test_garbage_in_the_fleet_is_a_miss_and_one_warning(tmp_path):
    start(tmp_path / "one", STORE, fleet=tmp_path / "fleet")
    [file] = (tmp_path / "fleet").glob("v1/*/*")
    code = f"""
    from pathlib import Path
    file = Path({str(file)!r})
    for bad in (b"<html>", file.read_bytes()[:-1] + b"x"):
        file.write_bytes(bad)
        {MISS}
    assert torch.tpu.cache.stats().fleet.damaged == 2
    """
    errors = start(tmp_path / "two", code, fleet=tmp_path / "fleet")
    assert len(errors.splitlines()) == 1
    assert "fleet tier" in errors


@pytest.mark.parametrize("root", ["nosuchprotocol://x", "{file}/below"])
def test_a_root_that_cannot_be_used_is_switched_off_with_a_warning(tmp_path, root):
    (tmp_path / "file").write_text("a file, no folder")
    code = f"""
    for i in range(10):
        _C._cache_store('{KEY}', 'name', b'code')
    torch.tpu.cache.flush()
    {FIND}
    assert not torch.tpu.cache.stats().fleet.on
    """
    errors = start(tmp_path / "one", code, fleet=root.format(file=tmp_path / "file"))
    assert len(errors.splitlines()) == 2
    assert "switched off" in errors


def test_a_store_that_hangs_holds_up_neither_reads_nor_the_end_of_the_process(tmp_path):
    code = f"""
    import threading, time
    _cache._EXIT_SECONDS = 0.5
    _cache.FleetStore._read = _cache.FleetStore._write = lambda *_: threading.Event().wait()
    {STORE}
    begin = time.monotonic()
    assert _C._cache_find('{"0" * 64}') is None
    assert time.monotonic() - begin < 20
    """
    begin = time.monotonic()
    errors = start(tmp_path / "one", code, fleet=tmp_path / "fleet")
    assert time.monotonic() - begin < 60
    assert "took more than 3 s" in errors or "no answer in 3 s" in errors


def test_the_end_of_the_process_waits_for_writes(tmp_path):
    code = """
    import hashlib
    for i in range(30):
        _C._cache_store(hashlib.sha256(bytes([i])).hexdigest(), 'name', b'x' * 100_000)
    """
    assert start(tmp_path / "one", code, fleet=tmp_path / "fleet") == ""
    assert len(list((tmp_path / "fleet").glob("v1/*/*"))) == 30


def test_a_local_store_never_shows_a_half_written_file(tmp_path):
    store = _cache.FleetStore(str(tmp_path))
    content = [bytes([i]) * 300_000 for i in range(4)]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for c in content:
                store.write("v1/ab/abc", c)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for w in writers:
        w.start()
    seen = set()
    for _ in range(300):
        found = store.read("v1/ab/abc")
        if found is not None:
            seen.add(found)
    stop.set()
    for w in writers:
        w.join()
    assert seen <= set(content)
    assert [p.name for p in (tmp_path / "v1/ab").iterdir()] == ["abc"]


def test_a_failed_write_leaves_no_file_behind_and_the_next_one_works(tmp_path, monkeypatch):
    store = _cache.FleetStore(str(tmp_path))
    store.write("v1/ab/one", b"1")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space"):
            store.write("v1/ab/two", b"2")
    assert [p.name for p in (tmp_path / "v1/ab").iterdir()] == ["one"]
    store.write("v1/ab/two", b"2")
    assert store.read("v1/ab/two") == b"2"
    assert store.read("v1/ab/three") is None


def test_the_fleet_works_over_any_file_system_of_fsspec():
    store = _cache.FleetStore("memory://bucket/programs")
    assert store.read("v1/ab/abc") is None
    store.write("v1/ab/abc", b"code")
    assert store.read("v1/ab/abc") == b"code"
