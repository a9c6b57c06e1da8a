"""A file as a stream of small data sets: the same lists as when it is read at once, and the same complaints."""

import resource
import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrad.data import LetorError, read_letor
from rankgrad.data.letor.chunks import stream_letor


def write(path, lengths, qid="{}"):
    """Lists of these lengths, with a comment now and then."""
    lines = ["# a comment\n"]
    for query, length in enumerate(lengths, 1):
        for place in range(length):
            name = f" # d{query}-{place}" if place % 3 else ""
            lines.append(f"{place % 3} qid:{qid.format(query)} 1:{query}.5 3:{place}{name}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("chunks") / "file.txt"


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    documents=st.integers(1, 60),
    block=st.integers(20, 600),
    text=st.booleans(),
)
def test_the_stream_is_the_file(path, lengths, documents, block, text):
    write(path, lengths, "q{}" if text else "{}")
    whole = read_letor(path)
    with patch("rankgrad.data.letor.streams.BLOCK", block):
        parts = [*stream_letor(path, 3, documents=documents)]
    assert np.array_equal(np.concatenate([part.features for part in parts]), whole.features)
    assert np.array_equal(np.concatenate([part.labels for part in parts]), whole.labels)
    named = [""] * len(whole.labels) if whole.docids is None else whole.docids.tolist()
    assert np.concatenate([part.docids for part in parts]).tolist() == named
    assert np.concatenate([part.lengths for part in parts]).tolist() == lengths
    assert [str(qid) for part in parts for qid in part.qids] == [str(qid) for qid in whole.qids]
    assert all(len(part.labels) >= documents for part in parts[:-1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n\n",
        "1 qid:1 1:x\n",
        "1 qid:1 3:1\n0 qid:2 1:1\n2 qid:1 1:3\n",
        "1 qid:1 1:1\n0 qid:2 1:1\n2 qid:1 1:3\nnonsense\n",
        "1 qid:1 4:1\n",
        "1 qid:1 1:nan\n",
        "".join(f"1 qid:1 1:{n} 2:2 3:3\n" for n in range(20)) + "1 qid:1 1:2 2:1",
    ],
)
@pytest.mark.parametrize("block", [20, 4 << 20])
def test_complaints_are_those_of_the_reader(path, text, block):
    path.write_text(text)
    with pytest.raises(LetorError) as whole:
        read_letor(path, features=3)
    with patch("rankgrad.data.letor.streams.BLOCK", block), pytest.raises(LetorError) as streamed:
        [*stream_letor(path, 3)]
    assert str(streamed.value) == str(whole.value)


def test_what_is_missing_is_filled_and_what_was_read_is_told(path):
    path.write_text("1 qid:1 1:nan 2:2\n")
    read = []
    (part,) = stream_letor(path, 2, missing=7.0, docids=False, progress=read.append)
    assert part.features.tolist() == [[7.0, 2.0]]
    assert part.docids is None
    assert read[-1] == path.stat().st_size


def test_features_that_never_come_are_warned_about(path):
    path.write_text("1 qid:1 1:1 2:2\n")
    with pytest.warns(UserWarning, match="has 2 features, but the model needs 5; the missing features are set to 0"):
        (part,) = stream_letor(path, 5)
    assert part.features.shape == (1, 5)


@pytest.mark.long
def test_memory_does_not_grow_with_the_file(tmp_path):
    line = " ".join(f"{number}:{number / 7:.6f}" for number in range(1, 101))

    def peak(lists):
        file = tmp_path / f"{lists}.txt"
        with open(file, "w") as out:
            for query in range(lists):
                out.write(f"1 qid:{query} {line}\n" * 100)
        code = f"from rankgrad.data.letor.chunks import stream_letor; [None for _ in stream_letor({str(file)!r}, 100)]"
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        subprocess.run([sys.executable, "-c", code], check=True)
        return max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024

    small, large = peak(200), peak(4000)  # 23 MB and 460 MB of text, 8 MB and 160 MB of features
    assert large < small + 60
