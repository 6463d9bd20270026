"""Which plugin is chosen, and that no plugin file takes the process down."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_tpu import _plugins


def test_the_environment_variable_overrides_everything(monkeypatch, tmp_path):
    plugin = tmp_path / "my_plugin.so"
    plugin.write_bytes(b"x")
    monkeypatch.setenv("TORCH_TPU_PJRT_PLUGIN", str(plugin))
    assert _plugins.find() == _plugins.Plugin(plugin, trusted=False)


def test_a_missing_file_named_by_the_variable_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setenv("TORCH_TPU_PJRT_PLUGIN", "/nowhere/plugin.so")
    with pytest.raises(RuntimeError, match=r"TORCH_TPU_PJRT_PLUGIN=/nowhere/plugin.so"):
        _plugins.find()


def test_a_tpu_with_libtpu_wins_over_the_cpu(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCH_TPU_PJRT_PLUGIN", raising=False)
    monkeypatch.setattr(_plugins, "tpu_nodes", lambda: [Path("/dev/accel0")])
    libtpu = tmp_path / "libtpu.so"
    monkeypatch.setattr(_plugins, "_file_of", lambda p, f: libtpu if p == "libtpu" else None)
    assert _plugins.find().path == libtpu


def test_a_tpu_without_libtpu_says_to_install_it(monkeypatch):
    monkeypatch.delenv("TORCH_TPU_PJRT_PLUGIN", raising=False)
    monkeypatch.setattr(_plugins, "tpu_nodes", lambda: [Path("/dev/accel0")])
    monkeypatch.setattr(_plugins, "_file_of", lambda p, f: None)
    with pytest.raises(RuntimeError, match="pip install libtpu"):
        _plugins.find()


def test_known_cpu_plugins_are_trusted_and_found_without_importing_them(monkeypatch):
    monkeypatch.delenv("TORCH_TPU_PJRT_PLUGIN", raising=False)
    monkeypatch.setattr(_plugins, "tpu_nodes", list)
    imported = set(sys.modules)
    plugin = _plugins.find()
    assert plugin.trusted
    assert plugin.path.is_file()
    assert set(sys.modules) == imported


def test_tpu_nodes_are_numbered_accel_and_vfio_files_only(tmp_path):
    (tmp_path / "vfio").mkdir()
    for name in ("accel0", "accel12", "accel", "accelerometer", "vfio/0", "vfio/vfio", "tty1"):
        (tmp_path / name).touch()
    names = {str(p.relative_to(tmp_path)) for p in _plugins.tpu_nodes(tmp_path)}
    assert names == {"accel0", "accel12", "vfio/0"}


def test_libtpu_without_a_tpu_is_told_not_to_query_the_network(monkeypatch, tmp_path):
    libtpu = tmp_path / "libtpu.so"
    libtpu.touch()
    monkeypatch.setenv("TORCH_TPU_PJRT_PLUGIN", str(libtpu))
    monkeypatch.setattr(_plugins, "tpu_nodes", list)
    for name in _plugins._LIBTPU_WITHOUT_TPU:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    _plugins.resolve()
    assert os.environ["TPU_SKIP_MDS_QUERY"] == "1"


def first_use(plugin: Path) -> subprocess.CompletedProcess[str]:
    code = """
import torch, torch_tpu
for _ in range(2):
    try:
        torch.ones(2, device="tpu")
    except RuntimeError as error:
        print(error)
    else:
        raise AssertionError("worked")
assert torch.ones(2).sum() == 2
"""
    env = {**os.environ, "TORCH_TPU_PJRT_PLUGIN": str(plugin)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120
    )


def broken_plugins() -> dict[str, bytes]:
    cpu = next(iter(_plugins._known_cpu_plugins()), None)
    files = {"text": b"not a library\n", "empty": b""}
    if cpu:
        with cpu.open("rb") as file:
            files["truncated"] = file.read(1 << 20)
    return files


@pytest.mark.parametrize("kind", ["text", "empty", "truncated"])
def test_a_broken_plugin_file_is_a_runtime_error_naming_it(kind, tmp_path):
    content = broken_plugins().get(kind)
    if content is None:
        pytest.skip("no CPU plugin to truncate")
    plugin = tmp_path / f"{kind}.so"
    plugin.write_bytes(content)
    result = first_use(plugin)
    assert result.returncode == 0, result.stderr
    assert str(plugin) in result.stdout


def test_a_foreign_library_is_a_runtime_error(tmp_path):
    import torch

    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    result = first_use(library)
    assert result.returncode == 0, result.stderr
    assert "libc10.so" in result.stdout


def test_a_plugin_that_aborts_does_not_take_the_process_down(test_plugin_dir):
    result = first_use(test_plugin_dir / "aborting_plugin.so")
    assert result.returncode == 0, result.stderr
    assert "aborting_plugin.so" in result.stdout
