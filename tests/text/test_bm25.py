"""BM25: scores of the formula, top documents, excluded documents, odd texts, saved indexes."""

import json
import logging
import math
import re
import subprocess
import sys

import numpy as np
import pytest

from rankgrad.text import BM25Index, Texts
from rankgrad.text.bm25_tokens import Tokens, singular, split_words, stopword_list

bm25s = pytest.importorskip("bm25s")
WORDS = ["wing", "flap", "heat", "flow", "slab", "gas", "drag", "lift", "shock", "wave", "jet", "plate", "cone", "tail"]


def texts(*contents, prefix="d"):
    return Texts(tuple(f"{prefix}{number}" for number in range(len(contents))), contents)


def drawn(number, seed=0, length=12):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(1, length))) for _ in range(number)]


def formula(documents, query, k1, b):
    """Scores of all documents, as the formula of Lucene reads."""
    split = [document.split() for document in documents]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        score = 0.0
        for word in query.split():
            holders = sum(word in other for other in split)
            idf = math.log(1 + (len(split) - holders + 0.5) / (holders + 0.5))
            count = words.count(word)
            score += idf * count / (count + k1 * (1 - b + b * len(words) / mean))
        scores.append(score)
    return scores


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_scores_are_those_of_the_formula(k1, b):
    documents = drawn(30)
    index = BM25Index.build(texts(*documents), k1=k1, b=b, stemmer=None)
    for query in ("wing", "wing flow drag", "heat heat slab", "unknown wing"):
        expected = formula(documents, query, k1, b)
        np.testing.assert_allclose(index.scores(query), expected, rtol=1e-5)
        np.testing.assert_allclose(index.scores(query, [7, 3, 7]), np.array(expected)[[7, 3, 7]], rtol=1e-5)
    assert repr(index) == f"BM25Index(documents=30, words=14, k1={k1:g}, b={b:g})"


@pytest.mark.parametrize("k", [1, 3, 10, 29, 30, 1000])
def test_search_is_a_stable_sort_of_all_scores(k):
    documents = texts(*drawn(30, length=4))  # short documents: many equal scores
    queries = texts("wing", "flow gas", "wing flow drag heat", prefix="q")
    index = BM25Index.build(documents)
    run = index.search(queries, k)
    assert list(run) == ["q0", "q1", "q2"]
    for query, text in zip(queries.ids, queries.texts, strict=True):
        scores = index.scores(text)
        order = [number for number in np.argsort(-scores, kind="stable") if scores[number] > 0][:k]
        assert list(run[query].items()) == [(f"d{number}", float(scores[number])) for number in order]
    assert len({*run["q0"].values()}) < len(run["q0"]) or k < 3


def test_excluded_documents_never_come_back_and_k_others_do():
    documents = texts(*["wing " * (number + 1) + "flow" for number in range(9)], "heat")
    queries = texts("wing", "wing", prefix="q")
    index = BM25Index.build(documents)
    plain = index.search(queries, 4)
    found = index.search(queries, 4, {"q1": frozenset({*list(plain["q1"])[:2], "unknown"}), "other": frozenset()})
    assert found["q0"] == plain["q0"]
    assert len(found["q1"]) == 4
    assert list(found["q1"])[:2] == list(plain["q1"])[2:]


def test_titles_count():
    documents = Texts(("d0", "d1"), ("flow over it", "heat"), titles=("wing", "slab"))
    assert list(BM25Index.build(documents).search(texts("wing slab flow", prefix="q"))["q0"]) == ["d0", "d1"]


def test_empty_documents_and_queries():
    index = BM25Index.build(texts("", "wing flow", "   ...", "the of and"))
    run = index.search(texts("", "wing", "unknown", "the", "?!", prefix="q"))
    assert {query: list(found) for query, found in run.items()} == {
        "q0": [], "q1": ["d1"], "q2": [], "q3": [], "q4": []
    }  # fmt: skip
    assert index.scores("", [1, 2]).tolist() == [0, 0]


@pytest.mark.filterwarnings("error")
def test_a_collection_of_empty_documents(tmp_path):
    index = BM25Index.build(texts("", ""))
    index.save(tmp_path)
    for each in (index, BM25Index.load(tmp_path)):
        assert each.search(texts("wing", prefix="q")) == {"q0": {}}


