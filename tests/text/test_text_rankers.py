"""Bi-encoders and cross-encoders: scores, passages, exact chunks, training, resuming, and files of Hugging Face."""

import dataclasses

import numpy as np
import pytest
import torch
from tiny_collection import WORDS, tiny_collection
from tiny_encoder import tiny_encoder

import rankgrad as rg
from rankgrad.text import TextSettings
from rankgrad.text.bi_encoder import BiEncoder
from rankgrad.text.cross_encoder import CrossEncoder
from rankgrad.text.encoder_seal import SEAL
from rankgrad.text.list_sampling import training_steps
from rankgrad.text.network_from_settings import build_network
from rankgrad.text.training import parameter_groups
from rankgrad.training import SettingsError

KINDS = {"bi_encoder": rg.text.BiEncoderRanker, "cross_encoder": rg.text.CrossEncoderRanker}
QUICK = {"epochs": 2, "batch_size": 4, "list_size": 6, "lr": 1e-3, "max_length": 32, "chunk": 8, "device": "cpu"}
LONG = " ".join(WORDS.split() * 20)  # 400 words


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    words = f"{WORDS} what is a study number самолёт"
    return str(tiny_encoder(tmp_path_factory.mktemp("encoder"), words=words, positions=64))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    collection = rg.text.load(tiny_collection(tmp_path_factory.mktemp("collection")))
    run = rg.text.BM25Index.build(collection.documents).search(collection.queries, k=12)
    return rg.text.candidate_lists(collection, run, add_relevant=True)


@pytest.fixture(scope="module")
def odd():
    """Documents that break careless code: a long one, an empty one, another script."""
    documents = rg.text.Texts(tuple("abcd"), (LONG, "wing flap", "", "самолёт"))
    return rg.text.Collection(documents, rg.text.Texts(("1", "2"), ("wing", LONG)))


PAIRS = np.array([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [0, 0]])


@pytest.mark.parametrize("passages", ["first", "mean", "best"])
@pytest.mark.parametrize("kind", [BiEncoder, CrossEncoder])
def test_scores_do_not_depend_on_chunks_order_or_company(encoder, odd, kind, passages):
    torch.manual_seed(0)
    network = kind(encoder, passages=passages, chunk=100, max_length=24).use(odd).eval()
    with torch.no_grad():
        scores = network(PAIRS)
        alone = torch.cat([network(PAIRS[row : row + 1]) for row in range(len(PAIRS))])
        network.chunk = 2
        in_chunks = network(PAIRS)
        backwards = network(PAIRS[::-1]).flip(0)
    texts = [odd.texts_of(*pair) for pair in PAIRS.tolist()]
    given = network.score_texts([query for query, _ in texts], [document for _, document in texts])
    assert torch.isfinite(scores).all()
    torch.testing.assert_close(scores[0], scores[-1])
    for other in (alone, in_chunks, backwards, given, torch.from_numpy(network.score_pairs(PAIRS))):
        torch.testing.assert_close(other, scores, atol=1e-4, rtol=1e-4)


def test_passages_are_those_of_the_paper(encoder, odd):
    """Documents are cut, and split into equal parts that fit; [CLS] vectors are averaged before the head."""
    torch.manual_seed(0)
    network = CrossEncoder(encoder, passages="mean", max_document=50, max_length=32).use(odd).eval()
    inputs = network.tokeniser.pairs(["wing"], [LONG])[0]
    lengths = [len(each.ids) - 4 for each in inputs]  # without [CLS], the word of the query and two [SEP]
    assert lengths == [25, 25]
    with torch.no_grad():
        hidden = [network.body(**network.tokeniser.batch([each])).last_hidden_state[:, 0] for each in inputs]
        pooled = network.model.bert.pooler(torch.stack(hidden).mean(0)[:, None])
        expected = network.model.classifier(pooled)[:, 0]
        torch.testing.assert_close(network(np.array([[0, 0]])), expected, atol=1e-5, rtol=1e-5)


