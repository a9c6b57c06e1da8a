"""Collections are read from each format without a silent loss, and written without a change."""

import collections
import csv
import gzip
import json
import time
import warnings
from dataclasses import replace

import pytest
from paths import SHARED

import rankgrad as rg
from rankgrad.run.checkpoint import data_fingerprint
from rankgrad.text import candidate_lists
from rankgrad.text.collection import Collection, Texts
from rankgrad.text.formats import ir_datasets as adapter
from rankgrad.text.formats import trec

DATA = SHARED / "data"
needs_data = pytest.mark.skipif(not (DATA / "cranfield").is_dir(), reason="needs ../shared/data")


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


def quietly(source, **options):
    """Load a collection that must have no note."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return rg.text.load(source, **options)


def load_with_note(source, match, **options):
    """Load a collection that must have exactly one note."""
    with pytest.warns(UserWarning, match=match) as seen:
        found = rg.text.load(source, **options)
    assert [str(each.message) for each in seen] == list(found.notes)
    assert len(found.notes) == 1
    assert seen[0].filename == __file__
    return found


def pairs(texts):
    return dict(zip(texts.ids, texts.texts, strict=True))


def test_the_content_hash_depends_on_ids_texts_and_titles():
    documents, queries = Texts(("a", "b"), ("one", "two"), ("x", "y")), Texts(("q",), ("one",))
    collection = Collection(documents, queries)
    changed = [
        replace(documents, ids=("a", "c")),
        replace(documents, texts=("two", "one")),
        replace(documents, texts=("onet", "wo")),
        replace(documents, titles=("x", "z")),
        replace(documents, titles=None),
    ]
    others = [replace(collection, documents=each) for each in changed]
    others.append(replace(collection, queries=Texts(("q",), ("eno",))))
    hashes = {each.content_hash for each in (collection, *others)}
    assert len(hashes) == len(others) + 1
    assert replace(collection, qrels={"q": {"a": 1}}).content_hash == collection.content_hash
    assert data_fingerprint(candidate_lists(collection, {"q": {"a": 1.0}})) != data_fingerprint(
        candidate_lists(others[1], {"q": {"a": 1.0}})
    )


def test_comments_are_removed_in_linear_time():
    assert trec.plain("wing<!-- a <b> c -->flap <!-- <p> --> of <!-- no <i>end</i>") == "wing flap of <!-- no end"
    start = time.perf_counter()
    assert trec.plain("<!--" * 10_000) == "<!--" * 10_000
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.parquet", "MED.ALL", "queries.tsv", "qrels.txt"])
def test_a_link_to_a_device_is_no_file(name, tmp_path):
    """A read of /dev/zero would not end; /dev/null is as little a file."""
    write(
        tmp_path,
        {"documents.jsonl": '{"id": "a", "text": "wing"}\n', "queries.tsv": "q\twing\n", "qrels.txt": "q 0 a 1"},
    )
    if not name.startswith(("queries", "qrels")):
        (tmp_path / "documents.jsonl").unlink()
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to("/dev/null")
    wrong = (ValueError, "no documents") if name == "MED.ALL" else (FileNotFoundError, f"{name}: is not a regular file")
    with pytest.raises(wrong[0], match=wrong[1]):
        rg.text.load(tmp_path)


# The two collections that the project measures


@needs_data
def test_cranfield():
    found = load_with_note(DATA / "cranfield", "Documents without text are kept: 2, such as '471'")
    assert repr(found) == "Collection('cranfield', documents=1400, queries=225, labels=1612, excluded=225)"
    labels = collections.Counter(label for judged in found.qrels.values() for label in judged.values())
    assert labels == {4: 128, 3: 387, 2: 734, 1: 363}
    assert found.queries.ids == tuple(str(number) for number in range(1, 226))
    assert found.queries.texts[2].startswith("what problems of heat conduction in composite slabs")  # .I 004
    assert found.qrels["1"]["184"] == 3
    assert all(len(each) == 1 for each in found.excluded.values())
    assert found.excluded["1"].isdisjoint(found.qrels["1"])
    assert found.documents.titles[0] == "experimental investigation of the aerodynamics of a wing in a slipstream ."
    assert found.documents.full(0) == found.documents.texts[0]  # the text begins with the title
    # Document 240 has the marks .A and .B within its text.
    assert "prandtl number of unity in low-speed flow" in found.documents.texts[239]


@needs_data
def test_cranfield_with_the_similar_document_as_relevant():
    with pytest.warns(UserWarning, match="without text are kept"):
        found = rg.text.load(DATA / "cranfield", similar="relevant")
    assert sum(map(len, found.qrels.values())) == 1837
    assert not found.excluded
    labels = collections.Counter(label for judged in found.qrels.values() for label in judged.values())
    assert labels[4] == 128 + 225


@needs_data
def test_vaswani():
    found = quietly(DATA / "vaswani")
    assert repr(found) == "Collection('vaswani', documents=11429, queries=93, labels=2083)"
    assert found.documents.texts[0].startswith(
        "compact memories have flexible capacities a digital data storage system"
    )
    assert found.queries.texts[3] == "SYSTEMS OF DATA CODING FOR INFORMATION TRANSFER"
    assert found.documents.titles is None


# Formats

FOLDERS = {
    "beir": {
        "corpus.jsonl": '{"_id": "007", "title": "Wings", "text": "Flow."}\n{"_id": "d2", "text": "Heat."}\n',
        "queries.jsonl": '{"_id": "q1", "text": "wing", "metadata": {}}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\t007\t2\nq1\td2\t0\n",
    },
    "csv": {
        "documents.csv": "DocNo,title,body\r\n007,Wings,Flow.\r\nd2,,Heat.\r\n",
        "queries.csv.gz": "qid,query\nq1,wing\n",
        "qrels.csv": "query_id,doc_id,relevance\nq1,007,2\nq1,d2,0\n",
    },
    "tsv": {
        "documents.tsv.gz": "id\ttitle\ttext\n007\tWings\tFlow.\nd2\t\tHeat.\n",
        "queries.tsv": "q1\twing\n",
        "qrels.txt": "q1 0 007 2\nq1\t0\td2\t0\n",
    },
    "trec": {
        "disk/a/ft_1.gz": "<DOC>\n<DOCNO> 007 </DOCNO>\n<DATE>1</DATE><HEADLINE><P>Wings\n</P></HEADLINE>\n"
        "<TEXT>\n<F P=1>Flow.</F>\n</TEXT>\n</DOC>\n",
        "disk/b/ap": "<DOC><DOCNO>d2</DOCNO><!-- a\ncomment -->Heat.</DOC>",
        "disk/README": "About the disks.",
        "topics": "<top>\n<num> Number: q1\n<title> wing\n\n<desc> Description:\nFlow past wings\n</top>\n",
        "qrels": "q1 0 007 2\nq1 0 d2 0\n",
    },
}


@pytest.mark.parametrize("layout", FOLDERS)
def test_each_layout_of_a_folder_gives_the_same_collection(tmp_path, layout):
    found = quietly(write(tmp_path / "small", FOLDERS[layout]))
    documents = Texts(("007", "d2"), ("Flow.", "Heat."), ("Wings", ""))
    assert found == Collection(documents, Texts(("q1",), ("wing",)), {"q1": {"007": 2, "d2": 0}}, {}, "small")


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    big = 2**60 + 1  # not exact as a float
    write_table(
        pa.table({"id": [big, 2], "vector": [[0.5], None], "text": ["東京", None]}), tmp_path / "documents.parquet"
    )
    write_table(pa.table({"qid": ["01"], "text": ["q"]}), tmp_path / "queries.parquet")
    write_table(pa.table({"qid": ["01"], "docid": [big], "label": [1.0]}), tmp_path / "qrels.parquet")
    found = load_with_note(tmp_path, "without text are kept: 1, such as '2'")
    assert pairs(found.documents) == {str(big): "東京", "2": ""}
    assert found.qrels == {"01": {str(big): 1}}
    write_table(pa.table({"id": [1.0], "text": ["a"]}), tmp_path / "documents.parquet")
    with pytest.raises(ValueError, match=r"documents.parquet:1: id is a float \(1.0\); expected text"):
        rg.text.load(tmp_path)


def test_a_folder_of_text_files(tmp_path):
    files = {"b.txt": "B\nb", "a/b.txt.gz": "A", "a/.hidden.txt": "no", "queries.tsv": "q\tb", "qrels.txt": "q 0 a/b 1"}
    found = quietly(write(tmp_path, files))
    assert pairs(found.documents) == {"a/b": "A", "b": "B\nb"}
    assert found.qrels == {"q": {"a/b": 1}}
    write(tmp_path, {"c.zip": b"PK\x03\x04\0", "my file.txt": "C"})
    with pytest.warns(UserWarning, match="are not read"):
        found = rg.text.load(tmp_path)
    assert found.notes == (
        f"Files of {tmp_path} that do not end in .txt are not read: 1, such as 'c.zip'.",
        "Documents have ids with white space, which TREC runs cannot contain: 1, such as 'my file'.",
    )


def test_files_that_are_given_one_by_one(tmp_path):
    write(tmp_path, {"docs.trec": "<DOC><DOCNO>1</DOCNO>a</DOC>", "ask.txt": "q\tname\n", "judged": "q 1 1\n"})
    found = quietly(tmp_path / "docs.trec", queries=tmp_path / "ask.txt", qrels=str(tmp_path / "judged"), name="mine")
    assert repr(found) == "Collection('mine', documents=1, queries=1, labels=1)"
    write(tmp_path, {"odd.jsonl": '{"key": 1.10, "content": "a", "head": "h", "text": "not this"}'})
    found = quietly(tmp_path / "odd.jsonl", columns={"documents": {"id": "key", "text": "content", "title": "head"}})
    assert found.documents == Texts(("1.10",), ("a",), ("h",))  # an id keeps its digits
    assert len(found.queries) == 0


def test_topics(tmp_path):
    topics = """<top>