def test_long_documents():
    long = "wing " * 20_000  # 100,000 characters
    index = BM25Index.build(texts(long, "wing", "heat", "один " * 20_000, "风洞" * 50_000))
    run = index.search(texts("wing", "один", "风洞", prefix="q"))
    assert [[*found] for found in run.values()] == [["d0", "d1"], ["d3"], ["d4"]]


def test_other_scripts_are_found():
    documents = texts(
        "Крыло самолёта в потоке",
        "飞机机翼的空气动力学",
        "東京タワーは高い",
        "हिन्दी में एक लेख",
        "القاهرة مدينة كبيرة",
        "비행기 날개",
        "Στρατός και ΣΤΡΑΤΟΣ",
        "cafe\u0301 Straße",
        "ภาษาไทยง่าย",
    )
    queries = "КРЫЛО", "机翼", "東京", "हिन्दी", "مدينة", "날개", "στρατος", "CAFÉ", "ภาษา", "STRASSE"
    run = BM25Index.build(documents).search(texts(*queries, prefix="q"))
    expected = [f"d{number}" for number in range(6)]
    assert [next(iter(found), None) for found in run.values()] == [*expected, "d6", "d7", "d8", "d7"]
    assert [len(found) for found in run.values()] == [1] * 10


def test_words_of_a_text():
    assert split_words("Mach-number 2.5 at_rest, O'Neil") == ["mach", "number", "2", "5", "at_rest", "o", "neil"]
    assert split_words("飞 \uff21\uff22\uff23 \ufb01n") == ["飞", "abc", "fin"]  # full-width letters, a ligature
    assert split_words("日本語test русский") == ["日本", "本語", "test", "русский"]
    assert split_words("नमस्ते दुनिया") == ["नमस्ते", "दुनिया"]
    assert [singular(word) for word in ("flows", "theories", "process", "gas", "trees")] == [
        "flow", "theory", "process", "gas", "tree"
    ]  # fmt: skip


def test_stopwords():
    documents = texts("der flügel", "the wing", "die strömung")
    assert BM25Index.build(documents, stopwords="de").search(texts("the der", prefix="q"))["q0"].keys() == {"d1"}
    assert BM25Index.build(documents, stopwords=None).search(texts("the der", prefix="q"))["q0"].keys() == {"d0", "d1"}
    assert BM25Index.build(documents, stopwords=["WING"]).search(texts("the wing", prefix="q"))["q0"].keys() == {"d1"}
    assert "the" in stopword_list("en") < stopword_list("en_plus")


def test_a_stemmer_and_a_tokenizer_of_the_caller(tmp_path):
    documents, queries = texts("Flapping|wings", "heat|flow"), texts("flap", prefix="q")
    stem = lambda word: re.sub("ping$", "", word)  # noqa: E731
    split = lambda text: text.lower().split("|")  # noqa: E731
    assert BM25Index.build(documents).search(queries) == {"q0": {}}
    index = BM25Index.build(documents, stemmer=stem, tokenizer=split)
    assert index.tokens("Flapping|the|WINGS and") == ["flap", "wings and"]
    assert list(index.search(queries)["q0"]) == ["d0"]
    index.save(tmp_path)
    assert BM25Index.load(tmp_path, stemmer=stem, tokenizer=split).search(queries) == index.search(queries)
    with pytest.raises(ValueError, match=r"stemmer must be the function that the index in .* was built with; got None"):
        BM25Index.load(tmp_path, tokenizer=split)
    with pytest.raises(TypeError, match="stemmer must return the stem of one word, as text; got list"):
        Tokens(stemmer=lambda word: [word])("wing")


def test_saved_indexes_answer_as_before(tmp_path):
    index = BM25Index.build(texts(*drawn(40), "Крыло 机翼"), k1=0.9, b=0.4, stopwords=["heat"])
    index.save(tmp_path / "new" / "index")
    loaded = BM25Index.load(tmp_path / "new" / "index")
    queries = texts("wing flow", "heat", "крыло", "机翼", "flaps gas", prefix="q")
    assert loaded.search(queries, 7) == index.search(queries, 7)
    assert (loaded.k1, loaded.b, loaded.tokens, loaded.ids) == (0.9, 0.4, index.tokens, index.ids)
    BM25Index.build(texts("wing")).save(tmp_path / "new" / "index")  # replaces the index
    assert len(BM25Index.load(tmp_path / "new" / "index")) == 1
    with pytest.raises(ValueError, match=r"stemmer must be None, because the index in .* was built without a function"):
        BM25Index.load(tmp_path / "new" / "index", stemmer=str.lower)