def test_the_best_passage_gives_the_score_and_gets_the_gradient(encoder, odd):
    torch.manual_seed(0)
    network = CrossEncoder(encoder, passages="best", max_length=24).use(odd).eval()
    inputs = network.tokeniser.pairs(["wing"], [LONG])[0]
    each = network.run(inputs)
    assert len(inputs) > 10
    score = network(np.array([[0, 0]]))[0]
    assert score.item() == pytest.approx(each.max().item(), abs=1e-5)
    found = torch.autograd.grad(score, network.model.classifier.weight)[0]
    expected = torch.autograd.grad(each.max(), network.model.classifier.weight)[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_all_chunks_in_one_graph_also_with_checkpointed_layers(encoder, data, kind, monkeypatch):
    from rankgrad.text import network as module

    torch.manual_seed(0)
    network = build_network(TextSettings(model=kind, encoder=encoder, chunk=5, max_length=32)).use(data.texts).train()
    pairs, labels = data.features[:40, :2].astype(np.int64), torch.from_numpy(data.labels[:40])

    def gradient():
        network.zero_grad()
        torch.manual_seed(1)
        rg.losses.lambdaloss(network(pairs), labels, k=10).backward()
        return torch.cat([each.grad.flatten() for each in network.parameters() if each.grad is not None])

    found = [gradient()]
    network.checkpoint_layers()
    assert network.body.is_gradient_checkpointing
    found.append(gradient())
    monkeypatch.setattr(module, "chunked", lambda run, chunks, device: torch.cat([run(each) for each in chunks]))
    plain = gradient()
    assert plain.norm() > 0
    assert all((ours - plain).norm() <= 1e-5 * plain.norm() for ours in found)
    with pytest.raises(ValueError, match="checkpointing must be False for an encoder without layers"):
        BiEncoder(f"static:{encoder}").checkpoint_layers()


@pytest.mark.parametrize("kind", KINDS)
def test_training_finds_the_relevant_documents_and_resumes_to_the_same_bytes(encoder, data, kind, tmp_path):
    part = rg.text.folds(data, 1)
    settings = {**QUICK, "loss": "learndcg", "loss_lr": 0.01, "head_lr": 0.01, "epochs": 4, "warmup": 1, "clip": None}
    whole = KINDS[kind](encoder, **settings).fit(part.train, part.validation, out=tmp_path / "a")
    stop = KINDS[kind](encoder, **settings)
    stop.fit(part.train, part.validation, out=tmp_path / "b", callbacks=lambda row: row["epoch"] == 2)
    again = KINDS[kind](encoder, **settings).fit(part.train, part.validation, out=tmp_path / "b", resume=True)
    history = [{key: row[key] for key in row if "seconds" not in key} for row in whole.model_.history]
    assert history == [{key: row[key] for key in row if "seconds" not in key} for row in again.model_.history]
    assert np.array_equal(whole.predict(data), again.predict(data))
    for file in ("encoder/model.safetensors", "metrics.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    loaded = KINDS[kind].load(tmp_path / "b", device="cpu")
    assert np.array_equal(loaded.predict(data), again.predict(data))
    assert rg.models.load(tmp_path / "b").metrics["epoch"] == again.model_.kept
    assert history[-1]["loss"] < history[0]["loss"]
    assert history[-1]["alpha"] != history[0]["alpha"]  # LearnDCG's temperature is trained


def test_a_started_model_is_the_start(encoder, data, tmp_path):
    first = rg.text.CrossEncoderRanker(encoder, **QUICK).fit(data.take(slice(4)))
    second = rg.text.CrossEncoderRanker(encoder, **{**QUICK, "lr": 1e-12, "epochs": 1, "weight_decay": 0.0})
    second.fit(data.take(slice(4)), init_model=first)
    assert np.allclose(second.predict(data), first.predict(data), atol=1e-4)


def test_accumulated_batches_are_one_step(encoder, data):
    """Two batches of four lists give the same update as one batch of eight, without dropout."""
    plain = {**QUICK, "epochs": 1, "list_size": None, "optimiser": "sgd", "lr": 0.1, "clip": None, "weight_decay": 0.0}
    lists = data.take(slice(8))

    def scores(**settings):
        ranker = rg.text.BiEncoderRanker(encoder, **{**plain, **settings})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.Dropout, "forward", lambda self, rows: rows)
            patch.setattr(torch.nn.functional, "scaled_dot_product_attention", _without_dropout(torch.nn.functional))
            return ranker.fit(lists).predict(data)

    one = scores(batch_size=8)
    assert np.allclose(scores(batch_size=4, accumulation=2), one, atol=1e-3)
    assert not np.allclose(scores(batch_size=4), one, atol=1e-3)


def _without_dropout(functional):
    attention = functional.scaled_dot_product_attention
    return lambda *given, dropout_p=0.0, **options: attention(*given, dropout_p=0.0, **options)


def test_learning_rates_and_decay_of_encoder_head_and_loss(encoder):
    settings = TextSettings(model="cross_encoder", encoder=encoder, lr=1e-5, head_lr=1e-3, loss_lr=0.1, loss="learndcg")
    network, loss = build_network(settings), rg.losses.LearnDCG()
    groups = parameter_groups(network, loss, settings)
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [
        (1e-5, 0.01), (1e-5, 0.0), (1e-3, 0.01), (1e-3, 0.0), (0.1, 0.0)
    ]  # fmt: skip
    counted = sum(parameter.numel() for group in groups for parameter in group["params"])
    assert counted == sum(each.numel() for module in (network, loss) for each in module.parameters())
    assert {id(each) for each in network.head_parameters()} == {
        id(each) for each in network.model.classifier.parameters()
    }


def test_files_are_those_of_hugging_face(encoder, data, tmp_path):
    from sentence_transformers import CrossEncoder as TheirCross
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoModelForSequenceClassification

    texts = ["wing flap", "heat slab самолёт"]
    for name, given in (("bi", encoder), ("static", f"static:{encoder}")):
        ranker = rg.text.BiEncoderRanker(given, **QUICK).fit(data.take(slice(4)))
        ranker.save(tmp_path / name)
        theirs = SentenceTransformer(str(tmp_path / name / "encoder"), device="cpu").encode(texts)
        assert np.allclose(theirs, ranker.encode(texts), atol=1e-5)
        assert np.allclose(rg.text.BiEncoderRanker.load(tmp_path / name).encode(texts), ranker.encode(texts), atol=1e-6)
    assert AutoModel.from_pretrained(tmp_path / "bi" / "encoder").config.hidden_size == 32
    cross = rg.text.CrossEncoderRanker(encoder, **QUICK).fit(data.take(slice(4)))
    cross.save(tmp_path / "cross")
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "cross" / "encoder")
    model = TheirCross(str(tmp_path / "cross" / "encoder"), device="cpu", max_length=32)
    scores = model.predict([("wing", text) for text in texts], activation_fn=torch.nn.Identity())
    assert np.allclose(scores, cross.score_texts("wing", texts), atol=1e-5)
    with pytest.raises(TypeError, match="documents must be a list of texts; got one text"):
        cross.score_texts("wing", texts[0])
    with pytest.raises(TypeError, match="texts must be a list of texts; got one text"):
        ranker.encode(texts[0])


