"""Builds ``torch.tpu`` and its submodules from the table in ``_public.py``; names load lazily."""

import importlib
import sys
from types import ModuleType
from typing import Any

from torch_tpu._public import PUBLIC, Name, Property


def resolve(target: str) -> Any:
    """The object behind "module:attribute", or the module behind "module"."""
    module, _, attribute = target.partition(":")
    value = importlib.import_module(module)
    return getattr(value, attribute) if attribute else value


class Namespace(ModuleType):
    """A module whose names come from one table; looked up at first use."""

    def __init__(self, name: str, doc: str, names: dict[str, Name]) -> None:
        super().__init__(name, doc)
        self.__path__: list[str] = []  # so that submodules can be imported
        self._names = names
        self.__all__ = [n for n in names if not n.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        entry = self._names.get(name) if name != "_names" else None
        if entry is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = resolve(entry.target)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._names})


def _with_properties(name: str, properties: dict[str, Property]) -> type[Namespace]:
    def make(prop: Property) -> property:
        def get(_: Namespace) -> Any:
            return resolve(prop.target)()

        def put(_: Namespace, value: Any) -> None:
            resolve(str(prop.setter))(value)

        return property(get, put if prop.setter else None, doc=prop.doc)

    members = {n: make(p) for n, p in properties.items()}
    return type(f"Namespace[{name}]", (Namespace,), members)


def install() -> ModuleType:
    """Create every public module, make them importable, and return ``torch.tpu``."""
    for module_name, (doc, names) in PUBLIC.items():
        properties = {n: e for n, e in names.items() if isinstance(e, Property)}
        module = _with_properties(module_name, properties)(module_name, doc, names)
        sys.modules[module_name] = module
        parent, _, leaf = module_name.rpartition(".")
        if parent != "torch":
            setattr(sys.modules[parent], leaf, module)
    return sys.modules["torch.tpu"]