def test_an_interrupted_save_is_noticed(tmp_path, monkeypatch):
    index = BM25Index.build(texts("wing flow", "heat"))
    index.save(tmp_path)
    save = np.save

    def fails(path, *args, **options):
        if "indptr" in str(path):
            raise OSError(28, "No space left on device")
        save(path, *args, **options)

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(OSError, match="No space left"):
        index.save(tmp_path)
    with pytest.raises(ValueError, match=r"must be the folder of a BM25 index, with bm25\.json; got no such file"):
        BM25Index.load(tmp_path)
    with pytest.raises(ValueError, match=r"must be the folder of a BM25 index, with bm25\.json"):
        BM25Index.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["data.csc.index.npy", "vocab.index.json", "params.index.json", "indptr.csc.index.npy"]
)
def test_a_damaged_file_is_noticed(name, tmp_path):
    BM25Index.build(texts("wing flow", "heat")).save(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=rf"{name} must be unchanged since it was written .*; got different content"):
        BM25Index.load(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} must be unchanged since it was written .*; got no such file"):
        BM25Index.load(tmp_path)


def test_another_version_and_edited_ids_are_noticed(tmp_path):
    BM25Index.build(texts("wing flow", "heat")).save(tmp_path)
    about = json.loads((tmp_path / "bm25.json").read_text())
    (tmp_path / "bm25.json").write_text(json.dumps({**about, "ids": ["d1", "d0"]}))
    with pytest.raises(ValueError, match=r"bm25\.json must be unchanged"):
        BM25Index.load(tmp_path)
    del about["sha256"]
    (tmp_path / "bm25.json").write_text(json.dumps({**about, "version": 2}))
    with pytest.raises(ValueError, match=r"must have the format 'rankgrad BM25 index', version 1; got .*, version 2"):
        BM25Index.load(tmp_path)
    for change in ({"stemmer": 5}, {"stopwords": [[]]}, {"ids": ["d0", 1]}, {"ids": ["d0"]}, {"files": []}):
        (tmp_path / "bm25.json").write_text(json.dumps(about | change))
        with pytest.raises(ValueError, match=r"bm25\.json must (contain lists of texts|have one id per document, 2)"):
            BM25Index.load(tmp_path)


def test_nothing_is_printed_or_logged(tmp_path, capfd, caplog):
    with caplog.at_level(logging.DEBUG):
        index = BM25Index.build(texts("wing flow", "heat"))
        index.search(texts("", "wing", prefix="q"))
        index.save(tmp_path)
        BM25Index.load(tmp_path)
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name.startswith("bm25s")] == []


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        (texts("wing"), {"k1": -1}, "k1 must be a finite number of at least 0; got -1"),
        (texts("wing"), {"k1": math.nan}, "k1 must be a finite number of at least 0; got nan"),
        (texts("wing"), {"b": 1.5}, "b must be from 0 to 1; got 1.5"),
        (texts("wing"), {"stopwords": "english"}, "stopwords must be None, words or one of 'da', .*; got 'english'"),
        (texts("wing"), {"stemmer": "porter"}, "stemmer must be one of 'plural'; got 'porter'"),
        (texts(), {}, "documents must contain at least one document; got none"),
        ({"d1": "a wing"}, {}, r"documents must be rankgrad.text.Texts, such as Texts.*; got dict"),
    ],
)
def test_bad_options_of_the_index(documents, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BM25Index.build(documents, **options)


@pytest.mark.parametrize(
    ("query", "message"), [(texts("wing"), "k must be at least 1"), ("wing", "queries must be rank")]
)
def test_bad_searches(query, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BM25Index.build(texts("wing")).search(query, int(query == "wing"))


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ModuleNotFoundError, match=r"BM25 needs bm25s: pip install 'rankgrad\[text\]'"):
        BM25Index.build(texts("wing"))


def test_bm25s_does_not_start_jax(tmp_path):
    """bm25s calls JAX at import, which then takes most of the memory of a GPU."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('JAX is imported')\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from rankgrad.text import BM25Index, Texts; "
        "BM25Index.build(Texts(('a',), ('wing',))); print('before'); import jax"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "before\nJAX is imported\n"  # by the last statement of the program