def test_an_interrupted_save_leaves_a_whole_model(encoder, data, tmp_path):
    ranker = rg.text.BiEncoderRanker(encoder, **QUICK)
    ranker.save(tmp_path / "a")
    expected = rg.text.BiEncoderRanker.load(tmp_path / "a").predict(data)
    folder = tmp_path / "a" / "encoder"
    for names in (("encoder.old",), ("encoder.new",)):  # killed between two renames, and after the first
        folder.rename(tmp_path / "a" / names[0])
        assert np.array_equal(rg.text.BiEncoderRanker.load(tmp_path / "a").predict(data), expected)
    (tmp_path / "a" / "encoder.new").mkdir()  # an incomplete copy is not used
    assert np.array_equal(rg.text.BiEncoderRanker.load(tmp_path / "a").predict(data), expected)


def test_training_on_a_resumed_run_with_other_settings_is_refused(encoder, data, tmp_path):
    rg.text.BiEncoderRanker(encoder, **QUICK).fit(data.take(slice(4)), out=tmp_path / "a")
    with pytest.raises(ValueError, match=r"lr must be 0\.001, to resume"):
        rg.text.BiEncoderRanker(encoder, **{**QUICK, "lr": 1e-4}).fit(
            data.take(slice(4)), out=tmp_path / "a", resume=True
        )
    with pytest.raises(ValueError, match="data must equal the data of the run"):
        rg.text.BiEncoderRanker(encoder, **QUICK).fit(data.take(slice(5)), out=tmp_path / "a", resume=True)
    with pytest.raises(ValueError, match="be a new folder, unless the run is resumed"):
        rg.text.BiEncoderRanker(encoder, **QUICK).fit(data.take(slice(4)), out=tmp_path / "a")


