"""Every loss in the trainer of sentence-transformers: values, exact gradients in chunks, learned losses, odd lists."""

import copy
import importlib.util
import math
import os

import pytest
import torch
from saved_floats import most_saved
from tiny_encoder import tiny_encoder

from rankgrad import losses
from rankgrad.text.losses import ListwiseLoss

MISSING = [name for name in ("sentence_transformers", "datasets", "accelerate") if not importlib.util.find_spec(name)]
DEVICE = os.environ.get("RANKGRAD_TEST_DEVICE", "cpu")
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
    pytest.mark.skipif(DEVICE != "cpu", reason="the trainer is told to use the CPU"),
]

# A list with three grades, a list of one document, a list without a relevant document, and a longer list.
ROWS = {
    "query": [
        "what similarity laws must be obeyed for aeroelastic models of heated wings",
        "how does a propeller slipstream change the lift of a wing",
        "heat conduction in a slab of two layers",
        "buckling of thin cylindrical shells under axial pressure",
    ],
    "docs": [
        [
            "Similarity laws for heated wings are derived; a model obeys them if its material is chosen.",
            "Lift.",
            "Aeroelastic problems of flight at high speed, and models that obey some of the laws.",
        ],
        ["An experimental study of a wing in a propeller slipstream was made to find the change of lift."],
        [
            "The boundary layer in shear flow past a flat plate.",
            "Skin friction.",
            "A simple shear flow.",
            "Drag of cones.",
        ],
        [
            "Thin shells.",
            "Axial pressure and buckling of cylindrical shells: tests, and a theory of large deflections.",
            "A note on the stability of a wing.",
            "Creep buckling of columns.",
            "Thin cylindrical shells buckle under axial pressure at a third of the load of the classical theory.",
            "Heat conduction.",
        ],
    ],
    "labels": [[2, 0, 1], [1], [0, 0, 0, 0], [0, 2, 0, 1, 3, 0]],
}
# Losses that need an option.
SPECS = {"rmse": "rmse:levels=4", "approx_precision": "approx_precision@3", "smooth_precision": "smooth_precision@3"}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    from sentence_transformers import CrossEncoder

    words = [*ROWS["query"], *(text for texts in ROWS["docs"] for text in texts)]
    folder = tiny_encoder(tmp_path_factory.mktemp("encoder"), words=words)
    torch.manual_seed(1)  # the head is new
    return CrossEncoder(str(folder), num_labels=1, device="cpu")


@pytest.fixture
def model(untrained):
    return copy.deepcopy(untrained).train()


@pytest.fixture
def trainer(tmp_path):
    from datasets import Dataset
    from sentence_transformers import CrossEncoderTrainer, CrossEncoderTrainingArguments

    def make(loss, rows=ROWS, evaluated=None, callbacks=None, **options):
        model = next(iter(loss.values())).model if isinstance(loss, dict) else loss.model
        quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "logging_strategy": "no"}
        settings = {"per_device_train_batch_size": 4, "max_steps": 2, "learning_rate": 0.01, "seed": 3, **options}
        return CrossEncoderTrainer(
            model,
            CrossEncoderTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **quiet, **settings),
            train_dataset={n: Dataset.from_dict(rows) for n in loss}
            if isinstance(loss, dict)
            else Dataset.from_dict(rows),
            eval_dataset=None if evaluated is None else Dataset.from_dict(evaluated),
            loss=loss,
            callbacks=callbacks,
        )

    return make


def batch(rows=ROWS, dtype=None):
    """Columns and labels of a batch, as the trainer gives them to a loss."""
    return [rows["query"], rows["docs"]], [torch.tensor(labels, dtype=dtype) for labels in rows["labels"]]


def take(*places):
    return {name: [column[place] for place in places] for name, column in ROWS.items()}


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()


def gradient(loss, given=None, seed=5):
    """Value, and gradient of all parameters of the model and of the loss."""
    loss.zero_grad()
    torch.manual_seed(seed)
    value = loss(*(given or batch()))
    value.backward()
    return value.detach(), torch.cat([each.grad.flatten() for each in loss.parameters() if each.grad is not None])


