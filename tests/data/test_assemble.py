"""Rows to lists: every format gives the same lists, a query may have several, and no split divides a query."""

import ast
import json
import pickle
from dataclasses import fields, replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import SOURCE

import rankgrad as rg
from rankgrad.data import (
    TableError,
    collate,
    from_arrays,
    from_frame,
    open_cache,
    read_letor,
    read_table,
    write_cache,
    write_parquet,
)
from rankgrad.data.assemble import join_lists
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.data.sparse_rows import dense
from rankgrad.data.splitting import held_out
from rankgrad.data.tables import files
from rankgrad.data.tables.reader import stream_table
from rankgrad.experiments.comparison import compare
from rankgrad.models.auto.stored_lists import StoredLists, fold_numbers
from rankgrad.training.heldout_adaptation import split_held_out

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
for module in ("csv", "feather", "parquet"):
    pytest.importorskip(f"pyarrow.{module}")

ROLES = {
    "label": "grade",
    "qid": "query",
    "list_id": "session",
    "docid": "doc",
    "weight": "w",
    "training_columns": "pos*",
}
CSV, TAB = pa.csv.write_csv, pa.csv.WriteOptions(delimiter="\t")
WRITERS = {
    "csv": CSV,
    "csv.gz": lambda table, path: CSV(table, pa.output_stream(path, compression="gzip")),
    "tsv": lambda table, path: CSV(table, path, TAB),
    "jsonl": lambda table, path: path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist())),
    "parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=3),
    "arrow": lambda table, path: pa.feather.write_feather(table, str(path), chunksize=4),
}
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "arrow": pa.table,
}
# Numbers that are hard to read exactly: few digits, many digits, tiny, huge, 0.
HARD = np.random.default_rng(0).normal(size=64) * 10.0 ** np.random.default_rng(1).integers(-30, 30, 64)
HARD = np.where(np.arange(64) % 4 == 0, 0.0, HARD).astype(np.float32)


def table_of(keys, text=False):
    """Return the columns of a table; `keys` are pairs of a query and one of its lists, one per row."""
    count = np.arange(len(keys))
    return {
        "query": [f"q {query}" if text else query for query, _ in keys],
        "session": [f"s{own}" if text else own for _, own in keys],
        "grade": (count % 3).tolist(),
        "doc": [f'd{row}, "{row}"' for row in count],
        "w": (1.0 + count % 2).tolist(),
        "position": (count % 4 - 1.5).tolist(),
        "bm25": HARD[: len(keys)].tolist(),
        "age": count.tolist(),
    }


def content(data):
    """Return all that a data set contains, apart from its name."""
    found = {each.name: getattr(data, each.name) for each in fields(data) if each.name not in ("name", "roles")}
    found |= found.pop("columns") or {}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


def sessions(queries=30, seed=0):
    """Return lists of two to four documents; each query has one to four lists, in any order."""
    rng = np.random.default_rng(seed)
    keys = [(query, own) for query in range(queries) for own in range(rng.integers(1, 5))]
    rng.shuffle(keys)
    rows = [tuple(key) for key in keys for _ in range(rng.integers(2, 5))]
    query, own = np.array(rows).T
    values = rng.normal(size=(len(rows), 3))
    return from_arrays(values, rng.integers(0, 3, len(rows)), qid=query, list_id=own)[0]


def expected_content(keys, columns, order, lists):
    """Return what a data set contains, from rows in plain Python loops."""
    whole = {name: np.array(values)[order].tolist() for name, values in columns.items()}
    return {
        "features": [list(pair) for pair in zip(whole["bm25"], whole["age"], strict=True)],
        "labels": whole["grade"],
        "offsets": [0, *np.cumsum([len(rows) for rows in lists]).tolist()],
        "qids": [columns["query"][rows[0]] for rows in lists],
        "list_ids": [columns["session"][rows[0]] for rows in lists] if "session" in columns else None,
        "docids": whole["doc"],
        "weights": whole["w"],
        "position": whole["position"],
        "rows": None if order == sorted(order) else order,
        "feature_names": ("bm25", "age"),
        **dict.fromkeys(("best", "categories", "texts")),
    }