def test_complaints(encoder, data, tmp_path):
    with pytest.raises(SettingsError) as found:
        rg.text.BiEncoderRanker(tmp_path, loss="sofmax", sampling="all", chunk=0, list_size=1, precision="fp8").fit(
            data
        )
    lines = str(found.value).splitlines()
    assert len(lines) == 6
    assert any("got 'sofmax'; did you mean" in line and "softmax" in line for line in lines)
    with pytest.raises(ValueError, match=r"'tempreature'.*did you mean 'temperature'"):
        rg.text.BiEncoderRanker(encoder, tempreature=1)
    with pytest.raises(ValueError, match="whose head would be random"):
        rg.text.CrossEncoderRanker(encoder).predict(data)
    plain = rg.data.load("synthetic:lists=4").train
    with pytest.raises(ValueError, match="data must be a text data set"):
        rg.text.BiEncoderRanker(encoder, **QUICK).fit(plain)
    heavy = dataclasses.replace(data, weights=np.ones(len(data.labels), np.float32))
    with pytest.raises(ValueError, match="weights must be None for neural_ndcg, which takes no weights"):
        rg.text.BiEncoderRanker(encoder, **{**QUICK, "loss": "neural_ndcg"}).fit(heavy)
    rg.text.BiEncoderRanker(encoder).save(tmp_path / "a")
    with pytest.raises(ValueError, match="contain a cross_encoder; got bi_encoder"):
        rg.text.CrossEncoderRanker.load(tmp_path / "a")


@pytest.mark.parametrize("sampling", ["relevant", "pairs", "random"])
def test_sampled_lists(sampling):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(0, 2, offsets[-1]) * (rng.random(offsets[-1]) < 0.4) * rng.integers(1, 4, offsets[-1])
    options = {"batch_size": 7, "list_size": 8, "sampling": sampling, "seed": 3}
    steps = training_steps(labels, offsets, epoch=1, **options)
    again = training_steps(labels, offsets, epoch=1, **options)
    other = training_steps(labels, offsets, epoch=2, **options)
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(steps, again, strict=True))
    assert any(not np.array_equal(a.rows, b.rows) for a, b in zip(steps, other, strict=False))
    seen = []
    for step in steps:
        for number, start, end in zip(step.lists, step.offsets[:-1], step.offsets[1:], strict=True):
            rows, whole = step.rows[start:end], labels[offsets[number] : offsets[number + 1]]
            assert len(set(rows)) == len(rows) <= 8
            assert (rows >= offsets[number]).all()
            assert (rows < offsets[number + 1]).all()
            relevant, others = (labels[rows] > 0).sum(), (labels[rows] == 0).sum()
            if sampling == "relevant":
                assert len(rows) == min(8, len(whole))
                assert relevant >= min(4, (whole > 0).sum())
            if sampling == "pairs":
                assert relevant == others or others == 0
            seen.append(number)
    assert len(seen) == len(set(seen))
    useful = [place for place in range(40) if len({*labels[offsets[place] : offsets[place + 1]].tolist()}) > 1]
    assert set(useful) >= set(seen)


