"""Runs clang-tidy over the sources of some folders: tidy.py --build DIR FOLDER..."""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# GCC's own; clang rejects them.
_GCC_ONLY = {"-fpch-preprocess"}


def _clang_database(build: Path, folders: list[Path]) -> list[dict[str, str]]:
    """The entries of compile_commands.json below `folders`, in terms that clang accepts."""
    entries = json.loads((build / "compile_commands.json").read_text())
    roots = [folder.resolve() for folder in folders]
    chosen = []
    for entry in entries:
        if any(root in Path(entry["file"]).parents for root in roots):
            words = [word for word in shlex.split(entry["command"]) if word not in _GCC_ONLY]
            chosen.append({**entry, "command": shlex.join(words)})
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="CMake's build folder")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("folders", type=Path, nargs="+")
    args = parser.parse_args()

    database = _clang_database(args.build, args.folders)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "compile_commands.json").write_text(json.dumps(database))

        def check(file: str) -> int:
            command = ["clang-tidy", "--quiet", "-p", folder, file]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                print(result.stdout + result.stderr, end="", flush=True)
            return result.returncode

        with ThreadPoolExecutor(args.jobs) as pool:
            failed = sum(map(bool, pool.map(check, [entry["file"] for entry in database])))
    print(f"clang-tidy: {len(database) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
