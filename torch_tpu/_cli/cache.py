"""``python -m torch_tpu cache``: looks after the folder of compiled programs.

No device is started. Exit codes: 0, 1 when bad entries were found, 2 for a wrong call.
"""

import argparse
import io
import json
import lzma
import sys
import tarfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from torch_tpu import _C

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LARGEST_ENTRY = 1 << 34


def add_parser(commands: Any) -> None:
    """Add the command and what it can do."""
    parser = commands.add_parser(
        "cache",
        help="look after the cache of compiled programs",
        description="Looks after the cache of compiled programs that this user's processes share.",
    )
    parser.add_argument(
        "--folder", help="the cache's folder (default: as the TORCH_TPU_ variables say)"
    )
    actions = parser.add_subparsers(metavar="action", required=True)

    def action(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        sub.set_defaults(run=run)
        return sub

    ls = action("ls", _ls, "list the entries, the last used first")
    ls.add_argument("--json", action="store_true", help="one JSON object a line")
    stats = action("stats", _stats, "say how much the folder holds")
    stats.add_argument("--json", action="store_true", help="as a JSON object")
    action("verify", _verify, "check every entry's checksum, and set aside the bad ones")
    prune = action("prune", _prune, "remove what was not used for longest")
    prune.add_argument("--size", help="what may remain, such as 512M (default: the cache's limit)")
    action("clear", _clear, "remove every entry")
    export = action("export", _export, "write entries into a tar file")
    export.add_argument("file", help="path or fsspec URL; - is the standard output")
    export.add_argument("keys", nargs="*", metavar="key", help="starts of keys (default: all)")
    load = action("import", _import, "read entries from a tar file; only import what you trust")
    load.add_argument("file", help="path or fsspec URL; - is the standard input")


def _tier(options: argparse.Namespace, create: bool = False) -> Any:
    configured = _C._cache_host_options()
    if options.folder is None and configured is None:
        raise ValueError("the host tier is turned off: name a folder with --folder")
    limit = configured[1] if configured else 1 << 40
    options.limit = limit
    options.folder = options.folder or configured[0]
    tier = _C._HostTier(options.folder, limit, create)
    if create and not tier.usable():
        raise ValueError(f"{options.folder} can't be used")
    return tier


def _size(count: float) -> str:
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def _age(then: float) -> str:
    seconds = max(0.0, time.time() - then)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _ls(options: argparse.Namespace) -> int:
    entries = _tier(options).list(check=False)
    if options.json:
        for entry in entries:
            print(json.dumps(entry))
        return 0
    if not entries:
        print(f"no entries in {options.folder}")
        return 0
    print(f"{'key':16}  {'kind':9}  {'size':>10}  {'used':>6}  name")
    for e in entries:
        origin = f"  ({e['origin']})" if e["origin"] else ""
        state = "" if e["state"] == "good" else f"  {e['state']}!"
        print(
            f"{e['key'][:16]}  {e['kind']:9}  {_size(e['bytes']):>10}  {_age(e['used']):>6}  "
            f"{e['name']}{origin}{state}"
        )
    return 0


def _stats(options: argparse.Namespace) -> int:
    tier = _tier(options)
    usage = tier.usage()
    kinds = Counter(e["kind"] for e in tier.list(check=False))
    report = {"folder": options.folder, "limit": options.limit, **usage, "kinds": dict(kinds)}
    if options.json:
        print(json.dumps(report))
        return 0
    print(f"folder      {options.folder}")
    print(f"entries     {usage['entries']}, {_size(usage['bytes'])} of {_size(options.limit)}")
    for kind, count in kinds.most_common():
        print(f"            {count} {kind}")
    print(f"set aside   {usage['quarantined']}, {_size(usage['quarantined_bytes'])}")
    print(f"unfinished  {usage['unfinished']}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    entries = _tier(options).list(check=True)
    bad = [e for e in entries if e["state"] != "good"]
    for e in bad:
        print(f"{e['key']}  {e['state']}, set aside")
    print(f"{len(entries)} entries, {len(bad)} bad")
    return 1 if bad else 0


def _prune(options: argparse.Namespace) -> int:
    tier = _tier(options)
    size = options.limit
    if options.size is not None:
        size = _C._parse_byte_size(options.size)
        if size is None:
            raise ValueError(f"--size {options.size}: expected a size such as 512M or 1.5GiB")
    print(f"{tier.prune(size)} entries removed")
    return 0


def _clear(options: argparse.Namespace) -> int:
    print(f"{_tier(options).clear()} entries removed")
    return 0


@contextmanager
def _opened(file: str, mode: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
        return
    import fsspec

    with fsspec.open(file, mode) as stream:
        yield stream


def _export(options: argparse.Namespace) -> int:
    tier = _tier(options)
    # Hashes of files mean nothing on another machine.
    entries = [e for e in tier.list(check=False) if e["kind"] != "file hash"]
    if options.keys:
        entries = [e for e in entries if e["key"].startswith(tuple(options.keys))]
    count = 0
    # As a stream, so that pipes and buckets do; the least used first, so that the order of use
    # is the same where it is imported.
    with (
        _opened(options.file, "wb") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in reversed(entries):
            content = tier.read(entry["key"])
            if content is None:  # damaged, or removed meanwhile
                continue
            member = tarfile.TarInfo(entry["key"])
            member.size = len(content)
            member.mtime = entry["written"]
            member.mode = 0o600
            archive.addfile(member, io.BytesIO(content))
            count += 1
    print(f"{count} entries exported", file=sys.stderr)
    return 0


def _import(options: argparse.Namespace) -> int:
    tier = _tier(options, create=True)
    states: Counter[str] = Counter()
    try:
        with (
            _opened(options.file, "rb") as stream,
            tarfile.open(fileobj=stream, mode="r|*") as archive,
        ):
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or member.size > _LARGEST_ENTRY:
                    states["foreign"] += 1
                else:
                    # The member's name doesn't matter: an entry carries its key.
                    states[tier.import_entry(content.read())] += 1
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{options.file}: {error}") from error
    good = states.pop("good", 0)
    print(f"{good} entries imported")
    for state, count in states.items():
        print(f"{count} not imported: {state}")
    return 1 if states else 0