def test_pseudo_queries_are_parts_of_documents():
    texts = ("one two three four five six seven eight nine ten eleven twelve thirteen", "short text")
    collection = rg.text.Collection(rg.text.Texts(("a", "b"), texts), rg.text.Texts((), ()))
    made = rg.text.pseudo_queries(collection, words=(3, 5))
    assert made.queries.ids == ("a",)
    assert made.queries.texts[0] in texts[0]
    assert sorted([*made.queries.texts[0].split(), *made.documents.texts[0].split()]) == sorted(texts[0].split())
    assert made.documents.texts[1] == "short text"
    kept = rg.text.pseudo_queries(collection, words=(3, 5), remove=False)
    assert kept.documents.texts == texts
    assert kept.queries.texts == made.queries.texts
    with pytest.raises(ValueError, match="'span' or 'auto' for documents without titles"):
        rg.text.pseudo_queries(collection, source="title")
    titled = rg.text.Texts(("a", "b"), ("body one", "body two"), titles=("Wing", "Heat"))
    one = rg.text.pseudo_queries(rg.text.Collection(titled, {}), number=1)
    assert sum(one.documents.full(place) == titled.full(place) for place in (0, 1)) == 1


def test_teacher_labels_keep_the_differences_of_scores(data):
    scores = np.random.default_rng(0).normal(size=len(data.labels)) * 5 - 3
    taught = rg.text.teacher_labels(data, scores, temperature=2.0)
    first = slice(int(data.offsets[1]), int(data.offsets[2]))
    assert np.allclose(np.diff(taught.labels[first]), np.diff(scores[first]) / 2, atol=1e-5)
    assert taught.labels[first].min() == 0
    scaled = rg.text.teacher_labels(data, scores, standardise="zscore")
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        assert scaled.labels[start:end].std() == pytest.approx(1, abs=1e-4)
    with pytest.raises(ValueError, match="scores must be finite"):
        rg.text.teacher_labels(data, np.full(len(scores), np.nan))


def test_an_order_gives_labels(data):
    query, documents = str(data.qids[0]), data.docids[: data.offsets[1]].tolist()
    ordered = rg.text.labels_from_order(data, {query: [documents[2], documents[0]]})
    assert ordered.labels[:3].tolist() == [1.0, 0.0, 2.0]
    assert not ordered.labels[int(data.offsets[1]) :].any()


def test_a_student_learns_the_order_of_its_teacher(encoder, data):
    teacher = rg.text.BiEncoderRanker(encoder, **QUICK)
    taught = rg.text.teacher_labels(data, teacher.predict(data), standardise="zscore")
    static = {**QUICK, "lr": 0.03, "epochs": 8, "list_size": None}
    student = rg.text.BiEncoderRanker(f"static:{encoder}", loss="listnet:targets=softmax", **static)

    def agreement():
        pairs = zip(data.offsets[:-1], data.offsets[1:], strict=True)
        scores = student.predict(data)
        return np.mean([np.corrcoef(scores[a:b], taught.labels[a:b])[0, 1] for a, b in pairs])

    before = agreement()
    student.fit(taught)
    assert agreement() > max(before, 0.9)


@pytest.mark.parametrize("kind", KINDS)
def test_training_in_bf16_stops_when_the_metric_does_not_improve(encoder, data, kind):
    part = rg.text.folds(data, 1)
    settings = {**QUICK, "epochs": 9, "patience": 1, "precision": "bf16", "lr": 1e-9, "checkpointing": True}
    model = KINDS[kind](encoder, **settings).fit(part.train, part.validation).model_
    assert len(model.history) == 2  # with such a learning rate, the second epoch is not better
    assert model.metrics["epoch"] == 1
    assert {parameter.dtype for parameter in model.network.parameters()} == {torch.float32}
    assert np.isfinite(model.score_lists(data)).all()


def test_importance_of_a_text_ranker_is_that_of_its_texts(encoder, data):
    model = rg.text.BiEncoderRanker(encoder, **{**QUICK, "epochs": 1}).fit(data).model_
    found = model.feature_importance(data, repeats=1)
    assert found.names[:2] == ("query", "document")
    assert found.values[:2].all()
    assert not found.values[2:].any()  # the scores of the first stage are not used
    assert found.baseline == pytest.approx(model.evaluate(data, "nDCG@10")["nDCG@10"])
    with pytest.raises(ValueError, match="model must be of a kind that can compute contributions; got TextModel"):
        model.explain(data, data.qids[0])