@settings(max_examples=12, deadline=None)
@given(
    keys=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=25),
    text=st.booleans(),
    several=st.booleans(),
    consecutive=st.booleans(),
    most=st.sampled_from([2, 7, 65_536]),
    documents=st.sampled_from([1, 5, 10**6]),
)
def test_every_format_gives_the_same_lists(keys, text, several, consecutive, most, documents, tmp_path_factory):
    keys = [(query, own if several else 0) for query, own in (sorted(keys) if consecutive else keys)]
    groups = {}  # rows of each list, in the order of the first rows
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    order = [row for rows in groups.values() for row in rows]
    columns, roles = table_of(keys, text), dict(ROLES)
    if not several:
        del columns["session"], roles["list_id"]
    expected = expected_content(keys, columns, order, [*groups.values()])
    grouped, folder = order == sorted(order), tmp_path_factory.mktemp("formats")
    what = r"list \S+ of qid .+ occurs again after list \S+ of" if several else "qid .+ occurs again after"
    what += rf" qid .+ \(first in row \d+\); expected the documents of a {'list' if several else 'query'} on consec"
    scoring = rg.data.Columns(qid="query", list_id=roles.get("list_id"), docid="doc", features=("bm25", "age"))
    with patch.object(files, "_FEWEST", most), patch.object(files, "_MOST", most):
        for ending, write in WRITERS.items():
            path = folder / f"t.{ending}"
            write(pa.table(columns), path)
            for cache in (None, *([folder / "cache"] * 2 if ending in ("csv", "parquet") else ())):
                data = read_table(path, **roles, regroup=True, cache=cache)
                assert content(data) == expected, ending
            assert isinstance(data.labels, np.memmap) == (ending in ("csv", "parquet"))
            parts = stream_table(path, scoring, features=2, documents=documents)
            if grouped:
                assert content(read_table(path, **roles)) == expected, ending
                streamed = [*parts]
                assert all(len(part.labels) >= documents for part in streamed[:-1])
                unread = {"labels": [0] * len(keys), "weights": None, "feature_names": None}
                assert content(join_lists(streamed)) | {"position": None} == expected | unread | {"position": None}
            else:
                for read in (lambda path=path: read_table(path, **roles), lambda parts=parts: [*parts]):
                    with pytest.raises(TableError, match=what):
                        read()
    for name, make in FRAMES.items():
        assert content(from_frame(make(columns), **roles)) == expected, name
    ids = {name: columns[column] for name, column in roles.items() if name in ("qid", "list_id")}
    X = np.array([columns["bm25"], columns["age"]]).T
    extra = {"docids": columns["doc"], "training_columns": {"position": columns["position"]}}
    found, rows = from_arrays(X, columns["grade"], **ids, **extra)
    assert rows.tolist() == order
    assert content(found) == expected | {"rows": None, "feature_names": None, "weights": None}
    write_parquet(data, folder / "again.parquet")
    named = {"weight": "weight", "training_columns": ["position"]} | ({"list_id": "list_id"} if several else {})
    assert content(read_table(folder / "again.parquet", **named)) == expected | {"rows": None}
    if several:
        return
    lines = zip(columns["query"], columns["grade"], columns["bm25"], columns["age"], columns["doc"], strict=True)
    pairs = [
        f"{grade} qid:{f'{query}'.replace(' ', '')} 1:{one!r} 2:{two} # {doc}" for query, grade, one, two, doc in lines
    ]
    (folder / "t.txt").write_text("\n".join([*pairs, ""]))
    unknown = dict.fromkeys(("weights", "feature_names", "position"))
    unknown["qids"] = [f"q{qid[2:]}" if text else qid for qid in expected["qids"]]
    for options in ({}, {"sparse": True}, {"cache": folder / "cache of text"}):
        data = read_letor(folder / "t.txt", regroup=True, **options)
        found = content(replace(data, features=dense(data.features)))
        assert found | {"position": None} == expected | unknown, options


def test_one_function_groups_rows():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            # Rows with the same id are found by the first of equal values, or by sorting the ids of rows.
            if any({"return_index", "return_inverse"} <= {each.arg for each in call.keywords} for call in calls):
                found.append((path.name, function.name))
    assert found == [("group_rows.py", "_groups")]


