"""Writes docs/environment.md and docs/api.md from their tables and checks links in docs.

    python tools/docs.py [--check]

With --check nothing is written: the exit code says whether what is there is up to date.
"""

import argparse
import ast
import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "csrc" / "base" / "env_vars.def"
PAGE = ROOT / "docs" / "environment.md"
PUBLIC = ROOT / "torch_tpu" / "_public.py"
API_PAGE = ROOT / "docs" / "api.md"

ENTRY = re.compile(r"^TT_ENV\((.*?)\)$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r'"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*)')
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def environment_page(table: str) -> str:
    """The page for the text of env_vars.def."""
    lines = [
        "# Environment variables",
        "",
        "Made by `make docs` from `csrc/base/env_vars.def`.",
        "",
        "| variable | kind | default | meaning | stage |",
        "|---|---|---|---|---|",
    ]
    for entry in ENTRY.findall(table):
        # A document text may be written as several literals, which C++ joins.
        fields = [text or word for text, word in FIELD.findall(entry)]
        _, name, kind, default, accepts, stage, *doc = fields
        kinds = accepts.replace("|", ", ") if kind == "Choice" else kind.lower()
        if kind == "Integer" and accepts:
            kinds += f", {accepts.replace('..', ' to ')}"
        lines.append(f"| `{name}` | {kinds} | {default or 'unset'} | {''.join(doc)} | {stage} |")
    return "\n".join(lines) + "\n"


def first_lines(module: str) -> dict[str, str]:
    """The first line of the docstring of each name that a module of the package defines."""
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    lines: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            lines[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:  # an alias
                if isinstance(target, ast.Name):
                    lines[target.id] = lines.get(node.value.id, "")
    return lines


def api_page() -> str:
    """The page for the table of public names; nothing of the package is imported."""
    spec = importlib.util.spec_from_file_location("_public", PUBLIC)
    assert spec is not None
    assert spec.loader is not None
    public = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = public
    spec.loader.exec_module(public)
    lines = ["# Public API", "", "Made by `make docs` from `torch_tpu/_public.py`.", ""]
    for module, (purpose, names) in public.PUBLIC.items():
        lines += [f"## `{module}`", "", purpose, "", "| name | purpose | stage |", "|---|---|---|"]
        for name, entry in sorted(names.items()):
            if name.startswith("_"):
                continue
            source, _, attribute = entry.target.partition(":")
            text = getattr(entry, "doc", "") or first_lines(source).get(attribute, "")
            lines.append(f"| `{name}` | {text.replace('|', chr(92) + '|')} | {entry.stage} |")
        lines.append("")
    return "\n".join(lines)


def broken_links() -> list[str]:
    """Links of the README and of docs/ to files that don't exist."""
    broken = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        if not page.exists():
            continue
        for target in LINK.findall(page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target} does not exist")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()

    problems = []
    for page, text in ((PAGE, environment_page(TABLE.read_text())), (API_PAGE, api_page())):
        if not args.check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            problems.append(f"{page.relative_to(ROOT)} is out of date: run make docs")
    problems += broken_links()
    print("\n".join(problems) or "documents are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
