"""The compilation cache seen from Python: statistics, switches and the fleet tier's store.

The tiers are in csrc/cache; docs/cache.md describes them.
"""

import atexit
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch_tpu import _C

T = TypeVar("T")

_READ_SECONDS = 3.0
_WRITE_SECONDS = 60.0
_EXIT_SECONDS = 10.0


@dataclass(frozen=True)
class MemoryTier:
    """Programs loaded in this process."""

    requests: int
    hits: int
    programs: int
    cached_calls: int


@dataclass(frozen=True)
class Programs:
    """Where programs that memory didn't have came from."""

    requests: int
    host_hits: int
    fleet_hits: int
    thread_hits: int
    compilations: int
    refused: int
    forbidden: int
    compile_seconds: float
    load_seconds: float


@dataclass(frozen=True)
class HostTier:
    """The folder that processes of this machine share; counters of this process."""

    reads: int
    hits: int
    misses: int
    bytes_read: int
    writes: int
    write_failures: int
    bytes_written: int
    set_aside: int
    evictions: int
    evicted_bytes: int
    lock_waits: int
    lock_timeouts: int
    lock_wait_seconds: float


@dataclass(frozen=True)
class FleetTier:
    """The store that machines share; counters of this process."""

    on: bool
    reads: int
    hits: int
    misses: int
    failures: int
    timeouts: int
    damaged: int
    bytes_read: int
    writes: int
    bytes_written: int
    dropped: int


@dataclass(frozen=True)
class CacheStats:
    """Counters of every tier since the start of the process; None for a tier that is off."""

    programs: Programs
    memory: MemoryTier
    host: HostTier | None
    fleet: FleetTier | None


def stats() -> CacheStats:
    """What the compilation cache did in this process, tier by tier.

    >>> import torch
    >>> torch.tpu.cache.stats().programs.compilations >= 0
    True
    """
    below = _C._cache_stats()
    memory = _C._compile_stats()
    return CacheStats(
        programs=Programs(**below["programs"]),
        memory=MemoryTier(**{name: memory[name] for name in MemoryTier.__dataclass_fields__}),
        host=HostTier(**below["host"]) if "host" in below else None,
        fleet=FleetTier(**below["fleet"]) if "fleet" in below else None,
    )


def folder() -> Path | None:
    """The folder of the host tier, which may not exist yet; None where the tier is off.

    Raises:
        ValueError: A TORCH_TPU_CACHE_ variable has a value that isn't accepted.
    """
    options = _C._cache_host_options()
    return Path(options[0]) if options else None


def clear(*, host: bool = False) -> None:
    """Forget compiled programs.

    Args:
        host: Also empty the folder, which other processes and later ones use. The fleet's store is
            never touched.
    """
    _C._clear_programs()
    if host:
        _C._cache_clear_host()


@contextmanager
def cache_only() -> Iterator[None]:
    """Context manager: a program that no tier has raises RuntimeError instead of being compiled.

    Applies to the whole process; may be nested.
    """
    _C._cache_forbid_compiling(True)
    try:
        yield
    finally:
        _C._cache_forbid_compiling(False)


def flush(seconds: float = 60.0) -> bool:
    """Wait until the fleet's store has everything compiled so far; whether it has, in that time."""
    return bool(_C._cache_flush(seconds))


_cache_only = False


def _set_cache_only(on: bool) -> None:
    global _cache_only
    if on != _cache_only:
        _cache_only = on
        _C._cache_forbid_compiling(on)


def _set_allow_cache(on: bool) -> None:
    _C._cache_set_enabled(on)


def _clear_cache() -> None:
    clear()


class _Bounded:
    """Runs calls that may hang on threads which the end of the process needn't wait for."""

    def __init__(self) -> None:
        self._waiting: set[queue.SimpleQueue[Any]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def call(self, action: Callable[[], T], seconds: float) -> T:
        """What action gives or raises; TimeoutError after that time, or when closed."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def run() -> None:
            try:
                answers.put((action(), None))
            except BaseException as error:
                answers.put((None, error))

        with self._lock:
            if self._closed:
                raise TimeoutError("the process is ending")
            self._waiting.add(answers)
        try:
            threading.Thread(target=run, name="torch_tpu fleet cache", daemon=True).start()
            value, error = answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no answer in {seconds:g} s") from None
        finally:
            with self._lock:
                self._waiting.discard(answers)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let go of everyone who waits."""
        with self._lock:
            self._closed = True
            for answers in self._waiting:
                answers.put((None, TimeoutError("the process is ending")))


class FleetStore:
    """Entries as files below a URL that fsspec opens.

    Methods raise whatever the file system does, and TimeoutError; the caller takes any error for a
    miss. fsspec and the file system are imported by the first call.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._bounded = _Bounded()
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None
        self._folders: set[str] = set()

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None when there is none."""
        return self._bounded.call(lambda: self._read(name), _READ_SECONDS)

    def write(self, name: str, content: bytes) -> None:
        """Create or replace the file."""
        self._bounded.call(lambda: self._write(name, content), _WRITE_SECONDS)

    def close(self) -> None:
        """Make calls under way end now."""
        self._bounded.close()

    def _open(self) -> tuple[Any, str]:
        with self._lock:
            if self._opened is None:
                import fsspec

                self._opened = fsspec.core.url_to_fs(os.path.expanduser(self._root))
            return self._opened

    def _read(self, name: str) -> bytes | None:
        fs, root = self._open()
        try:
            return bytes(fs.cat_file(f"{root}/{name}"))
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        fs, root = self._open()
        path = f"{root}/{name}"
        parent = path.rpartition("/")[0]
        if parent not in self._folders:
            fs.makedirs(parent, exist_ok=True)
            self._folders.add(parent)
        if not _is_local(fs):
            fs.pipe_file(path, content)  # whole or not at all, in object stores
            return
        unfinished = f"{path}.{os.getpid()}.{threading.get_ident()}"
        try:
            fs.pipe_file(unfinished, content)
            os.replace(unfinished, path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            self._folders.discard(parent)
            raise


def _is_local(fs: Any) -> bool:
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def install_fleet_tier() -> None:
    """Set up the fleet tier if the environment names a root. Imports and opens nothing yet."""
    root = os.environ.get("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT")
    if not root:
        return
    store = FleetStore(root)
    _C._cache_set_fleet(store.read, store.write, _READ_SECONDS)

    def close() -> None:
        # No thread of the tier may be inside the interpreter when that goes away.
        _C._cache_close_fleet(_EXIT_SECONDS)
        store.close()
        _C._cache_close_fleet(1.0)

    atexit.register(close)
