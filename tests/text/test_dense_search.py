"""Exact search of embeddings: equal to the whole matrix product and a stable sort, for every block size."""

import numpy as np
import pytest
import torch

from rankgrad.text import Texts, dense_search, search_embeddings, top_k

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def drawn(rows, width=6, seed=0, dtype=np.float32):
    """Embeddings of small integers: products are exact, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, (rows, width)).astype(dtype)


def sorted_product(queries, documents, k):
    scores = queries.astype(np.float64) @ documents.astype(np.float64).T
    numbers = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, numbers, axis=1), numbers


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("k", "block"), [(1, 7), (10, 3), (10, 64), (10, 500), (97, 10), (400, 50), (1000, 4096)])
def test_equals_a_stable_sort_of_the_whole_product(k, block, dtype, device):
    queries, documents = drawn(20, seed=1, dtype=dtype), drawn(397, dtype=dtype)
    scores, numbers = top_k(queries, documents, k, block=block, device=device)
    expected, places = sorted_product(queries, documents, k)
    assert scores.dtype == (np.float64 if dtype is np.float64 else np.float32)
    assert numbers.shape == (20, min(k, 397))
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(numbers, places)


@pytest.mark.parametrize("block", [5, 33, 1000])
def test_real_embeddings(block):
    draw = np.random.default_rng(0)
    queries, documents = (draw.standard_normal((rows, 16)).astype(np.float32) for rows in (9, 211))
    scores, numbers = top_k(queries, documents, 12, block=block)
    expected, places = sorted_product(queries, documents, 12)
    np.testing.assert_array_equal(numbers, places)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_queries_are_also_in_blocks(monkeypatch):
    queries, documents = drawn(23, seed=1), drawn(60)
    excluded = {22: range(0, 60, 2), 0: [5]}
    whole = top_k(queries, documents, 9, block=16, excluded=excluded)
    monkeypatch.setattr(dense_search, "_QUERIES", 4)
    for one, other in zip(whole, top_k(queries, documents, 9, block=16, excluded=excluded), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tensors_give_tensors_and_maps_are_read(tmp_path):
    queries, documents = drawn(4, seed=1), drawn(50, dtype=np.float16)
    np.save(tmp_path / "documents.npy", documents)
    mapped = np.load(tmp_path / "documents.npy", mmap_mode="r")
    expected = top_k(queries, documents, 5)
    for found in (
        top_k(torch.from_numpy(queries).requires_grad_(), torch.from_numpy(documents).bfloat16(), 5, block=8),
        top_k(torch.from_numpy(queries), mapped, 5, block=8),
    ):
        assert all(isinstance(each, torch.Tensor) and not each.requires_grad for each in found)
        assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@pytest.mark.parametrize("block", [3, 100])
def test_excluded_documents(block):
    queries, documents = drawn(3, seed=1), drawn(10)
    scores, numbers = top_k(queries, documents, 8, block=block, excluded={0: [2, 3], 1: range(9), 2: []})
    whole = top_k(queries, documents, 10)[1].tolist()
    assert numbers[0].tolist() == [number for number in whole[0] if number not in (2, 3)]
    assert numbers[1].tolist() == [9, *[-1] * 7]
    assert np.isneginf(scores[1, 1:]).all()
    assert numbers[2].tolist() == whole[2][:8]


def test_search_embeddings_is_a_run():
    documents = Texts(("a", "b", "c"), ("", "", ""))
    queries = Texts(("q1", "q2"), ("", ""))
    vectors = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    asked = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    excluded = {"q1": frozenset({"b", "unknown"}), "other": frozenset({"a"})}
    run = search_embeddings(queries, documents, asked, vectors, excluded=excluded)
    assert run == {"q1": {"a": 1.0, "c": 0.0}, "q2": {"c": 3.0, "a": 0.0, "b": 0.0}}
    assert list(run["q2"]) == ["c", "a", "b"]
    assert search_embeddings(queries, documents, asked, vectors, 1) == {"q1": {"b": 2.0}, "q2": {"c": 3.0}}
    with pytest.raises(ValueError, match="document_embeddings must have one row per text, 3; got 2"):
        search_embeddings(queries, documents, asked, asked)


def test_the_largest_block_of_memory_is_bounded(monkeypatch):
    widths = []
    first_k = dense_search._first_k
    monkeypatch.setattr(dense_search, "_first_k", lambda values, k: widths.append(values.shape) or first_k(values, k))
    top_k(drawn(5), drawn(1000), 7, block=64)
    assert max(width for _, width in widths) == 64 + 7
    assert len(widths) == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((drawn(2), drawn(3, width=5), 1), r"documents must have the shape \(documents, 6\); got \(3, 5\)"),
        ((drawn(2), drawn(3)[0], 1), r"documents must have the shape \(documents, 6\); got \(6,\)"),
        ((drawn(2), drawn(3), 0), "k must be at least 1; got 0"),
        ((drawn(2), drawn(3) * np.nan, 1), "documents must have finite values; got NaN or infinity"),
        ((drawn(2) + np.inf, drawn(3), 1), "queries must have finite values; got NaN or infinity"),
    ],
)
def test_bad_embeddings(arguments, message):
    with pytest.raises(ValueError, match=message):
        top_k(*arguments)
