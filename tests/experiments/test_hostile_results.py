"""Malicious results, recipes and texts: each is refused with one error that names the file."""

import io
import json
import lzma
import re
import shutil
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from made_results import make
from programs import run_here
from small_recipe import recipe

from rankgrad.cli import main
from rankgrad.cli.terminal_text import screen, shown
from rankgrad.experiments import RecipeError, load_recipe, parse_recipe
from rankgrad.experiments.runs.packed_results import archive_members
from rankgrad.experiments.runs.results import pack, read_results, unpack
from rankgrad.experiments.tables.table import tables
from rankgrad.models.search_space import draws


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    options = {"data": ("synthetic:lists=20,features=10,seed=1",), "rates": (0.001, 0.01), "epochs": 2, "seeds": (0,)}
    return make(tmp_path_factory.mktemp("results") / "made", **options, losses={"LearnDCG": "learndcg", "MSE": "mse"})


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "own")


def archive(path, *entries):
    """A packed file of these members: names with their contents, or whole entries."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as file:
        for entry, content in entries:
            entry = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    path.write_bytes(lzma.compress(whole.getvalue(), preset=1))
    return path


def final(folder):
    """The JSON of a final cell."""
    return next(path for path in sorted((folder / "cells").glob("*.json")) if path.with_suffix(".npz").is_file())


def test_a_packed_file_may_unpack_to_so_much_only(tmp_path):
    path = archive(tmp_path / "large.tar.xz", ("cells/0123456789abcdef.npz", bytes(3_000_000)))
    assert path.stat().st_size < 10_000
    assert len(dict(archive_members(path))["cells/0123456789abcdef.npz"]) == 3_000_000
    with pytest.raises(
        ValueError, match=r"large.tar.xz must contain at most 1,000,000 bytes \(.*`tar`.*\); got more bytes"
    ):
        dict(archive_members(path, limit=1_000_000))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_packed_file_are_refused(kind, tmp_path):
    entry = tarfile.TarInfo("cells/0123456789abcdef.json")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with pytest.raises(ValueError, match=r"bad.tar.xz must contain only plain files"):
        read_results(archive(tmp_path / "bad.tar.xz", (entry, b"")))


def test_members_under_other_names_are_not_unpacked(tmp_path):
    names = ("../out.json", "/tmp/out.json", "cells/../../0123456789abcdef.json", "cells/0123456789abcdef.json/x")
    unpack(archive(tmp_path / "odd.tar.xz", *((name, b"{}") for name in names)), tmp_path / "in" / "own")
    assert not (tmp_path / "in").exists()


@pytest.mark.parametrize("size", [0, 10, 100, -1])
def test_a_packed_file_that_is_cut_is_named(size, made, tmp_path):
    pack(made, tmp_path / "own.tar.xz")
    content = (tmp_path / "own.tar.xz").read_bytes()
    (tmp_path / "own.tar.xz").write_bytes(content[: size if size >= 0 else len(content) - 100])
    with pytest.raises(ValueError, match=r"own.tar.xz must be packed results; got the error"):
        read_results(tmp_path / "own.tar.xz")


def stored(array, compressed=False, **claims):
    """An .npz whose one array may claim another shape or type."""
    plain = io.BytesIO()
    header = {**np.lib.format.header_data_from_array_1_0(array), **claims}
    np.lib.format.write_array_header_1_0(plain, header)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as file:
        file.writestr("queries.npy", plain.getvalue() + array.tobytes())
    return whole.getvalue()


ARRAYS = {
    "no zip": b"not a zip at all",
    "cut": stored(np.zeros(50))[:-30],
    "empty": b"",
    "a claim of 8 TB": stored(np.zeros(5), shape=(10**12,)),
    "a claim of less than nothing": stored(np.zeros(5), shape=(-5,)),
    "an object": stored(np.zeros(5), descr="|O"),
    "a square": stored(np.zeros(4), shape=(2, 2)),
    "infinite": stored(np.full(5, np.inf)),
    "texts of no character": stored(np.full(4, 0x7FFFFFFF, dtype="<u4"), descr="<U4", shape=(1,)),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_are_damaged_are_named(case, folder):
    path = final(folder).with_suffix(".npz")
    path.write_bytes(ARRAYS[case])
    with pytest.raises(ValueError, match=re.escape(f"{path} must contain the arrays of a result (delete this file")):
        tables(read_results(folder))
    with pytest.raises(ValueError, match=re.escape(f"{path} must contain")):
        pack(folder, folder / "again.tar.xz")


RECORDS = {
    "cut": lambda text: text[: len(text) // 2],
    "binary": lambda text: "\0\1\udcff",
    "empty": lambda text: "",
    "a list": lambda text: "[1, 2]",
    "nested": lambda text: "[" * 100_000,
    "history": lambda text: json.dumps({**json.loads(text), "history": [{"epoch": "one"}]}),
    "no epoch": lambda text: json.dumps({**json.loads(text), "history": [{}]}),
    "test": lambda text: json.dumps({**json.loads(text), "test": {"nDCG@10": "high"}}),
    "seconds": lambda text: json.dumps({**json.loads(text), "seconds": 1e400}),
    "learned": lambda text: json.dumps({**json.loads(text), "learned": {str(n): 1 for n in range(500)}}),
    "control": lambda text: json.dumps({**json.loads(text), "learned": {"\x1b[2J": 1}}),
    "versions": lambda text: json.dumps({**json.loads(text), "versions": {"torch": 2}}),
    "machine": lambda text: json.dumps({**json.loads(text), "machine": ["a"]}),
    "cell": lambda text: json.dumps({**json.loads(text), "cell": None}),
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_result_that_is_damaged_is_named(case, folder):
    path = final(folder)
    path.write_text(RECORDS[case](path.read_text()), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=re.escape(f"{path} must be the result of a cell (delete the file")) as error:
        read_results(folder)
    assert len(str(error.value).splitlines()) == 1


def test_a_result_under_another_name_is_packed_under_it(folder):
    final(folder).rename(folder / "cells" / "0123456789abcdef.json")
    pack(folder, folder / "again.tar.xz")
    assert "cells/0123456789abcdef.json" in dict(archive_members(folder / "again.tar.xz"))


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
FILES = {
    "laughs": (LAUGHS, "must contain at most 10,000 values (divide the recipe into several recipes"),
    "itself": ("a: &a [*a]", "got the error a value contains itself"),
    "deep": ("[" * 5_000, "nested too deeply"),
    "large": ("a: " + "x" * 300_000, "must be at most 250,000 bytes"),
    "losses": (yaml.safe_dump(recipe(losses={f"L{n}": "mse" for n in range(20_000)})), "must be at most 250,000"),
    "fewer losses": (
        yaml.safe_dump(recipe(losses={f"L{n}": "mse" for n in range(6_000)})),
        "must contain at most 10,000",
    ),
    "binary": ("\udcff\udcfe\0\0", "must be text in UTF-8; got byte 0xff"),
    "control": ('title: "\\e[2J"', "control character"),
    "date": ("title: 2001-99-99", "must be YAML; got the error month must be in 1..12"),
    "number": ("title: " + "9" * 5_000, "must be YAML; got the error Exceeds the limit"),
    "key": ("? [a]\n: b", "a key must be text or a number"),
    "code": (
        "title: !!python/object/apply:os.system [ls]",
        "must be YAML; got the error could not determine a constructor",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_recipe_that_is_hostile_or_no_text_is_named(case, tmp_path):
    text, said = FILES[case]
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(RecipeError, match=re.escape(said)) as error:
        load_recipe(tmp_path / "bad.yaml")
    assert str(error.value).startswith(f"{tmp_path / 'bad.yaml'} must")
    assert len(str(error.value).splitlines()) == 1


def test_a_recipe_may_have_so_many_cells_only():
    for changes in (
        {"trials": 10**9},
        {"seeds": [*range(9_000)], "folds": [1, 2, 3, 4, 5], "data": ["MQ2008", "MQ2007"]},
    ):
        message = r"recipe must have at most 100,000 cells \(divide the recipe into several recipes, .*\); got"
        with pytest.raises(RecipeError, match=message):
            parse_recipe(recipe(**changes))


def test_a_grid_of_any_size_is_drawn_from():
    space = {f"setting {n}": [*range(10)] for n in range(15)}
    drawn = draws(space, 3, seed=0)
    assert len({tuple(each.values()) for each in drawn}) == 3


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\N{RIGHT-TO-LEFT OVERRIDE}[red]x[/red]"


def test_the_screen_spells_out_control_characters():
    assert shown(HOSTILE) == r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[red]x[/red]"
    console = screen(file=io.StringIO(), force_terminal=True, width=200)
    from rich.table import Table

    table = Table("id")
    table.add_row(HOSTILE.replace("[", r"\["))
    console.print(table)
    console.print(HOSTILE, style="red", markup=False)
    written = re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue())  # less Rich's own colours
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", written)


def test_measure_spells_out_the_ids_of_queries(tmp_path):
    (tmp_path / "run").write_text("q\x1b[2J Q0 d 1 1.0 tag\n")
    (tmp_path / "qrels").write_text("q\x1b[2J 0 d 1\n")
    told = run_here("measure", tmp_path / "run", tmp_path / "qrels", "--each", color=True)
    assert "\\x1b[2J" in told
    assert "\x1b[2J" not in told


def test_an_error_spells_out_what_it_quotes(monkeypatch, capsys, tmp_path):
    (tmp_path / "recipe.yaml").write_text("losses: {L: 'a\N{RIGHT-TO-LEFT OVERRIDE}b'}")
    monkeypatch.setattr("sys.argv", ["rankgrad", "experiment", str(tmp_path / "recipe.yaml")])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "a\\u202eb" in said
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in said


def test_compare_spells_out_the_ids_of_documents(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    place = SimpleNamespace(rank=1, document="d\x1b[2J[b]", label=1.0, score=0.5, other=1)
    query = SimpleNamespace(query="q\x1b]0;owned\x07", documents=1, a=0.5, b=0.25, list_a=[place], list_b=[place])
    metric = SimpleNamespace(metric="nDCG@10", conventions={}, queries=1, wins=1, losses=0, a=0.5, b=0.25)
    metric.difference, metric.interval, metric.t, metric.randomisation = 0.25, (0.1, 0.4), 0.5, 0.5
    result = SimpleNamespace(lists=1, metrics=[metric], queries=[query], confidence=0.95, about="")
    import_module("rankgrad.cli.compare")._print(result, "a set\x1b[2J", Path("a"), Path("b"), ["a note\x1b[2J"])
    said = capsys.readouterr().out
    assert said.count(r"\x1b[2J") == 4
    assert "[b]" in said
    assert not re.search("\x1b(?!\\[[0-9;]*m)|\x07", said)  # but for Rich's own colours
