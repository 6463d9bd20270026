"""Writes the table of PyTorch's structured meta functions, read from the installed headers.

``python tools/meta_functions.py OPS_HEADER_FOLDER OUT.cc``: for every ``at::meta::`` function
whose signature is that of one of its operator's overloads, a row {overload, boxed function}.
They give the shapes and strides of results in under a microsecond and without Python, where the
dispatcher's Meta kernels may be Python functions.
"""

import argparse
import re
from pathlib import Path

_SCHEMA = re.compile(
    r"struct TORCH_API (\w+) \{\s+using schema = ([^;]*);.*?"
    r'static constexpr const char\* schema_str = "([^("]+)\(',
    re.DOTALL,
)
_DECLARATION = re.compile(r"^TORCH_API (.+?)\b(\w+)\((.*)\);$", re.MULTILINE)
_DEFAULT = re.compile(r"=(\{[^}]*\}|[^,]*)")


def _split(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth, part = [], 0, ""
    for character in text + ",":
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return [p for p in parts if p]


def _without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _argument_types(arguments: str) -> list[str]:
    named = _split(_DEFAULT.sub("", arguments))
    return [_without_spaces(re.sub(r"\b\w+\s*$", "", argument)) for argument in named]


def _schema_types(schema: str) -> tuple[str, list[str]]:
    result, _, arguments = schema.partition("(")
    return _without_spaces(result), [_without_spaces(a) for a in _split(arguments.rstrip(" )"))]


def _is_out(overload: str, schema: str) -> bool:
    """Whether a schema writes to ``out=`` arguments: it returns references and isn't in place."""
    return "&" in schema.split("(")[0] and not overload.split(".")[0].endswith("_")


def rows(folder: Path) -> list[tuple[str, str, str, str]]:
    """(overload, header stem, struct of at::_ops, function of at::meta) per match."""
    found: dict[str, tuple[str, str, str, str]] = {}
    for header in sorted(folder.glob("*_meta_dispatch.h")):
        stem = header.name.removesuffix("_meta_dispatch.h")
        if "_outf(" not in header.read_text():
            continue  # not structured: declared only
        functions: dict[tuple[str, str], list[tuple[str, ...]]] = {}
        for result, name, arguments in _DECLARATION.findall(header.read_text()):
            key = (re.sub(r"\s+", "", result), name)
            functions.setdefault(key, []).append(tuple(_argument_types(arguments)))
        for struct, schema, overload in _SCHEMA.findall((folder / f"{stem}_ops.h").read_text()):
            result, types = _schema_types(schema)
            for (returned, name), signatures in functions.items():
                base = name.removesuffix("_outf").removesuffix("_symint")
                is_out = name.endswith("_outf")
                if name.endswith("_out") or returned != result or tuple(types) not in signatures:
                    continue
                if base == overload.split(".")[0] and is_out == _is_out(overload, schema):
                    found[overload] = (overload, stem, struct, name)
    return sorted(found.values())


_TEMPLATE = """\
// Made by tools/meta_functions.py.
#include <ATen/core/Tensor.h>
{includes}
#include "eager/meta_functions.h"

namespace torch_tpu::eager {{

const std::unordered_map<std::string_view, c10::KernelFunction>& meta_functions() {{
  static const auto* table = [] {{
    auto* t = new std::unordered_map<std::string_view, c10::KernelFunction>();
{rows}
    return t;
  }}();
  return *table;
}}

}}  // namespace torch_tpu::eager
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    table = rows(options.folder)
    includes = [
        f"#include <ATen/ops/{stem}_{part}.h>"
        for stem in sorted({row[1] for row in table})
        for part in ("meta_dispatch", "ops")
    ]
    entries = [
        f'    t->emplace("{overload}", boxed<at::_ops::{struct}::schema>(&at::meta::{function}));'
        for overload, _, struct, function in table
    ]
    text = _TEMPLATE.format(includes="\n".join(includes), rows="\n".join(entries))
    if not options.out.exists() or options.out.read_text() != text:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
