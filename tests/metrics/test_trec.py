"""TREC files in and out, and measuring a run as trec_eval does."""

import gzip
import json
import random
from functools import partial

import numpy as np
import pytest
from programs import invoke

from rankgrad.cli.text.teacher import read_order
from rankgrad.metrics import evaluate, measure_run, read_qrels, read_run, to_run, write_qrels, write_run


def random_judged_run(seed=0, queries=60):
    """Runs with ties, documents that nobody judged, relevant documents not retrieved, queries on one side only."""
    draw = random.Random(seed)
    run, qrels = {}, {}
    for q in range(queries):
        pool = [f"doc{draw.randint(0, 99)}" for _ in range(40)]
        judged = {d: draw.choice([-1, 0, 0, 0, 1, 2, 3]) for d in pool if draw.random() < 0.5}
        if q % 7 == 0:
            judged = dict.fromkeys(judged, 0)
        retrieved = {
            d: draw.choice([0.5, 1.0, 1.0 + 1e-12, 2.0, -3.0, draw.random()]) for d in pool if draw.random() < 0.6
        }
        if q % 10 != 3:
            run[f"q{q}"] = retrieved
        if q % 10 != 4:
            qrels[f"q{q}"] = judged
    return run, qrels


TREC = {
    "map": "AP",
    "map_cut_5": "AP@5",
    "recip_rank": "RR",
    "P_5": "P@5",
    "P_100": "P@100",
    "recall_5": "R@5",
    "recall_100": "R@100",
    "success_1": "Success@1",
    "success_10": "Success@10",
    "ndcg": "nDCG(gain='linear')",
    "ndcg_cut_5": "nDCG(gain='linear')@5",
    "ndcg_cut_100": "nDCG(gain='linear')@100",
}


@pytest.mark.parametrize("seed", range(3))
def test_equals_pytrec_eval(seed):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run, qrels = random_judged_run(seed)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(TREC)).evaluate(run)
    ours = measure_run(run, qrels, TREC.values())
    assert set(ours.queries) == set(theirs)
    for measure, metric in TREC.items():
        expected = [theirs[query][measure] for query in ours.queries]
        np.testing.assert_allclose(ours.values[metric], expected, atol=1e-9, err_msg=measure)
        assert ours[metric] == pytest.approx(np.mean(expected))


def test_relevance_level_is_the_threshold():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run, qrels = random_judged_run(7)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "P_5"}, relevance_level=2).evaluate(run)
    ours = measure_run(run, qrels, ["AP(threshold=1)", "P(threshold=1)@5"])
    np.testing.assert_allclose(ours.values["AP(threshold=1)"], [theirs[q]["map"] for q in ours.queries], atol=1e-9)
    np.testing.assert_allclose(ours.values["P(threshold=1)@5"], [theirs[q]["P_5"] for q in ours.queries], atol=1e-9)


def test_complete_counts_queries_that_the_run_lacks():
    run, qrels = random_judged_run()
    part, whole = measure_run(run, qrels, "AP"), measure_run(run, qrels, "AP", complete=True)
    assert set(whole.queries) == set(qrels)
    missing = [query not in run for query in whole.queries]
    assert sum(missing) == 6
    assert (whole.values["AP"][missing] == 0).all()
    assert whole["AP"] == pytest.approx(part["AP"] * len(part.queries) / len(whole.queries))


def test_ties_and_empty_are_as_the_metric_says():
    run, qrels = {"q": {"a": 1.0, "b": 1.0}, "e": {"a": 1.0}}, {"q": {"a": 1, "b": 0}, "e": {"a": 0}}
    result = measure_run(run, qrels, ["RR", "RR(ties='expected')", "RR(empty='skip')"])
    assert result.values["RR"].tolist() == [0.5, 0.0]
    assert result.values["RR(ties='expected')"].tolist() == [0.75, 0.0]
    assert result["RR(empty='skip')"] == 0.5
    assert [result.conventions[name]["ties"] for name in result] == ["trec", "expected", "trec"]


