"""Writes docs/environment.md from the table of environment variables and checks links in docs.

    python tools/docs.py [--check]

With --check nothing is written: the exit code says whether what is there is up to date.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "csrc" / "base" / "env_vars.def"
PAGE = ROOT / "docs" / "environment.md"

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

    text = environment_page(TABLE.read_text())
    problems = []
    if not args.check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        problems.append(f"{PAGE.relative_to(ROOT)} is out of date: run make docs")
    problems += broken_links()
    print("\n".join(problems) or "documents are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