def test_the_trainer_trains_with_every_loss(model, trainer):
    """One trainer with one data set and one loss per name: each step uses another loss."""
    from transformers import TrainerCallback

    found, changes = {}, []

    class Changes(TrainerCallback):
        def on_step_begin(self, *_, model, **__):
            self.before = weights(model)

        def on_step_end(self, *_, model, **__):
            changes.append(float((weights(model) - self.before).norm()))

    every = {name: ListwiseLoss(model, SPECS.get(name, name), chunk=3) for name in losses.__all__}
    for name, loss in every.items():
        loss.register_forward_hook(lambda _, __, value, name=name: found.update({name: float(value.detach())}))
    options = {"max_steps": -1, "num_train_epochs": 1, "multi_dataset_batch_sampler": "round_robin"}
    trainer(every, callbacks=[Changes()], **options).train()
    assert set(found) == set(losses.__all__)
    assert all(map(math.isfinite, found.values())), found
    assert len(changes) == len(every)
    assert all(0 < change < math.inf for change in changes)


@pytest.mark.parametrize("spec", ["lambdaloss@10", "neural_ndcg", "LearnDCG:discount=curved", "0.7*softmax+0.3*bce"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_gradients_are_those_of_the_chunks_in_one_graph(model, monkeypatch, spec, precision):
    loss = ListwiseLoss(model, spec, chunk=4)
    half = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]

    def measured():
        with torch.autocast("cpu", half, enabled=half is not None):
            return gradient(loss)

    in_chunks = measured()
    monkeypatch.setattr("rankgrad.text.losses.chunked", lambda run, chunks, **_: torch.cat([run(c) for c in chunks]))
    in_one_graph = measured()
    assert torch.equal(in_chunks[0], in_one_graph[0])
    # In one graph, half-precision gradients of the chunks are added in half precision.
    tolerance = 1e-5 if half is None else 2e-2
    assert (in_chunks[1] - in_one_graph[1]).norm() <= tolerance * in_one_graph[1].norm()
    assert not torch.equal(in_one_graph[1], gradient(loss, seed=6)[1])  # dropout is on


def test_the_value_is_that_of_the_raw_scores(model):
    """`predict` applies a sigmoid by default; the loss uses the outputs before it."""
    pairs = [(query, text) for query, texts in zip(ROWS["query"], ROWS["docs"], strict=True) for text in texts]
    raw = torch.tensor(model.predict(pairs, activation_fn=torch.nn.Identity()))
    assert not torch.equal(raw, torch.tensor(model.predict(pairs)))
    labels, offsets = torch.cat(batch()[1]), torch.tensor([0, 3, 4, 8, 14])
    for chunk in (1, 5, 100):
        found = ListwiseLoss(model.eval(), "lambdaloss@3", chunk=chunk)(*batch())
        torch.testing.assert_close(found, losses.lambdaloss(raw, labels, k=3, offsets=offsets))


def test_a_batch_is_the_mean_of_its_lists_with_signal(model):
    loss = ListwiseLoss(model.eval(), "softmax", chunk=4)
    each = [loss(*batch(take(place))) for place in range(4)]
    torch.testing.assert_close(loss(*batch()), (each[0] + each[1] + each[3]) / 3)


@pytest.mark.parametrize("name", losses.__all__)
def test_lists_without_signal(untrained, name):
    """Lists without documents or without a relevant document: the loss is 0 and in the graph."""
    loss = ListwiseLoss(untrained, SPECS.get(name, name), chunk=2)
    learns_from_equal_labels = name in ("bce", "mse", "rmse", "margin_mse")
    for documents, labels in ([[]], [[]]), ([[], ["lift", "drag"]], [[], [0, 0]]), ([[], []], [[], []]):
        if learns_from_equal_labels and any(labels):
            continue
        given = [["wing", "heat"][: len(labels)], documents], [torch.tensor(each) for each in labels]
        value, slopes = gradient(loss, given)
        assert value == 0
        assert slopes.numel()
        assert not slopes.any()


def test_an_empty_list_changes_nothing(model):
    loss = ListwiseLoss(model.eval(), "lambdaloss", chunk=4)
    (queries, documents), labels = batch()
    given = [[*queries, "an empty list"], [*documents, []]], [*labels, torch.tensor([])]
    for ours, plain in zip(gradient(loss, given), gradient(loss), strict=True):
        torch.testing.assert_close(ours, plain)


def test_labels_may_be_integers_floats_or_lists(model):
    loss = ListwiseLoss(model.eval(), "lambdaloss")
    expected = loss(*batch())
    assert torch.equal(loss(*batch(dtype=torch.float64)), expected)
    assert torch.equal(loss(batch()[0], ROWS["labels"]), expected)


def test_the_trainer_learns_the_parameters_of_a_loss(model, trainer):
    given = losses.LearnDCG(discount="curved")
    loss = ListwiseLoss(model, given, chunk=4)
    before = loss.learned()
    trainer(loss, learning_rate_mapping={"ranking_loss": 0.3}).train()
    after = loss.learned()
    assert all(abs(after[name] - before[name]) > 0.1 for name in ("gain_base", "discount_base", "alpha"))
    assert given.learned() == before  # the caller's module is copied


def test_a_function_as_loss(model, trainer):
    def squares(scores, labels):
        return (scores - labels).square().mean()

    loss, before = ListwiseLoss(model, squares, chunk=4), weights(model)
    trainer(loss).train()
    assert not torch.equal(weights(model), before)
    assert "squares" in loss.get_config_dict()["loss"]


def test_accumulated_batches_are_one_batch(untrained, trainer):
    """Two batches of one list, or one batch of two lists: the same step, because the loss is a mean over lists."""
    found = []
    for size, batches in (2, 1), (1, 2):
        model = copy.deepcopy(untrained)
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": batches, "max_steps": 1}
        trainer(ListwiseLoss(model, chunk=2), take(0, 3), optim="sgd", max_grad_norm=0.0, **options).train()
        found.append(weights(model) - weights(untrained))
    assert found[0].norm() > 0
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-7)