def test_without_documents_left_out_it_equals_evaluate():
    run, qrels = random_judged_run(2)
    qrels = {
        q: {d: max(label, 0) for d, label in judged.items() if d in run[q]} for q, judged in qrels.items() if q in run
    }
    names = ["nDCG@10", "ERR@5", "OPA", "ARP@7", "RBP(persistence=0.5)", "DCG"]
    ours = measure_run(run, qrels, names)
    for name in names:
        for query, value in zip(ours.queries, ours.values[name], strict=True):
            scores, ids = [list(run[query].values())], [list(run[query])]
            labels = [[qrels[query].get(document, 0) for document in ids[0]]]
            plain = evaluate(
                np.array(scores), labels, name.replace(")", ", ties='trec')") if ")" in name else _trec(name), ids=ids
            )
            assert value == pytest.approx(next(iter(plain.means.values())))


def _trec(name):
    head, _, k = name.partition("@")
    return f"{head}(ties='trec')" + (f"@{k}" if k else "")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_round_trip(tmp_path, suffix):
    run, qrels = random_judged_run(3)
    qrels = {q: judged for q, judged in qrels.items() if judged}
    write_run(tmp_path / f"run{suffix}", run, tag="mine")
    write_qrels(tmp_path / f"qrels{suffix}", qrels)
    assert read_run(tmp_path / f"run{suffix}") == {q: d for q, d in run.items() if d}
    assert read_qrels(tmp_path / f"qrels{suffix}") == qrels
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"qrels{suffix}", f"run{suffix}"]


def test_run_is_written_in_trec_order(tmp_path):
    write_run(tmp_path / "run", {"q": {"d9": 1.0, "d10": 1.0, "x": 2.5}})
    assert (tmp_path / "run").read_text() == (
        "q Q0 x 1 2.5 rankgrad\nq Q0 d9 2 1.0 rankgrad\nq Q0 d10 3 1.0 rankgrad\n"
    )


def test_crlf_blank_lines_and_tabs(tmp_path):
    (tmp_path / "run").write_bytes(b"q\tQ0\td1\t1\t1e-3\tt\r\n\r\nq Q0 d2 2 -inf t")
    assert read_run(tmp_path / "run") == {"q": {"d1": 0.001, "d2": -np.inf}}


@pytest.mark.parametrize(
    ("read", "line", "result"),
    [
        (read_run, "q Q0 d 1 0.5 t\n", {"q": {"d": 0.5}}),
        (read_qrels, "q 0 d 2\n", {"q": {"d": 2}}),
        (read_order, '{"query": "q", "documents": ["d"]}\n', {"q": ["d"]}),
    ],
)
def test_a_byte_order_mark_is_no_part_of_an_id(tmp_path, read, line, result):
    (tmp_path / "file").write_text(line, encoding="utf-8-sig")
    assert read(tmp_path / "file") == result


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_run, b"", ": no data in the file; expected query Q0 document rank score tag"),
        (read_run, b"\n\n", ": no data in the file; expected query Q0 document rank score tag"),
        (read_run, b"q Q0 d 1 0.5 t\nq Q0 d2 1 0.5\n", ":2: 5 columns; expected 6: query Q0 document rank score tag"),
        (read_run, b"q Q0 d 1 high t\n", ":1: score 'high'; expected a number"),
        (read_run, b"q Q0 d 1 1 t\nq Q0 d 2 2 t\n", ":2: document 'd' is repeated for query 'q'; expected one line"),
        (read_run, b"q Q0 d 1 1 t\n\xff\xfe\n", ":2: bytes that are not text; expected UTF-8"),
        (read_run, gzip.compress(b"q Q0 d 1 1 t\n" * 9, mtime=0)[:-9], ": the gzip file is truncated or damaged"),
        (read_qrels, b"q 0 d\n", ":1: 3 columns; expected 4: query iteration document label"),
        (read_qrels, b"01 1410  0 0\n01 1572  0 0\n", ": qrels of SMART, `query document 0 0`, which only"),
        (read_qrels, b"q 0 d 1.5\n", ":1: label '1.5'; expected an integer"),
        (
            read_qrels,
            b"q 0 d " + b"9" * 400,
            f":1: label '{'9' * 77}...'; expected an integer of at most 18 digits",
        ),
        (read_qrels, b"q 0 d 1\nq 0 d 1\n", ":2: document 'd' is repeated for query 'q'; expected one line"),
    ],
)
def test_bad_files(tmp_path, read, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="expected") as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="at least one query of the qrels; got queries '1', '2' in the run and 'a'"):
        measure_run({"1": {}, "2": {}}, {"a": {"d": 1}}, "AP")
    with pytest.raises(ValueError, match="be text without spaces; got 'a b'"):
        write_run(tmp_path / "run", {"q": {"a b": 1.0}})
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="queries must be 2 different ids, one per list; got 2 ids, 1 of them"):
        to_run([1.0, 2.0], [0, 1, 2], ["q", "q"], ["a", "b"])
    with pytest.raises(ValueError, match="ids must differ within a list; got a repeated id in query 'q'"):
        to_run([1.0, 2.0], [0, 2], ["q"], ["a", "a"])


