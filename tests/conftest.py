"""Fixtures shared by all tests."""

import os
import tempfile
from pathlib import Path

import pytest

# Programs compiled by tests go to a cache of their own, shared with the processes they start.
_CACHE = tempfile.TemporaryDirectory(prefix="torch_tpu_tests_")
os.environ["TORCH_TPU_CACHE_DIR"] = _CACHE.name

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def test_plugin_dir() -> Path:
    """The folder of plugins built from csrc/**/testing/*.cc; skips where they are not built."""
    folder = Path(
        os.environ.get("TORCH_TPU_TEST_PLUGIN_DIR", REPOSITORY / "build" / "dev" / "testing")
    )
    if not folder.is_dir():
        pytest.skip(f"no test plugins in {folder}: run make build")
    return folder
