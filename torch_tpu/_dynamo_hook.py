"""Registers with Dynamo when the program imports it: 1.4 s that `import torch` needn't spend."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_TARGET = "torch._dynamo.backends.registry"


class _AfterImport(importlib.abc.MetaPathFinder):
    """Lets the usual finders find the target and adds our registration after its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def register(registry: ModuleType) -> None:
    """Register backend "tpu" and what ``torch.compile`` does when no backend is named."""

    def tpu(gm, example_inputs, **kwargs):
        from torch_tpu._compile import tpu_backend

        return tpu_backend(gm, example_inputs, **kwargs)

    def unnamed(gm, example_inputs, **kwargs):
        from torch_tpu._compile import default_backend

        return default_backend(gm, example_inputs, **kwargs)

    if "tpu" not in registry._COMPILER_FNS:
        registry.register_backend(compiler_fn=tpu, name="tpu")
    if registry.get_default_backend() == "inductor":
        registry.set_default_backend(unnamed)


def install() -> None:
    """Arrange for :func:`register` to run once Dynamo's backend registry is imported."""
    loaded = sys.modules.get(_TARGET)
    if loaded is not None:
        register(loaded)
    else:
        sys.meta_path.insert(0, _AfterImport())
