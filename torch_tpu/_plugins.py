"""Which PJRT plugin is loaded: found by looking, without importing or loading anything."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

_PROBE = Path(__file__).parent / "bin" / "torch_tpu_pjrt_probe"
_INSTALL_CPU = "pip install xla-cpu-pjrt==0.0.1"

# What keeps libtpu from asking the network about a machine that has no TPU: without the first it
# tries for minutes; the others answer what it would ask and keep it quiet.
_LIBTPU_WITHOUT_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


class PluginError(RuntimeError):
    """No usable plugin; the message says what is missing and what to install."""


@dataclass(frozen=True)
class Plugin:
    """A plugin file; `trusted` ones are those this package is tested with and need no probe."""

    path: Path
    trusted: bool


def tpu_nodes(dev: Path = Path("/dev")) -> list[Path]:
    """The device files of TPUs: /dev/accelN and /dev/vfio/N."""
    accel = [p for p in dev.glob("accel?*") if p.name.removeprefix("accel").isdigit()]
    vfio = [p for p in (dev / "vfio").glob("*") if p.name.isdigit()]
    return sorted(accel + vfio)


def find() -> Plugin:
    """The plugin to use. Raises PluginError when there is none."""
    if chosen := os.environ.get("TORCH_TPU_PJRT_PLUGIN"):
        path = Path(chosen).expanduser()
        if not path.is_file():
            raise PluginError(f"TORCH_TPU_PJRT_PLUGIN={chosen}: there is no such file")
        return Plugin(path.resolve(), trusted=path.resolve() in _known_cpu_plugins())
    if nodes := tpu_nodes():
        if libtpu := _file_of("libtpu", "libtpu.so"):
            return Plugin(libtpu, trusted=False)
        raise PluginError(
            f"there is a TPU ({nodes[0]}) but libtpu is not installed: pip install libtpu. To run "
            "on the CPU instead, point TORCH_TPU_PJRT_PLUGIN to a CPU plugin"
        )
    if known := _known_cpu_plugins():
        return Plugin(known[0], trusted=True)
    raise PluginError(
        f"no TPU was found, and no PJRT plugin for the CPU is installed: {_INSTALL_CPU}"
    )


def is_available() -> bool:
    """Whether find() would find one."""
    try:
        find()
    except PluginError:
        return False
    return True


def resolve() -> tuple[str, bool, str]:
    """For the native side, just before it loads the plugin: path, trusted, probe executable."""
    if os.environ.get("TORCH_TPU_DEFER_AND_FUSE", "0").lower() not in (
        "",
        "0",
        "false",
        "off",
        "no",
    ):
        raise NotImplementedError("TORCH_TPU_DEFER_AND_FUSE: deferred mode is not implemented yet")
    plugin = find()
    if "libtpu" in plugin.path.name and not tpu_nodes():
        for name, value in _LIBTPU_WITHOUT_TPU.items():
            os.environ.setdefault(name, value)
    return str(plugin.path), plugin.trusted, str(_PROBE)


def _known_cpu_plugins() -> list[Path]:
    # The newer one first; xla_plugins is a namespace package.
    found = (
        _file_of("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
        _file_of("xla_plugins", "xla_cpu_pjrt/xla_cpu_pjrt.so"),
    )
    return [path for path in found if path]


def _file_of(package: str, file: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / file
        if path.is_file():
            return path.resolve()
    return None
