"""The guard notices every kind of difference, and only those; its tables of jobs can be read."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import sort_out
from jobs import JOBS
from observed import cleaned, differences, of_folder
from safetensors.numpy import save_file


def write(folder, seconds, **changes):
    """Write a folder as a job leaves it, with a change."""
    value = {"weight": 1.0, "number": 2, "state": "good", "column": "a", "line": "epoch 1 loss 0.5", **changes}
    folder.mkdir()
    facts = json.dumps({"epoch": value["number"], "seconds": seconds})
    save_file({"weight": np.array([value["weight"]], dtype="f4")}, folder / "m.safetensors", metadata={"facts": facts})
    (folder / "run.json").write_text(json.dumps({"settings": {"state": value["state"]}, "sha256": str(seconds)}))
    (folder / "log.jsonl").write_text(json.dumps({"loss": value["weight"], "judge_seconds": seconds}) + "\n")
    (folder / "told.txt").write_text(f"{folder}/x: {value['line']} in {seconds} s\nend\n")
    np.save(folder / "scores.npy", np.array([value["weight"]]))
    pq.write_table(pa.table({"id": [value["column"]]}), folder / "t.parquet")
    return of_folder(folder, {})


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        ({}, []),
        ({"weight": 1.0000001}, ["log.jsonl: 0.loss", "m.safetensors: weight", "scores.npy: array"]),
        ({"number": 3}, ["m.safetensors: metadata.facts.epoch"]),
        ({"state": "bad"}, ["run.json: settings.state"]),
        ({"column": "b"}, ["t.parquet: id"]),
        ({"line": "epoch 1 loss 0.6"}, ["told.txt: text"]),
    ],
)
def test_every_change_is_noticed_and_times_and_places_are_not(tmp_path, change, noticed):
    base, new = write(tmp_path / "base", 1.25), write(tmp_path / "new", 13.5, **change)
    assert [what for what, *_ in differences(base, new)] == noticed


def test_files_that_are_missing_and_peaks_of_memory():
    assert differences({"a: text": ["x"]}, {}) == [("a: text", "['x']", "-")]
    peak = "peak.json: peak bytes"
    assert differences({peak: 100 << 20}, {peak: 105 << 20}) == []
    assert differences({peak: 100 << 20}, {peak: 120 << 20}) == [(peak, "100.0 MiB", "120.0 MiB")]


def test_expected_differences_are_told_by_their_reason():
    found = [("network/csv", "told.json: 1.err", "old", "new"), ("trees/csv", "told.json: 1.err", "old", "other")]
    expected = [{"reason": "clearer", "job": "*/csv", "new": "new"}, {"reason": "never seen", "job": "x"}]
    assert sort_out(found, expected) == (found[1:], {"clearer": 1, "never seen": 0})


def test_lines_have_no_times_and_no_frames_of_tables():
    lines = [
        "best after 2 epochs; 1,234.5 s",
        " \u2500\u2500\u2500 ",
        " c001  lightgbm  0.8 ± 0.1  2  1.7   x",
        "in /a/b/c",
    ]
    assert cleaned("\n".join(lines), {"/a": "A", "/a/b": "B"}) == [
        "best after 2 epochs; TIME", "c001 lightgbm 0.8 ± 0.1 2 TIME x", "in B/c"
    ]  # fmt: skip


def test_the_tables_of_jobs():
    assert all(job["steps"] and all(isinstance(step, str) for step in job["steps"]) for job in JOBS.values())
    assert sum(len(job["steps"]) for name, job in JOBS.items() if name.startswith("bad/")) > 200
