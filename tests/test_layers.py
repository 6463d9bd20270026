"""The include rule: each folder of csrc/ sees the layers below it and nothing else."""

import re
from pathlib import Path

import pytest

CORE = {"base", "pjrt", "stablehlo", "lowering", "cache", "runtime"}
MAY_INCLUDE = {
    "base": set(),
    "pjrt": {"base"},
    "stablehlo": {"base"},
    "lowering": {"base", "stablehlo"},
    "cache": {"base", "pjrt"},
    "runtime": {"base", "pjrt", "cache", "stablehlo", "lowering"},
    "eager": CORE,
    "compiler": CORE | {"eager"},
    "distributed": CORE | {"eager"},
    "bindings": CORE | {"eager", "compiler", "distributed"},
}
SEES_TORCH = {"eager", "compiler", "distributed", "bindings"}
TORCH_HEADER = re.compile(r"(ATen|c10|caffe2|torch|pybind11)/|Python\.h$")
PJRT_HEADER = re.compile(r"(xla/pjrt/c/)?pjrt_c_api\w*\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)

CSRC = Path(__file__).resolve().parent.parent / "csrc"


def violations(layer: str, text: str) -> list[str]:
    """What is wrong with the includes of one source file that belongs to `layer`."""
    found = []
    for bracket, header in INCLUDE.findall(text):
        folder = header.split("/")[0]
        if TORCH_HEADER.match(header):
            if layer not in SEES_TORCH:
                found.append(f"{header}: only {sorted(SEES_TORCH)} see torch and Python")
        elif PJRT_HEADER.match(header):
            if layer != "pjrt":
                found.append(f"{header}: only pjrt sees the C API")
        elif bracket == "<":
            # Below pjrt's C header no outside library: what is left is the standard library, the
            # system, and GoogleTest in tests.
            continue
        elif folder not in MAY_INCLUDE:
            found.append(f'"{header}": write it from csrc, as in "{layer}/..."')
        elif folder != layer and folder not in MAY_INCLUDE[layer]:
            found.append(f'"{header}": {layer} may include {sorted(MAY_INCLUDE[layer])}')
    return found


def sources() -> list[Path]:
    return sorted(path for path in CSRC.rglob("*") if path.suffix in {".h", ".cc"})


def test_every_folder_of_csrc_is_a_known_layer() -> None:
    folders = {path.relative_to(CSRC).parts[0] for path in sources()}
    assert folders
    assert folders <= MAY_INCLUDE.keys()


def test_sources_include_only_the_layers_below_them() -> None:
    found = [
        f"{path.relative_to(CSRC)}: {violation}"
        for path in sources()
        for violation in violations(path.relative_to(CSRC).parts[0], path.read_text())
    ]
    assert not found, "\n".join(found)


def test_headers_are_guarded_by_pragma_once() -> None:
    missing = [
        str(path.relative_to(CSRC))
        for path in sources()
        if path.suffix == ".h" and "#pragma once" not in path.read_text()
    ]
    assert not missing


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("base", '#include "pjrt/client.h"'),
        ("stablehlo", '#include "lowering/lowering.h"'),
        ("lowering", "#include <ATen/ATen.h>"),
        ("runtime", '#include "eager/storage.h"'),
        ("runtime", "#include <pjrt_c_api.h>"),
        ("cache", '#  include "c10/core/Device.h"'),
        ("base", "#include <Python.h>"),
        ("pjrt", '#include "client.h"'),
    ],
)
def test_forbidden_include_is_reported(layer: str, line: str) -> None:
    assert violations(layer, f"#pragma once\n{line}\n")


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("base", "#include <vector>"),
        ("pjrt", '#include "pjrt_c_api.h"'),
        ("runtime", '#include "lowering/lowering.h"'),
        ("eager", "#include <torch/library.h>"),
        ("bindings", '#include "compiler/graph.h"'),
        ("lowering", "#include <gtest/gtest.h>"),
    ],
)
def test_permitted_include_is_accepted(layer: str, line: str) -> None:
    assert not violations(layer, f"#pragma once\n{line}\n")
