"""A data set as PyTorch's data loader takes it: one list per index, batches in both layouts, workers."""

import functools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from rankgrad import losses, metrics
from rankgrad.data import Dataset, FlatBatch, PaddedBatch, collate, from_arrays, open_cache, write_cache

LENGTHS = [3, 1, 0, 4, 2]
FLAT = functools.partial(collate, layout="flat")


def made(lengths=LENGTHS, features=2):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.arange(offsets[-1] * features, dtype=np.float32).reshape(-1, features) + 1
    labels = (np.arange(offsets[-1]) % 3).astype(np.float32)
    docids = np.array([f"d{row}" for row in range(offsets[-1])])
    return Dataset(rows, labels, offsets, np.array([f"q{place}" for place in range(len(lengths))]), docids)


DATA = made()


@pytest.fixture
def cached(tmp_path):
    write_cache(DATA, tmp_path / "cache")
    return open_cache(tmp_path / "cache")


def test_an_index_is_one_list():
    one = DATA[3]
    np.testing.assert_array_equal(one.features, DATA.features[4:8])
    np.testing.assert_array_equal(one.labels, DATA.labels[4:8])
    assert (one.qid, one.docids.tolist(), one.weights) == ("q3", ["d4", "d5", "d6", "d7"], None)
    assert DATA[-2].qid == DATA[np.int64(3)].qid == "q3"
    assert DATA[2].features.shape == (0, 2)
    assert [one.qid for one in DATA] == ["q0", "q1", "q2", "q3", "q4"]  # iteration ends
    assert replace(DATA, docids=None)[0].docids is None
    assert type(from_arrays([[1.0]], [1], qid=[7])[0][0].qid) is int


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_beyond_the_end(index):
    with pytest.raises(IndexError, match=rf"index must be from -5 to 4, for 5 lists; got {index}"):
        DATA[index]


@pytest.mark.parametrize("index", [slice(2), "q1", 1.0, [0, 1]])
def test_an_index_that_is_no_number(index):
    with pytest.raises(TypeError, match=r"index must be an integer \(use `take` for several lists\); got "):
        DATA[index]


def test_batches_in_the_padded_layout():
    (batch,) = DataLoader(DATA, batch_size=5, collate_fn=collate)
    assert isinstance(batch, PaddedBatch)
    assert batch.features.shape == (5, 4, 2)
    assert batch.mask.sum(1).tolist() == LENGTHS
    assert (batch.features[~batch.mask] == 0).all()
    assert (batch.labels[~batch.mask] == 0).all()
    np.testing.assert_array_equal(batch.features[batch.mask], DATA.features)
    np.testing.assert_array_equal(batch.labels[batch.mask], DATA.labels)
    assert batch.qids == DATA.qids.tolist()
    assert batch.weights is None


def test_batches_in_the_flat_layout():
    first, second = DataLoader(DATA, batch_size=3, collate_fn=FLAT)
    assert isinstance(first, FlatBatch)
    assert first.offsets.tolist() == [0, 3, 4, 4]
    assert second.offsets.tolist() == [0, 4, 6]
    np.testing.assert_array_equal(torch.cat([first.features, second.features]), DATA.features)
    np.testing.assert_array_equal(torch.cat([first.labels, second.labels]), DATA.labels)


def test_fields_are_the_arguments_of_losses_and_metrics():
    (padded,), (flat,) = (DataLoader(DATA, batch_size=5, collate_fn=each) for each in (collate, FLAT))
    scores = flat.features.sin().sum(-1)
    for loss in (losses.lambdaloss, metrics.ndcg):
        expected = loss(scores, flat.labels, offsets=flat.offsets)
        torch.testing.assert_close(
            loss(padded.features.sin().sum(-1), padded.labels, mask=padded.mask), expected, rtol=1e-5, atol=1e-6
        )


def test_weights_are_part_of_a_batch():
    lists = [DATA[place]._replace(weights=DATA.labels[:length] + 1) for place, length in enumerate(LENGTHS)]
    padded, flat = collate(lists), collate(lists, layout="flat")
    np.testing.assert_array_equal(padded.weights[padded.mask], flat.weights)
    assert (padded.weights[~padded.mask] == 0).all()
    with pytest.raises(ValueError, match="lists must all have weights, or all have no weights; got lists with and"):
        collate([lists[0], DATA[1]])


def test_batches_do_not_share_memory_with_the_data_set(cached):
    (batch,) = DataLoader(cached, batch_size=5, collate_fn=FLAT)
    batch.features.zero_()  # a map is read-only; a write would end the process
    collate([cached[0]]).labels.zero_()
    np.testing.assert_array_equal(cached.features, DATA.features)


def test_wrong_lists_and_layouts():
    with pytest.raises(TypeError, match=r"lists must be lists of a data set, `dataset\[i\]`; got ndarray"):
        collate([DATA.features])
    with pytest.raises(TypeError, match="got none"):
        collate([])
    with pytest.raises(ValueError, match="layout must be one of 'padded', 'flat'; got 'jagged'"):
        collate([DATA[0]], layout="jagged")


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_workers_read_a_cache(cached, start):
    options = {"batch_size": 2, "num_workers": 2, "collate_fn": collate, "multiprocessing_context": start}
    batches = list(DataLoader(cached, **options))
    assert [qid for batch in batches for qid in batch.qids] == DATA.qids.tolist()
    np.testing.assert_array_equal(torch.cat([batch.features[batch.mask] for batch in batches]), DATA.features)


def spawned(thing, monkeypatch):
    """The bytes that a process receives which is being started."""
    monkeypatch.setattr("rankgrad.data.dataset.get_spawning_popen", lambda: "a process that starts")
    return pickle.dumps(thing)


def test_a_started_process_maps_the_files_again(tmp_path, monkeypatch):
    large = made([1000] * 50, features=20)
    write_cache(large, tmp_path / "cache")
    mapped = open_cache(tmp_path / "cache")
    assert len(pickle.dumps(mapped)) > large.features.nbytes  # elsewhere a pickle contains the data
    sent = spawned(Subset(mapped, [0, 49]), monkeypatch)
    assert len(sent) < 2000
    received = pickle.loads(sent)
    assert isinstance(received.dataset.features, np.memmap)
    np.testing.assert_array_equal(received[1].features, large[49].features)


def test_a_slice_and_a_replaced_file_are_sent_whole(tmp_path, monkeypatch):
    write_cache(DATA, tmp_path / "cache")
    mapped = open_cache(tmp_path / "cache")
    part = replace(mapped, features=mapped.features[::-1])
    write_cache(replace(DATA, labels=DATA.labels + 1), tmp_path / "cache")
    received = pickle.loads(spawned(part, monkeypatch))
    np.testing.assert_array_equal(received.features, DATA.features[::-1])
    np.testing.assert_array_equal(received.labels, DATA.labels)


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_a_batch_moves_to_a_device(layout):
    data, _ = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "b", "b"])
    batch = collate([data[0], data[1]], layout=layout)
    moved = batch.to("meta")
    assert type(moved) is type(batch)
    assert {part.device.type for part in moved if isinstance(part, torch.Tensor)} == {"meta"}
    assert moved.qids == batch.qids
    assert moved.weights is None