def test_a_run_and_qrels_may_be_paths_and_are_not_swapped(tmp_path):
    run, qrels = random_judged_run(4)
    write_run(tmp_path / "run", run)
    write_qrels(tmp_path / "qrels", qrels)
    found = measure_run(tmp_path / "run", str(tmp_path / "qrels"), "AP")
    assert found.means == measure_run(run, qrels, "AP").means
    swapped = {query: {document: score + 0.25 for document, score in each.items()} for query, each in run.items()}
    with pytest.raises(ValueError, match=r"qrels must contain integer labels \(are the run and the qrels swapped\?\)"):
        measure_run(qrels, swapped, "AP")
    with pytest.raises(ValueError, match=r"qrels must contain integer labels .*; got nan"):
        measure_run({"q": {"d": 1.0}}, {"q": {"d": float("nan")}}, "AP")


FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "polars lazy": "LazyFrame", "pyarrow": "table"}


@pytest.mark.parametrize("package", FRAMES)
def test_a_run_and_qrels_may_be_data_frames(package):
    table = getattr(pytest.importorskip(package.split()[0]), FRAMES[package])
    run, qrels = random_judged_run(4)
    rows = [(int(q[1:]), d, score) for q, each in run.items() for d, score in each.items()]
    judged = [(int(q[1:]), d, label) for q, each in qrels.items() for d, label in each.items()]
    expected = measure_run(run, qrels, ["AP", "nDCG@5"], bootstrap=0).means
    for names, others in (
        (("query_id", "doc_id", "score"), ("query_id", "doc_id", "relevance")),
        (("qid", "docno", "score"), ("qid", "docno", "label")),
        (("q_id", "doc_id", "score"), ("q_id", "doc_id", "score")),
    ):
        frame = table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        labels = table(dict(zip(others, map(list, zip(*judged, strict=True)), strict=True)))
        assert measure_run(frame, labels, ["AP", "nDCG@5"], bootstrap=0).means == pytest.approx(expected)
        texts = {query.removeprefix("q"): each for query, each in qrels.items()}
        assert measure_run(frame, texts, "AP", bootstrap=0)["AP"] == pytest.approx(expected["AP"])