def written(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_pooling_and_prompts_are_those_of_sentence_transformers(encoder, tmp_path):
    import json

    from sentence_transformers import SentenceTransformer

    texts = ["wing flap", "heat"]
    kept = rg.text.BiEncoderRanker(encoder, **QUICK)
    kept.save(tmp_path)
    folder = tmp_path / "encoder"
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    prompts = {"query": "what is a ", "document": "study number "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    (folder / SEAL).unlink()
    ours, theirs = rg.text.BiEncoderRanker(folder, **QUICK), SentenceTransformer(str(folder), device="cpu")
    assert np.allclose(ours.encode(texts, documents=False), theirs.encode(texts, prompt_name="query"), atol=1e-5)
    assert np.allclose(ours.encode(texts), theirs.encode(texts, prompt_name="document"), atol=1e-5)
    ours.save(tmp_path / "again")
    again = rg.text.BiEncoderRanker.load(tmp_path / "again", device="cpu")
    assert np.array_equal(again.encode(texts), ours.encode(texts))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "lasttoken"}))
    with pytest.raises(ValueError, match=r"encoder must pool by mean or by \[CLS\]; got .* with pooling lasttoken"):
        rg.text.BiEncoderRanker(folder, **QUICK).fitted()
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="with a module Dense"):
        rg.text.BiEncoderRanker(folder, **QUICK).fitted()


def test_other_architectures(encoder, odd, tmp_path):
    """RoBERTa's positions, one token type, decoders without a padding token, ALBERT's pooler, new heads."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    small = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    small |= {"intermediate_size": 32}
    roberta = transformers.RobertaConfig(**small, max_position_embeddings=34, type_vocab_size=1, pad_token_id=0)
    tokenizer.model_max_length = 10_000
    folder = written(tmp_path / "roberta", transformers.RobertaModel(roberta), tokenizer)
    for passages in ("first", "mean"):
        network = CrossEncoder(folder, max_length=64, passages=passages).use(odd).eval()
        assert network.tokeniser.max_length == 33
        assert network.new
        assert torch.isfinite(network(PAIRS)).all()
    albert = transformers.AlbertConfig(**small, embedding_size=16, max_position_embeddings=64)
    folder = written(tmp_path / "albert", transformers.AlbertModel(albert), tokenizer)
    assert torch.isfinite(CrossEncoder(folder, passages="best").use(odd).eval()(PAIRS)).all()
    with pytest.raises(ValueError, match="passages must be 'first' or 'best', because the head of this encoder cannot"):
        CrossEncoder(folder, passages="mean")
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    llama = transformers.LlamaConfig(**small, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=3)
    folder = written(tmp_path / "llama", transformers.LlamaModel(llama), tokenizer)
    network = CrossEncoder(folder, max_length=32).use(odd).eval()
    with torch.no_grad():
        together, alone = network(PAIRS), torch.cat([network(PAIRS[row : row + 1]) for row in range(len(PAIRS))])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    tokenizer.eos_token = None
    folder = written(tmp_path / "none", transformers.LlamaModel(llama), tokenizer)
    with pytest.raises(ValueError, match="a tokenizer with a padding token or an end token"):
        CrossEncoder(folder)


def test_the_cache_of_tokens_is_limited(encoder, odd, monkeypatch):
    from rankgrad.text import token_inputs

    monkeypatch.setattr(token_inputs, "_LARGEST_CACHE", 2000)
    for kind in (BiEncoder, CrossEncoder):
        torch.manual_seed(0)
        network = kind(encoder, max_length=24).use(odd).eval()
        with torch.no_grad():
            assert torch.equal(network(PAIRS), network(PAIRS))
        assert 0 < network._cache.size <= 2000
        assert len(network._cache) < len(PAIRS) - 1


def test_nothing_to_score_and_nothing_to_learn(encoder, data):
    for kind in KINDS.values():
        ranker = kind(encoder, **QUICK).fit(data.take(slice(4)))
        assert ranker.predict(data.take(slice(0))).shape == (0,)
        with pytest.raises(ValueError, match="data must contain a list whose labels differ; got none in 0 lists"):
            kind(encoder, **QUICK).fit(data.take(slice(0)))
