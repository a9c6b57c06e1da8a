"""Stores compiled Numba functions in a `CacheFolder`.

Numba's built-in cache has three problems. It runs any code that its files contain. It raises an error if a file is
damaged or the disk is full. It numbers its files, so two processes that compile at the same time can use the same
number. In a `CacheFolder`, each file has a checksum, and each signature of a function has a separate file.
"""

import hashlib
import pickle
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from rankgrad.kernels.cache_folder import CacheFolder


def folder_of(kind: str, sources: Iterable[Path]) -> CacheFolder:
    """Return the cache folder for the functions that Numba compiles from these source files.

    The name of the folder contains a hash of all source files. Numba's own key of a function is not sufficient: if
    the function calls another function, and only the other function changes, the key stays the same.
    """
    made_by = (numba.__version__, llvmlite.__version__, sysconfig.get_config_var("EXT_SUFFIX"))
    return CacheFolder.of(kind, repr(made_by).encode(), *(path.read_bytes() for path in sources))


def keep(compiled: Any, folder: CacheFolder) -> Any:
    """Make a Numba function load its compiled code from a cache folder, and store new compiled code there."""
    compiled._cache = _FolderCache(compiled.py_func, folder)
    return compiled


class _FolderCache(FunctionCache):
    """Cache of one Numba function, in a `CacheFolder`. It uses the same keys as Numba's built-in cache."""

    def __init__(self, function: Callable[..., Any], folder: CacheFolder) -> None:
        self._py_func, self._folder = function, folder
        self.enable()

    @property
    def cache_path(self) -> Path | None:
        """Path of the cache folder of the Numba function, or None if there is no folder."""
        return self._folder.path

    def flush(self) -> None:
        """Do nothing: the entry of a Numba function is replaced when the function is compiled again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored code for one signature of the Numba function, or None if no usable code is stored."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        content = self._folder.read(self._entry(key)) if self._enabled else None
        if content is None:
            return None
        try:
            known, parts = pickle.loads(content)
            return CompileResult._rebuild(target_context, *parts) if known == key else None
        except Exception:  # Numba then compiles the function again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code that Numba compiled for one signature of the function."""
        if self._enabled and not data.library.has_dynamic_globals:
            key = self._index_key(sig, data.codegen)
            self._folder.write(self._entry(key), dumps((key, data._reduce())))

    def _entry(self, key: Any) -> str:
        """Return the name of the cache entry for one key of the Numba function."""
        function = self._py_func
        identity = (function.__module__, function.__qualname__, function.__code__.co_firstlineno)
        return f"{function.__name__}-{hashlib.sha256(repr((identity, key)).encode()).hexdigest()[:32]}"
