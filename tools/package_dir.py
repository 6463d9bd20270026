"""Prints the folder of an installed package without importing it: package_dir.py NAME."""

import importlib.util
import sys


def main() -> int:
    name = sys.argv[1]
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        print(f"package {name} is not installed", file=sys.stderr)
        return 1
    print(spec.submodule_search_locations[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
