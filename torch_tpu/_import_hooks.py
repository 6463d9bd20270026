"""Runs a function right after a module is imported, without importing it."""

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[ModuleType], None]

_pending: dict[str, list[Callback]] = {}
_searching = threading.local()


def after_import(name: str, callback: Callback) -> None:
    """Call `callback` with module `name` as soon as it is imported; now if it already is."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        callback(module)
        return
    _pending.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _pending or getattr(_searching, "name", None) == name:
            return None
        _searching.name = name  # the search below comes here again
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _searching.name = None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must not know of us.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for callback in _pending.pop(module.__name__, []):
            callback(module)


_finder = _Finder()