def test_ids_and_columns_of_data_frames_are_checked():
    table = pytest.importorskip("pandas").DataFrame
    run = {"qid": [1.0, 2.0], "docno": ["a", "b"], "score": [1.0, 0.5]}
    qrels = {"1": {"a": 1}, "2": {"c": 1}}
    assert measure_run(table(run), qrels, "P@1").values["P@1"].tolist() == [1.0, 0.0]
    for changed, message in (
        ({"qid": [1.0, float("nan")]}, r"column 'qid' must have an id in each row, text or an integer; got nan"),
        ({"qid": [1.0, 2.0**53]}, r"column 'qid' must have an id in each row, .*; got 9007199254740992.0"),
        ({"qid": [1, 1], "docno": ["a", "a"]}, "run must have one row per query and document; got document 'a' of"),
        ({"score": ["high", "low"]}, "column 'score' must contain numbers; got 'high'"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            measure_run(table(run | changed), qrels, "AP")
    with pytest.raises(
        ValueError, match=r"run must have a column of documents \(doc_id, .*; got the columns qid, score"
    ):
        measure_run(table({"qid": [1], "score": [1.0]}), qrels, "AP")
    with pytest.raises(TypeError, match=r"qrels must be \{query: .*, a data frame or the path of a file; got list"):
        measure_run(table(run), [1], "AP")
    with pytest.raises(TypeError, match=r"scores must be a tensor .*; got a data frame \(give one of its columns"):
        evaluate(table(run), table(run), "AP")


command = partial(invoke, "measure", env={"COLUMNS": "120"})


def test_command_compares_runs(tmp_path):
    run, qrels = random_judged_run(4)
    other = {query: {document: -score for document, score in each.items()} for query, each in run.items()}
    for name, each in (("run", run), ("other", other)):
        write_run(tmp_path / name, each)
    write_qrels(tmp_path / "qrels", qrels)
    arguments = (tmp_path / "run", tmp_path / "qrels", "-m", "AP", "--against", tmp_path / "other")
    read = json.loads(command(*arguments, "--json").output)
    means = [measure_run(each, qrels, "AP", complete=True).means["AP"] for each in (run, other)]
    assert [each["metrics"]["AP"]["mean"] for each in read["runs"].values()] == pytest.approx(means, abs=1e-4)
    assert read["tests"][0]["difference"] == pytest.approx(means[1] - means[0])
    assert 0 <= read["tests"][0]["p"] <= 1
    told = command(*arguments, "-m", "nDCG@5", "-m", "nDCG(gain='linear')@5").output
    assert "paired t-test" in told
    assert "nDCG@5: gain exp, nDCG(gain='linear')@5: gain linear" in told
    failed = command(*arguments[:-1], tmp_path / "run")
    assert str(failed.exception).startswith("against must be other runs than the first")


def test_command(tmp_path):
    run, qrels = random_judged_run(4)
    write_run(tmp_path / "run", run)
    write_qrels(tmp_path / "qrels", qrels)
    result = measure_run(run, qrels, ["nDCG@10", "AP(threshold=1)"])
    shown = command(tmp_path / "run", tmp_path / "qrels", "-m", "ndcg@10", "-m", "AP(threshold=1)")
    assert shown.exit_code == 0
    for name in result:
        row = next(line for line in shown.output.splitlines() if line.strip().startswith(name))
        assert f"{result[name]:.4f}" in row
        assert "[{:.4f}, {:.4f}]".format(*result.intervals[name]) in row
        assert f" {len(result.queries)} " in row
        assert "trec" in row
    read = json.loads(command(tmp_path / "run", tmp_path / "qrels", "-m", "AP", "--json", "--each", "-c").output)
    assert read["metrics"]["AP"]["lists"] == len([q for q in qrels if qrels[q]])
    each = command(tmp_path / "run", tmp_path / "qrels", "-m", "nDCG@10", "--each").output
    assert f"nDCG@10\t{result.queries[0]}\t{result.values['nDCG@10'][0]:.4f}\n" in each


def test_command_says_what_is_wrong(tmp_path):
    (tmp_path / "run").write_text("q Q0 d 1 1 t\n")
    failed = command(tmp_path / "run", tmp_path / "none")
    assert isinstance(failed.exception, OSError)
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    failed = command(tmp_path / "run", tmp_path / "qrels", "-m", "nDGC")
    assert str(failed.exception) == "metric must be a known name; got 'nDGC'; did you mean 'nDCG'?"
