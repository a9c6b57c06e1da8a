"""The code of a page: its commands and plain Python run in the order of the page, in one folder.

Blocks marked `python` without `>>>` are executed and share their names; blocks with `>>>` are doctests of pytest. Lines
of blocks marked `bash` are commands: `rankgrad ...`, `torchrun ...`, `python FILE` or `head -N FILE`. A block marked
`text` is a part of what the commands or Python before it print, with `...` for the rest. Blocks marked `py` are code
of another library, and blocks marked `sh` are scripts for a cluster: neither is executed.
"""

import contextlib
import doctest
import io
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from programs import run_here

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
KINDS = {"python", "bash", "text", "py", "sh", "yaml", "toml", "json"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page):
    """Pairs of kind and content."""
    return FENCE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def run_page(page, folder, shorter=None):
    """Run the blocks of a page in a folder; the names that its Python defines, and the output of each command.

    `shorter` replaces parts of commands, so that they take less time.
    """
    names, told, latest = {}, {}, ""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        for kind, content in blocks(page):
            assert kind in KINDS, f"{page}: a block is marked '{kind}'"
            if kind == "python" and ">>>" not in content:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(content, page, "exec"), names)
                latest = out.getvalue()
            elif kind == "bash":
                lines = content.replace("\\\n", " ").splitlines()
                for part, replacement in (shorter or {}).items():
                    lines = [line.replace(part, replacement) for line in lines]
                ran = {line: run_line(line) for line in lines if line.strip()}
                told.update(ran)
                latest = "".join(ran.values())
            elif kind == "text":
                assert doctest.OutputChecker().check_output(f"...{content.strip()}...", latest, FLAGS), latest
    return names, told


def run_line(line):
    """What a command prints."""
    program, *words = shlex.split(line, comments=True)
    if program == "rankgrad":
        return run_here(*words)
    if program == "head":
        return "".join(Path(words[1]).open().readlines()[: -int(words[0])])
    if program == "torchrun":
        launched = [sys.executable, "-m", "torch.distributed.run", *words]
        return subprocess.run(launched, check=True, timeout=300, capture_output=True, text=True).stdout
    assert program == "python", line
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(words[0], run_name="__main__")
    return out.getvalue()
