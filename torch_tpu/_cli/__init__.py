"""The command line: a module for each command, with ``add_parser`` that names its function."""

import argparse
from collections.abc import Sequence

from torch_tpu._cli import cache
from torch_tpu._version import __version__

_COMMANDS = (cache,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Errors that a user can mend are one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m torch_tpu")
    parser.add_argument("--version", action="version", version=f"torch_tpu {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader of our output had enough
        return 141
    except (OSError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