def test_no_query_is_on_both_sides_of_a_split(tmp_path):
    for seed in range(20):
        data = sessions(seed=seed)
        folds = StoredLists.write(data, tmp_path, 3, seed)
        splits = [held_out(data, 0.2, seed), split_held_out(data, seed)]
        splits += [
            (np.flatnonzero(fold_numbers(data, 3, seed) != fold), fold_numbers(data, 3, seed) == fold)
            for fold in range(3)
        ]
        for kept, held in splits:
            one, other = set(data.qids[kept].tolist()), set(data.qids[held].tolist())
            assert one, other
            assert not one & other
        assert {*map(str, folds.split(0)[1].qids)} == {*map(str, data.qids[fold_numbers(data, 3, seed) == 0])}
        queries = np.unique(data.qids[held_out(data, 0.2, seed)[1]])
        assert len(queries) == 6  # a fifth of the queries, with all their lists


def test_an_estimator_keeps_a_query_whole():
    data = sessions()
    order = np.random.default_rng(1).permutation(len(data.labels))
    lists = {"qid": data.row_qids[order], "list_id": np.repeat(data.list_ids, data.lengths)[order]}
    X, y = data.features[order], data.labels[order]
    seen = []
    with patch("rankgrad.estimators.rows.held_out", lambda *told: seen.append(told) or held_out(*told)):
        ranker = rg.Ranker("context_aware:width=4,blocks=1,feed_forward=4", epochs=1).fit(X, y, **lists)
    (told,) = seen
    assert sorted(told[0].list_names) == sorted(data.list_names)
    # A score depends on the other documents of its list, not of its query.
    alone = {name: ranker.model_.score_lists(data.take([place])) for place, name in enumerate(data.list_names)}
    wanted = np.concatenate([alone[name] for name in data.list_names])[order]
    np.testing.assert_allclose(ranker.predict(X, **lists), wanted, rtol=1e-4, atol=1e-6)
    (mean,) = ranker.model_.evaluate(data, ["nDCG@10"]).means.values()
    assert ranker.score(X, y, **lists) == pytest.approx(mean)
    assert ranker.score(X, y, **lists, sample_weight=np.ones(len(y))) == pytest.approx(mean)
    with pytest.raises(ValueError, match="qid must be given with list_id"):
        ranker.predict(X, list_id=lists["list_id"])


@pytest.mark.parametrize("make", [partial(rg.Ranker, "linear", epochs=1), partial(rg.trees.TreeRanker, trees=2)])
def test_an_objective_sees_the_training_columns(make):
    data, seen = sessions(), []

    def of_position(scores, batch):
        seen.append((batch.labels.tolist(), batch.columns["twice"].tolist()))
        return rg.losses.softmax(scores, batch.labels, offsets=batch.offsets, reduction="none")

    order = np.random.default_rng(0).permutation(len(data.labels))
    lists = {"qid": data.row_qids[order], "list_id": np.repeat(data.list_ids, data.lengths)[order]}
    X, y = data.features[order], data.labels[order]
    make(loss=of_position).fit(X, y, **lists, training_columns={"twice": 2 * y})
    assert all([2 * label for label in labels] == twice for labels, twice in seen)
    assert seen
    with pytest.raises(ValueError, match=r"training column 'twice' must have one number per row, \(\d+,\); got \(3,\)"):
        make(loss=of_position).fit(X, y, **lists, training_columns={"twice": y[:3]})


def test_the_value_of_a_query_is_the_mean_over_its_lists():
    data = sessions(12)
    scores = np.random.default_rng(2).normal(size=len(data.labels))
    each = evaluate_lists(scores, data, ["nDCG@10", "nDCG(empty=skip)@10"], by_query=False)
    found = evaluate_lists(scores, data, ["nDCG@10", "nDCG(empty=skip)@10"])
    assert found.lists == len(found.queries) == len(set(found.queries)) == 12
    for name, values in found.values.items():
        for query, value in zip(found.queries, values, strict=True):
            of_lists = each.values[name][data.qids == query]
            assert value == pytest.approx(np.nanmean(of_lists)) if np.isfinite(of_lists).any() else np.isnan(value)
    assert "mean over its lists" in found.about
    compared = compare(scores, data.features[:, 0], data, "nDCG@10")
    assert compared.metrics[0].queries == compared.lists == 12  # the tests count queries
    other = evaluate_lists(data.features[:, 0], data, "nDCG@10", by_query=False)
    apart = np.nan_to_num(np.abs(each.values["nDCG@10"] - other.values["nDCG@10"]))
    shown = compared.queries[0]  # a list, with its own values
    assert shown.query == data.list_names[np.argmax(apart)]
    assert abs(shown.a - shown.b) == pytest.approx(apart.max())


