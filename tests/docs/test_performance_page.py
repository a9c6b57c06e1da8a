"""Page about speed: the section on Rax follows from the tables, and is left out without measurements."""

import importlib
import json
import sys

import pytest
from paths import ROOT
from programs import finished

DOCS = ROOT / "docs"
SETTING = {"commit": "abc", "torch": "2", "chip": "a chip", "JAX": "0.11.2", "Rax": "0.4.0"}


@pytest.fixture
def page(monkeypatch, tmp_path):
    """The generator of the page, with an empty folder of tables."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    monkeypatch.setattr(importlib.import_module("pages.measurements"), "TABLES", tmp_path)
    return importlib.import_module("pages.performance").page


def write(folder, name, *rows):
    (folder / f"{name}.json").write_text(json.dumps(rows))


def row(loss, shape=(64, 240, False), **seconds):
    lists, documents, masked = shape
    times = {kind.replace("_inside", " inside"): {"seconds": value, "spread": 0.0} for kind, value in seconds.items()}
    return {"loss": loss, "lists": lists, "documents": documents, "masked": masked, **SETTING, **times}


def test_without_rax_there_is_no_section(page, tmp_path):
    write(tmp_path, "losses-gpu", row("ranknet", fused=1e-4, graph=1e-5))
    text = page()
    assert "## Comparison with Rax" not in text
    assert "Rax, which needs JAX, was not measured here." in text


def test_a_gpu_table_of_rax_takes_the_sentence_away(page, tmp_path):
    write(tmp_path, "losses-gpu", row("ranknet", fused=1e-4, graph=1e-5))
    write(tmp_path, "rax-cpu", row("ranknet", fused=1e-3, rax=2e-3))
    assert "not measured" in page()
    write(tmp_path, "rax-gpu", row("ranknet", fused=1e-4, rax=2e-4))
    text = page()
    assert "not measured" not in text
    assert "CPU: a chip, torch 2, commit abc, Rax 0.4.0, JAX 0.11.2" in text
    assert "GPU: a chip" in text


def test_where_rax_is_faster_is_said(page, tmp_path):
    write(
        tmp_path,
        "rax-gpu",
        row("softmax", fused=2e-4, value_and_grad=0.5e-4, rax=1e-4, graph=1e-5, rax_inside=5e-6),
        row("softmax", (8, 1000, False), fused=1e-4, value_and_grad=0.5e-4, rax=2e-4, graph=1e-5, rax_inside=5e-6),
        row("ranknet", (64, 240, True), fused=1e-4, value_and_grad=0.5e-4, rax=1e-3, graph=2e-5, rax_inside=9e-4),
    )
    text = " ".join(page().split())
    assert "Rax is faster than a call of ours with its backward pass in 1 of 3 rows: `softmax` at 64 x 240." in text
    assert "Rax is faster than our value_and_grad in 0 of 3 rows." in text
    assert "Rax is faster inside a compiled step in 2 of 3 rows: `softmax`." in text
    assert "| ranknet | 64 x 240 masked | 100 µs | 50 µs | 1.00 ms | 20 µs | 900 µs | 10.0 | 20.0 | 45.0 |" in text


def test_memory_is_shown_and_a_wrong_contender_has_no_time(page, tmp_path):
    long = {**row("hinge", (1, 8192, False), fused=1e-3), "rax bytes a document": 65_540.0}
    write(tmp_path, "rax-cpu", row("hinge", fused=1e-3, rax=2e-3), long)
    text = page()
    assert "| hinge | 64 x 240 | 1.00 ms | 2.00 ms | 2.0 |  |" in text
    assert "| hinge | 1 x 8,192 | 1.00 ms |  |  | 65,540 |" in text


def test_the_benchmark_without_rax_says_so():
    folder = str(DOCS.parent / "benchmarks")
    hidden = f"import runpy, sys; sys.modules['rax'] = None; sys.path.insert(0, {folder!r}); "
    hidden += f"runpy.run_path({folder + '/rax_losses.py'!r}, run_name='__main__')"
    answer = finished("--device", "cpu", code=hidden)
    assert answer.returncode == 1
    assert answer.stderr.startswith("Rax was not compared: it is not installed here (pip install rax)")
    assert len(answer.stderr.strip().splitlines()) == 1


def test_the_c_module_has_a_section_where_it_was_measured(page, tmp_path):
    assert "## With and without C++" not in page()
    times = {"eager off": {"seconds": 123e-6}, "value_and_grad on": {"seconds": 21e-6}}
    write(tmp_path, "native-gpu", {"loss": "ranknet", "lists": 64, "documents": 240, **SETTING, **times})
    text = page()
    assert "Calls on 64 lists of 240 documents" in text
    assert "| ranknet | 123 µs |  |  | 21 µs |" in text
