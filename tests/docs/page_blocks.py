"""The code of a page: its commands and plain Python run in the order of the page, in one folder.

Blocks marked `python` without `>>>` are executed and share their names; blocks with `>>>` are doctests of pytest. Lines
of blocks marked `bash` are commands: `rankgrad ...`, `torchrun ...`, `python FILE`, `head -N FILE`, or `cat FILE |
rankgrad ... > FILE`. A block marked `text` is a part of what the commands or Python before it print, with `...` for the
rest. Blocks marked `py` are code of another library, and blocks marked `sh` need hours or other programs: neither is
executed.
"""

import contextlib
import doctest
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from programs import run_here, stdout_of

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
KINDS = {"python", "bash", "text", "py", "sh", "yaml", "toml", "json", "bibtex"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page):
    """Pairs of kind and content."""
    return FENCE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def loss_rows(page):
    """Rows of the table of losses of a page about another library: their name, our text, the third column."""
    text = (ROOT / "docs" / "coming-from" / f"{page}.md").read_text(encoding="utf-8").partition("## Losses")[2]
    lines = [line.strip("| ").split(" | ") for line in text.partition("\n##")[0].splitlines() if line.startswith("| ")]
    return [(theirs, ours.strip("`"), third) for theirs, ours, third in lines[2:]]


def run_page(page, folder, shorter=None, given=()):
    """Run the blocks of a page in a folder; the names that its Python defines, and the output of each command.

    `shorter` replaces parts of commands and of Python, so that they take less time. `given` are names that the Python
    of the page uses.
    """
    names, told, latest = dict(given), {}, ""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # the shell finds `rankgrad`
        for kind, content in blocks(page):
            assert kind in KINDS, f"{page}: a block is marked '{kind}'"
            for part, replacement in (shorter or {}).items():
                content = content.replace(part, replacement)
            if kind == "python" and ">>>" not in content:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(content, page, "exec"), names)
                latest = out.getvalue()
            elif kind == "bash":
                lines = content.replace("\\\n", " ").splitlines()
                ran = {line: run_line(line) for line in lines if line.strip()}
                told.update(ran)
                latest = "".join(ran.values())
            elif kind == "text":
                assert doctest.OutputChecker().check_output(f"...{content.strip()}...", latest, FLAGS), latest
    return names, told


def run_line(line):
    """What a command prints."""
    program, *words = shlex.split(line, comments=True)
    if program == "cat":  # cat FILE | rankgrad ... > FILE
        source, _, _, *words, _, target = words
        Path(target).write_text(stdout_of(*words, input=Path(source).read_bytes()))
        return target
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