def test_training_columns_are_with_their_documents(tmp_path):
    keys = [(query, own) for query in range(6) for own in range(2) for _ in range(query + 1)]
    columns = table_of(keys)
    data = from_frame(pd.DataFrame(columns), **ROLES)
    write_cache(replace(data, categories={0: ("a", "b")}), tmp_path / "cache")
    mapped = open_cache(tmp_path / "cache")
    assert mapped.categories == {0: ("a", "b")}
    mapped = replace(mapped, categories=None)
    place = dict(zip(columns["doc"], columns["position"], strict=True))
    cut = rg.data.truncate(data, 2, "random")
    for part in (data.take([3, 1]), mapped.take([3, 1]), mapped.take([5, 3, 1]).take([0, 2]), data.between(2, 5), cut):
        assert part.columns["position"].tolist() == [place[doc] for doc in part.docids]
        keys_of = zip(part.row_qids.tolist(), np.repeat(part.list_ids, part.lengths).tolist(), strict=True)
        assert [*keys_of] == [keys[columns["doc"].index(doc)] for doc in part.docids]
    assert content(pickle.loads(pickle.dumps(mapped.take([3, 1])))) == content(data.take([3, 1]))
    joined = join_lists([data.take([1]), replace(data.take([0]), weights=None, list_ids=None)])
    assert joined.columns["position"].tolist() == [place[doc] for doc in joined.docids]
    assert (joined.list_ids.tolist(), joined.weights.tolist()[-1]) == ([1, 0], 1.0)
    with pytest.raises(
        ValueError, match="the columns used in training must be the same in all lists that are joined; got"
    ):
        join_lists([data, replace(data, columns=None)])
    padded, flat = collate([data[0], data[5]]), collate([data[0], data[5]], layout="flat")
    assert padded.columns["position"][padded.mask].tolist() == flat.to("cpu").columns["position"].tolist()
    assert flat.columns["position"].tolist() == [place[doc] for doc in data.take([0, 5]).docids]
    assert padded.columns["position"][~padded.mask].tolist() == [0.0] * 2
    assert replace(data, columns=None)[0].columns is None
    assert dict(collate([replace(data, columns=None)[0]]).columns) == {}
    with pytest.raises(
        ValueError, match="columns must differ from the columns label, qid, docid, weight, list_id; got 'lab"
    ):
        write_parquet(replace(data, columns={"label": data.labels}), tmp_path / "t.parquet")
    for columns, must in (
        (pd.DataFrame({"a": data.labels}), "map names"),
        ({1: data.labels}, "have names that are text"),
    ):
        with pytest.raises(TypeError, match=f"columns must {must}"):
            from_arrays(data.features, data.labels, qid=data.row_qids, training_columns=columns)
    with pytest.raises(ValueError, match="lists must all have the same columns"):
        collate([data[0], replace(data, columns=None)[0]])
    old = {name: value for name, value in vars(data).items() if name not in ("columns", "list_ids", "roles")}
    restored = object.__new__(type(data))  # a pickle of version 0.2 has none of these attributes
    restored.__setstate__(old)
    assert (restored[0].columns, restored.take([1]).list_ids, restored.roles) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "roles", "message"),
    [
        ({"position": [1.0, None]}, {}, "row 2: no value of a training column; expected a finite number$"),
        ({"position": ["a", "b"]}, {}, "training_columns must be a numeric column; got text in column 'position'"),
        ({}, {"training_columns": "rank"}, "training_columns must be columns of the table; got 'rank'"),
        ({"session": ["s", ""]}, {}, "row 2: no value in column 'session'; expected .*have|row 2: no value in column"),
    ],
)
def test_bad_columns_are_named(change, roles, message, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table_of([(0, 0), (0, 1)]) | change), tmp_path / "t.parquet")
    with pytest.raises((ValueError, TypeError), match=message):
        read_table(tmp_path / "t.parquet", **ROLES | roles)