def test_processes_exchange_gradients_once_per_batch(model):
    """Their lists have different numbers of chunks: if they exchanged gradients per chunk, they would wait forever."""
    loss = ListwiseLoss(model.eval(), "lambdaloss", chunk=2)
    _, expected = gradient(loss)
    exchanged = []

    def exchange(_, bucket):
        exchanged.append(bucket.index())
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        loss.model = torch.nn.parallel.DistributedDataParallel(model)
        loss.model.preprocess = model.preprocess  # as the trainer does
        loss.model.register_comm_hook(None, exchange)
        for given, slopes in (batch(), expected), (([["wing"], [[]]], [torch.tensor([])]), 0 * expected):
            exchanged.clear()
            torch.testing.assert_close(gradient(loss, given)[1], slopes)
            assert exchanged == [0]
    finally:
        torch.distributed.destroy_process_group()


def test_training_in_half_precision_and_with_checkpoints(model, trainer):
    loss, before = ListwiseLoss(model, "lambdaloss@10", chunk=4), weights(model)
    result = trainer(loss, bf16=True, gradient_checkpointing=True).train()
    assert math.isfinite(result.training_loss)
    assert not torch.equal(weights(model), before)


def test_evaluation_uses_no_dropout(model, trainer):
    loss = ListwiseLoss(model, "softmax", chunk=4)
    found = trainer(loss, evaluated=ROWS, per_device_eval_batch_size=4).evaluate()["eval_loss"]
    model.eval()
    assert found == pytest.approx(loss(*batch()).item(), rel=1e-5)


