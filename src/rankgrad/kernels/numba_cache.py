"""Keeps what Numba compiles in a folder of `rankgrad.kernels.cache_folder`.

Numba's own cache runs whatever its files hold, raises when they are damaged or the disk is full, and numbers its files,
so that two processes which compile at once can each take the number of the other. Here each signature has its own file.
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
    """The folder for functions of these files: the key of one function does not notice a change in what it calls."""
    made_by = (numba.__version__, llvmlite.__version__, sysconfig.get_config_var("EXT_SUFFIX"))
    return CacheFolder.of(kind, repr(made_by).encode(), *(path.read_bytes() for path in sources))


def keep(compiled: Any, folder: CacheFolder) -> Any:
    """Let a function that Numba compiles when it is called be loaded from the folder, and be kept there."""
    compiled._cache = _Kept(compiled.py_func, folder)
    return compiled


class _Kept(FunctionCache):
    """Of Numba's cache only the key of a function and its types is used."""

    def __init__(self, function: Callable[..., Any], folder: CacheFolder) -> None:
        self._py_func, self._folder = function, folder
        self.enable()

    @property
    def cache_path(self) -> Path | None:
        return self._folder.path

    def flush(self) -> None:
        """Nothing: an entry is replaced when it is compiled again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        content = self._folder.read(self._entry(key)) if self._enabled else None
        if content is None:
            return None
        try:
            known, parts = pickle.loads(content)
            return CompileResult._rebuild(target_context, *parts) if known == key else None
        except Exception:  # whatever Numba cannot load, it can compile
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._enabled and not data.library.has_dynamic_globals:
            key = self._index_key(sig, data.codegen)
            self._folder.write(self._entry(key), dumps((key, data._reduce())))

    def _entry(self, key: Any) -> str:
        function = self._py_func
        whose = (function.__module__, function.__qualname__, function.__code__.co_firstlineno)
        return f"{function.__name__}-{hashlib.sha256(repr((whose, key)).encode()).hexdigest()[:32]}"
