"""Functions that run after an import."""

import importlib
import sys

import pytest

from torch_tpu._import_hooks import after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "hooked_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "hooked_module"
    sys.modules.pop("hooked_module", None)


def test_the_callback_runs_once_after_the_import(module):
    seen = []
    after_import(module, lambda m: seen.append(m.value))
    assert importlib.util.find_spec(module) is not None  # looking isn't importing
    assert seen == []
    imported = importlib.import_module(module)
    assert seen == [1]
    assert type(imported.__loader__).__name__ == "SourceFileLoader"
    importlib.reload(imported)
    assert seen == [1]


def test_the_callback_runs_at_once_for_a_module_that_is_there():
    seen = []
    after_import("sys", seen.append)
    assert seen == [sys]


def test_a_missing_module_stays_missing():
    after_import("no_such_module_anywhere", lambda m: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")