def test_the_model_card_names_the_loss(model, trainer, tmp_path):
    loss = ListwiseLoss(model, "lambdaloss@10", chunk=8)
    assert loss.get_config_dict() == {"loss": "lambdaloss@10", "chunk": 8}
    trainer(loss, max_steps=1).train()
    model.save_pretrained(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    for text in ("loss:ListwiseLoss", '"loss": "lambdaloss@10"', "The LambdaLoss Framework"):
        assert text in card
    assert "TextLoss" not in card


def test_errors(model):
    for given, options, message in [
        (torch.nn.Linear(2, 1), {}, "model must be a CrossEncoder of sentence-transformers 5.4 or later; got Linear"),
        (model, {"chunk": 0}, "chunk must be an integer of at least 1; got 0"),
        (model, {"loss": "lamdaloss"}, "loss must be a known name; got 'lamdaloss'; did you mean 'lambdaloss'?"),
        (
            model,
            {"loss": "learndcg:adapt=heldout"},
            "adapt must be 'joint' with the trainer of sentence-transformers; got 'heldout'",
        ),
    ]:
        with pytest.raises((ValueError, TypeError)) as error:
            ListwiseLoss(given, **options)
        assert str(error.value) == message
    three = copy.deepcopy(model)
    three.transformers_model.config.num_labels = 3
    with pytest.raises(ValueError, match=r"model must have one output, as .*; got 3 outputs"):
        ListwiseLoss(three)
    loss = ListwiseLoss(model)
    for inputs, labels, message in [
        (
            [["wing"], [["lift"]], [["drag"]]],
            [[1]],
            r"inputs must have two columns \(queries, lists of documents\), not counting the labels; got 3",
        ),
        ([["wing"], ["lift"]], [[1]], "documents must have one list of texts per query; got an entry of type str"),
        ([["wing"], [["lift"], ["drag"]]], [[1], [0]], "documents must have one list per query, 1; got 2"),
        ([["wing"], [["lift"]]], torch.tensor([1]), "labels must have one list of numbers per query; got Tensor"),
        ([["wing"], [["lift"]]], None, "labels must have one list of numbers per query; got none"),
        ([["wing"], [["lift"]]], [[1, 0]], r"labels must have one number per document, \[1\] per query; got \[2\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(inputs, labels)


# sentence-transformers' own losses, as a check of the interface. The two tests of defects document version 6.2.


def test_lambdaloss_of_sentence_transformers_is_a_mean_over_pairs_of_ours(model):
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    theirs = LambdaLoss(model.eval(), mini_batch_size=4)(*batch())
    ours = ListwiseLoss(model, "lambdaloss:scheme=ndcg2pp,mu=10")
    total = sum(ours(*batch(take(place))) for place in range(4))
    pairs = sum(high > low for labels in ROWS["labels"] for high in labels for low in labels)
    torch.testing.assert_close(theirs * math.log(2) * pairs, total)


def test_empty_lists_break_losses_of_sentence_transformers(model):
    from sentence_transformers.cross_encoder.losses import LambdaLoss, ListNetLoss

    given = [["wing", "heat"], [[], ["lift", "drag"]]], [torch.tensor([]), torch.tensor([1, 0])]
    assert ListNetLoss(model)(*given).isnan()
    assert ListwiseLoss(model, "listnet")(*given).isfinite()
    with pytest.raises((ValueError, RuntimeError), match="non-empty list"):
        LambdaLoss(model)([["wing"], [[]]], [torch.tensor([])])


def test_memory_of_lambdaloss_of_sentence_transformers_grows_with_the_list(model):
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    def floats(loss, documents):
        given = [["wing"], [["the lift of a wing"] * documents]], [torch.arange(documents) % 2]
        return most_saved(lambda: loss(*given).backward())

    ours, theirs = ListwiseLoss(model, "lambdaloss", chunk=4), LambdaLoss(model, mini_batch_size=4)
    assert floats(ours, 32) < 1.5 * floats(ours, 8)
    assert floats(theirs, 32) > 3 * floats(theirs, 8)