<num> Number: 301
<title> Topic: International Organized Crime

<desc> Description:
Identify organizations
that participate &amp; act.

<narr> Narrative:
Relevant if p < 0.5 and q > 1.
</top>
<top><num>302</num><title>Polio</title><desc>Post-Polio</desc><narr></narr></top>
<topic number="303" type="x"><query>web</query><description>About the web</description></topic>
"""
    write(tmp_path, {"docs": "<DOC><DOCNO>1</DOCNO>a</DOC>", "t.topics": topics})
    titles = {"301": "International Organized Crime", "302": "Polio", "303": "web"}
    described = {"301": "Identify organizations that participate & act.", "302": "Post-Polio", "303": "About the web"}
    assert pairs(quietly(tmp_path).queries) == titles
    assert pairs(quietly(tmp_path, topic="description").queries) == described
    assert quietly(tmp_path, topic="title+description").queries.texts[1] == "Polio Post-Polio"
    with pytest.raises(ValueError, match=r"t.topics:13: topic '303' has no narrative, only <query>, <description>"):
        rg.text.load(tmp_path, topic="narrative")
    with pytest.raises(ValueError, match="topic must be 'title', 'description', 'narrative' or several"):
        rg.text.load(tmp_path, topic="desc")


def test_trec_documents_keep_text_that_looks_like_a_tag(tmp_path):
    text = "x<y and z>w &lt;b&gt; &hyph; <br/>end<a b='<c>'>"
    document = f"<DOC><DOCNO>1</DOCNO><HL>A</HL><LP>Lead.</LP><TEXT>{text}</TEXT></DOC>"
    found = quietly(write(tmp_path, {"a": document}))
    assert found.documents == Texts(("1",), ("Lead. x<y and z>w <b> - end",), ("A",))


def test_long_fields_and_all_scripts_are_kept(tmp_path):
    text = 'Ελληνικά, "עברית"\n日本語\u2028 😀 ' + "x" * 300_000
    before = csv.field_size_limit()
    with open(tmp_path / "documents.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "text"), ("ø1", text), ("2", "b")])
    write(tmp_path, {"queries.tsv": '\ufeffq1\t"quoted\tword\n'})
    found = quietly(tmp_path)
    assert pairs(found.documents) == {"ø1": text, "2": "b"}
    assert pairs(found.queries) == {"q1": '"quoted\tword'}
    assert csv.field_size_limit() == before


def test_documents_that_are_cut_keep_all_their_text(tmp_path):
    start = "<DOC><DOCNO>1</DOCNO><DATE>2</DATE>"
    for cut, text, title in (
        ("<HL>A</HL><LP>b</LP><TEXT>c <P>d", "b c d", "A"),
        ("<HL>A b<TEXT>c</TEXT>", "2 A b c", ""),
        ("b", "2 b", ""),
    ):
        write(tmp_path, {"a": start + cut})
        found = load_with_note(tmp_path, "is perhaps cut").documents
        assert (found.texts[0], "" if found.titles is None else found.titles[0]) == (text, title)


# SMART

MED = {
    "MED.ALL": ".I 1\n.W\nglucose levels\n.I 2\n.W\nlens of\nvertebrates\n.I 3\n.W\nplasma\n",
    "MED.QRY": ".I 1\n.W\nfatty acids\n.I 2\n.W\nthe lens\n.I 3\n.W\nblood\n",
    "MED.REL": "1 0 1 1\n2 0 2 1\n3 0 3 1\n",
    "MED.REL.OLD": "1 1 1\n",
}
CACM = {
    "cacm.all": ".I 1\n.T\nAlgebraic\nLanguage\n.B\nCACM December, 1958\n.A\nPerlis, A. J.\n.N\nCA581203\n.X\n1\t5\t1\n"
    ".I 2\n.T\nRoots\n.B\nCACM\n.X\n"
    ".I 10\n.T\nSharing\n.W\nTime sharing.\n.B\nCACM\n.A\nPooch, U.\n.K\ntss\n.C\n4.3\n.N\nCA\n.X\n2\t4\t3\n",
    "query.text": ".I 1\n.W\n What about TSS?\n.N\n 1. Rich\n \n.I 2\n.W\n Prieve\n.A\nPrieve, B.\n.N\n 2. Rich\n",
    "qrels.text": "01 0010  0 0\n01 2  0 0\n02 1  0 0\n",
    "cite.info": "1 5\n",
    "common_words": "a\n",
}
CISI = {
    "CISI.ALL.gz": ".I 1\n.T\nDewey\n.A\nComaromi, J.P.\n.A\nOther, B.\n.W\nA history\n.X\n1\t5\t1\n",
    "CISI.QRY": ".I 1\n.W\nWhat problems\n.I 58\n.T\nTitle\n.A\nName\n.W\nText\n.B\n(JASIS, 1970)\n.X\n",
    "CISI.REL": "     1      1\t0\t0.000000\n    58      1\t0\t0.000000\n",
}


@pytest.mark.parametrize(
    ("files", "documents", "asked", "qrels"),
    [
        (MED, {"1": "glucose levels", "2": "lens of vertebrates", "3": "plasma"},
         {"1": "fatty acids", "2": "the lens", "3": "blood"}, {"1": {"1": 1}, "2": {"2": 1}, "3": {"3": 1}}),
        (CACM, {"1": "Algebraic Language", "2": "Roots", "10": "Sharing Time sharing."},
         {"1": "What about TSS?", "2": "Prieve"}, {"1": {"10": 1, "2": 1}, "2": {"1": 1}}),
        (CISI, {"1": "Dewey A history"}, {"1": "What problems", "58": "Text"}, {"1": {"1": 1}, "58": {"1": 1}}),
    ],
    ids=["MED", "CACM", "CISI"],
)  # fmt: skip
def test_collections_of_smart(tmp_path, files, documents, asked, qrels):
    found = quietly(write(tmp_path, files))
    assert {id: found.documents.full(number) for id, number in found.documents.numbers.items()} == documents
    assert pairs(found.queries) == asked
    assert found.qrels == qrels


def test_queries_of_smart_have_the_ids_of_the_file_unless_the_qrels_number_all_by_position(tmp_path):
    first = MED["MED.QRY"].partition(".I 2")[0]
    write(tmp_path, MED | {"MED.QRY": MED["MED.QRY"].removeprefix(first)})
    found = load_with_note(tmp_path, "Some queries of the qrels are not in the collection: 1, such as '1'")
    assert pairs(found.queries) == {"2": "the lens", "3": "blood"}
    write(tmp_path, {"MED.QRY": first + ".I 4\n.W\nthe lens\n.I 8\n.W\nblood\n"})
    found = load_with_note(tmp_path, "but the positions of the queries: the queries are numbered by position")
    assert pairs(found.queries) == {"1": "fatty acids", "2": "the lens", "3": "blood"}
    (tmp_path / "MED.REL").rename(tmp_path / "cranqrel")
    write(tmp_path, {"cranqrel": "1 1 3\n2 2 1\n"})
    with pytest.warns(UserWarning, match="without labels"):  # Cranfield numbers by position, also if some are missing
        assert rg.text.load(tmp_path).queries.ids == ("1", "2", "3")
    write(tmp_path, {"cranqrel": "1 1 3\n4 2 1\n"})
    with pytest.raises(
        ValueError, match=r"MED.QRY: 3 queries, but .*cranqrel numbers them by position and has query '4'"
    ):
        rg.text.load(tmp_path)


# Defects

DOCUMENTS = {"documents.tsv": "d1\ta\nd2\tb\n"}
ASKED = DOCUMENTS | {"queries.tsv": "q\ta\n"}
CUT = "<DOC>\n<DOCNO>1</DOCNO>\na\n</DOC>\n<DOC>\n<DOCNO>2</DOCNO>\nb"
NOTES = [
    (
        {"documents.tsv": "d1\ta\nd1\ta\n"},
        r"id of an earlier document and the same text .*: 1, such as 'd1' \(.*tsv:2\)",
    ),
    ({"documents.tsv": "d1\ta\nd1\tb\nd1\tc\n"}, r"id of an earlier document but a different text .*: 2, such as 'd1'"),
    ({"documents.tsv": b"d1\t\xe9t\xe9 \xef\xbf\xbd"}, r"not valid UTF-8 .*: 2 in \S*s.tsv, the first at \S*s.tsv:1"),
    ({"a.txt": b"\xe9", "b.txt": b"\xe9\xe9"}, r"3 in 2 files, the first at \S*a.txt:1"),
    ({"documents.jsonl": '{"id": 1, "text": "a\\ud800"}'}, r"1 in \S*documents.jsonl"),
    ({"documents.jsonl": '{"id": 1, "text": "a"}\n{"id": 2}'}, r"Documents without text are kept: 1, such as '2'"),
    (DOCUMENTS | {"queries.tsv": "q1\t \n"}, "Queries without text are kept: 1, such as 'q1'"),
    (DOCUMENTS | {"queries.tsv": "q\ta\nq2\tb", "qrels": "q 0 d1 1"}, "without labels .*: 1, such as 'q2'"),
    (
        ASKED | {"qrels": "q 0 d9 1\nq 0 d1 1\n"},
        "documents that are not in the collection: 1, such as 'd9'; they count",
    ),
    (ASKED | {"qrels": "q 0 d1 1\n0q 0 d1 1\n"}, r"not in the collection: 1, such as '0q' \(the collection has 'q'\)"),
    (ASKED | {"qrels": "q 0 d1 1\nq 0 d1 1\nq 0 d1 2\n"}, r"Repeated labels .*: 2 \(.*qrels:3\); 1 of them differ"),
    ({"a": CUT}, r"document that begins at .*a:5 has no </DOC>; the document is read up to the end"),
    ({"a": CUT[:-14]}, r"document that begins at .*a:5 has no </DOC>; the document has no id and is left out"),
    ({"a": CUT + "</DOC>\nlost\n"}, r"Lines outside of <DOC> and </DOC> are not read: 1 \(.*a:8\)"),
    ({"a": CUT + "</DOC>", "b": "x"}, "Files of .* that do not begin with <DOC> are not read: 1, such as 'b'"),
    ({"cran.all.1400": ".I 1\n.T\na\n.W\nb\n.I 2\n.T\nc"}, r"last record, '2', has no .W \(.*cran.all.1400:6\).*cut"),
    (DOCUMENTS | {"t": "<top><num>1</num><title>a"}, r"The topic has no </top>, perhaps because .* \(.*t:1\)"),
    (
        ASKED | {"qrels/test.tsv": "q 0 d1 1", "qrels/dev.tsv": "q 0 d1 1"},
        "test.tsv are read, .*: 1, such as 'dev.tsv'",
    ),
]


def names(value):
    return "-".join(value) if isinstance(value, dict) else ""


@pytest.mark.parametrize(("files", "note"), NOTES, ids=names)
def test_each_defect_is_one_note(tmp_path, files, note):
    found = load_with_note(write(tmp_path, files), note)
    assert len(found.documents) > 0


def test_first_of_repeated_ids_is_kept_and_unknown_ids_stay_in_the_qrels(tmp_path):
    files = {"documents.tsv": "d1\ta\nd1\tb\n", "queries.tsv": "q\ta\n", "qrels": "q 0 d9 1\np 0 d1 1\n"}
    with pytest.warns(UserWarning, match="different text"):
        found = rg.text.load(write(tmp_path, files))
    assert pairs(found.documents) == {"d1": "a"}
    assert found.qrels == {"q": {"d9": 1}, "p": {"d1": 1}}
    assert len(found.notes) == 3


ERRORS = [
    ({}, "no documents; expected files of SMART"),
    ({"documents.tsv": ""}, "documents.tsv:1: no id in the columns"),
    ({"documents.jsonl": '{"id": 1, "text": "a"}\n{"id": 2, "te'}, r"documents.jsonl:2: not JSON .*\(is the file"),
    ({"documents.jsonl": '{"id": 1, "text": "a"}\n{"text": "a"}'}, "documents.jsonl:2: a document has no id"),
    ({"documents.jsonl": "[1]"}, "documents.jsonl:1: a JSON list; expected one JSON object per line"),
    ({"documents.jsonl": '{"id": 1, "text": ["a"]}'}, "documents.jsonl:1: text is a list"),
    (
        {"documents.jsonl": '{"key": 1, "text": "a"}'},
        "documents.jsonl:1: no id in the columns 'key', 'text'; .*`columns`",
    ),
    ({"documents.csv": 'id,text\n1,"a\nb"\n2,"c'}, r"documents.csv:4: not a row of a table \(unexpected end"),
    ({"documents.csv": "id,text\n\n1,a,b"}, "documents.csv:3: 3 columns; expected 2, as in the header"),
    (
        {"documents.csv": "id,text\n1,a", "documents.tsv": "1\ta"},
        r"2 files of documents \(documents.csv, documents.tsv\)",
    ),
    ({"documents.tsv": "1\ta\n2"}, "documents.tsv:2: no tab in the line '2'; expected id<TAB>text"),
    ({"documents.tsv": "1\ta\n\tb"}, "documents.tsv:2: a document has no id"),
    ({"documents.parquet": "PAR1"}, "documents.parquet: not a Parquet file"),
    ({"documents.tsv": b"\xff\xfea\0"}, "documents.tsv: UTF-16 text; expected UTF-8 text"),
    ({"a": "<DOC>\n<DOCNO>1</DOCNO>\n<DOC>\n"}, "a:3: <DOC> before the </DOC> of the document that begins in line 1"),
    ({"a": "<DOC>\n</DOC>\n</DOC>"}, "a:1: a document without <DOCNO>"),
    ({"a": "<DOC><DOCNO>1</DOCNO></DOC></DOC>"}, "a:1: </DOC> without <DOC>"),
    ({"a": "<DOC><DOCNO>1</DOCNO></DOC>", "b.Z": b"\x1f\x9d\x90"}, r"b.Z: data of compress .* run `gzip -dc"),
    ({"a.trec": b"\x1f\x8b" + b"\0" * 30}, "a.trec:1: the gzip data ends early or is damaged"),
    (DOCUMENTS | {"queries.a.tsv": "q\ta", "queries.b.tsv": "q\ta"}, "2 files of queries .* `queries`"),
    (DOCUMENTS | {"qrels": "q 0 d1 1\nq 0 d2"}, "qrels:2: 3 columns; expected 4"),
    (DOCUMENTS | {"qrels": "q 0 d1 0.5\n"}, "qrels:1: the label '0.5'; expected an integer"),
    (ASKED | {"qrels": "q 0 d1 0\nq 0 d2 -1\n"}, "qrels: no label above 0; expected `query iteration document label`"),
    (ASKED | {"qrels": "1 0 d1 1\n"}, "qrels: no query of the collection, only ids such as '1'; .* such as 'q'"),
    (ASKED | {"qrels": "q d1 7 1\n"}, "qrels: no document of the collection, only ids such as '7'; .* such as 'd1'"),
    (DOCUMENTS | {"qrels": "\n"}, "qrels: no labels; expected lines of `query iteration document label`"),
    (DOCUMENTS | {"t": "<top><title>a</top>"}, "t:1: a topic without a number"),
]


@pytest.mark.parametrize(("files", "error"), ERRORS, ids=names)
def test_errors_name_the_file_the_line_and_the_fix(tmp_path, files, error):
    with pytest.raises(ValueError, match=error):
        rg.text.load(write(tmp_path, files))


def test_labels_in_the_folder_of_an_index_were_checked_before(tmp_path):
    """Indexes of older versions are loaded, also if their labels are of no use."""
    write(tmp_path, {f"collection/{name}": text for name, text in ASKED.items()})
    write(tmp_path, {"collection/qrels.txt": "q 0 d1 0\nq 0 d2 0\n", "index.json": "{}"})
    assert rg.text.load(tmp_path).qrels == {"q": {"d1": 0, "d2": 0}}


def test_a_cut_gzip_file_is_an_error(tmp_path):
    text = "".join(f"d{number}\t{hash(str(number))}\n" for number in range(2000))
    (tmp_path / "documents.tsv.gz").write_bytes(gzip.compress(text.encode())[:-2000])
    with pytest.raises(ValueError, match=r"documents.tsv.gz:\d+: the gzip data ends early"):
        rg.text.load(tmp_path)


def test_errors_of_options(tmp_path):
    write(tmp_path, DOCUMENTS)
    for options, error in (
        ({"similar": "drop"}, "similar must be one of 'exclude', 'relevant'; got 'drop'"),
        ({"encoding": "utf8x"}, "encoding must be an encoding that Python knows"),
        ({"encoding": "utf-16"}, "and that contains ASCII, such as 'utf-8' or 'latin-1'; got 'utf-16'"),
        ({"columns": {"documents": {"key": "x"}}}, "columns must be a dictionary per table"),
        (
            {"columns": {"documents": {"id": "x"}}},
            "documents.tsv:1: no id in the columns 'd1', 'a'; expected a column 'x'",
        ),
    ):
        with pytest.raises(ValueError, match=error):
            rg.text.load(tmp_path, **options)
    with pytest.raises(TypeError, match="queries must be the path of a file; got dict"):
        rg.text.load(tmp_path, queries={"q": "a"})
    with pytest.raises(FileNotFoundError, match="absent: no such file or folder; expected files of SMART"):
        rg.text.load(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="absent: no such file"):
        rg.text.load(tmp_path, qrels=tmp_path / "absent")


def test_encoding(tmp_path):
    write(tmp_path, {"documents.tsv": "d1\tété\n".encode("latin-1")})
    assert quietly(tmp_path, encoding="latin-1").documents.texts == ("été",)


# Saving


def test_saved_collections_are_loaded_without_a_change(tmp_path):
    texts = Texts(("007", "ø"), ("a\r\n\tb\u2028", "😀"), ("", "עברית"))
    made = Collection(
        texts, Texts(("q", "p"), ("a", "b")), {"q": {"007": 2}, "p": {"ø": -1}}, {"p": frozenset({"007"})}, "set"
    )
    made.save(tmp_path / "set")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "documents.jsonl", "excluded.txt", "qrels.txt", "queries.jsonl",
    ]  # fmt: skip
    assert json.loads((tmp_path / "set/documents.jsonl").read_text().split("\n")[1])["title"] == "עברית"
    assert quietly(tmp_path / "set") == Collection.load(tmp_path / "set", "set") == made
    Collection(texts, Texts((), ())).save(tmp_path / "set")  # earlier files are removed
    assert quietly(tmp_path / "set") == Collection.load(tmp_path / "set", "set") == Collection(texts, {}, name="set")
    for harm in ("x", '{"id": "a"}', '{"id": 1, "text": "a"}', "[]"):
        (tmp_path / "set/documents.jsonl").write_text(harm)
        with pytest.raises(ValueError, match=r"documents.jsonl must be texts that rankgrad wrote; got the error"):
            Collection.load(tmp_path / "set")


# ir_datasets

Document = collections.namedtuple("Document", "doc_id title body")
Bare = collections.namedtuple("Bare", "doc_id url")
Bare.default_text = lambda self: f"at {self.url}"
Topic = collections.namedtuple("Topic", "query_id title description")
Query = collections.namedtuple("Query", "query_id text")
Label = collections.namedtuple("Label", "query_id doc_id relevance iteration")


class Dataset:
    """The methods of a data set of ir_datasets that the adapter calls."""

    def __init__(self, docs, queries, qrels):
        self.docs_iter, self.queries_iter, self.qrels_iter = (
            lambda rows=rows: iter(rows) for rows in (docs, queries, qrels)
        )
        self.has_queries, self.has_qrels = lambda: bool(queries), lambda: bool(qrels)


def test_fields_of_ir_datasets():
    data = Dataset([Document("1", "t", "b"), Bare("2", "u")], [Topic("1", "a", "b c"), Topic("2", "", "d")],
                   [Label("1", "1", 2, "s1"), Label("1", "1", 0, "s2"), Label("1", "2", -1, "0")])  # fmt: skip
    assert [record[:3] for record in adapter.documents(data)] == [("1", "b", "t"), ("2", "at u", None)]
    assert [record[:2] for record in adapter.queries(data, ("title", "description"))] == [("1", "a b c"), ("2", "d")]
    assert adapter.qrels(data) == {"1": {"1": 2, "2": -1}}
    plain = Dataset([], [Query("1", "a")], [])
    assert next(adapter.queries(plain, ("title",))).text == "a"
    assert adapter.qrels(plain) == {}
    with pytest.raises(ValueError, match=r"topic must be a field of the queries \(query_id, text\); got 'narrative'"):
        list(adapter.queries(plain, ("narrative",)))


def test_ir_datasets_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
    with pytest.raises(ModuleNotFoundError, match="ir_datasets:vaswani needs ir_datasets: pip install ir_datasets"):
        rg.text.load("ir_datasets:vaswani")


def test_ir_datasets_that_is_installed(tmp_path):
    package = pytest.importorskip("ir_datasets")
    write(tmp_path, {"docs.tsv": "1\ta\n2\tb\n", "queries.tsv": "q\tc\n", "qrels": "q 0 2 1\n"})
    if "rankgrad-small" not in package.registry:
        package.registry.register(
            "rankgrad-small",
            package.create_dataset(*(str(tmp_path / name) for name in ("docs.tsv", "queries.tsv", "qrels"))),
        )
    found = quietly("ir_datasets:rankgrad-small")
    assert repr(found) == "Collection('rankgrad-small', documents=2, queries=1, labels=1)"
    assert pairs(found.documents) == {"1": "a", "2": "b"}
    with pytest.raises(
        ValueError, match=r"source must be a data set that ir_datasets knows .*; got 'ir_datasets:absent'"
    ):
        rg.text.load("ir_datasets:absent")
