"""Options given as text: each wrong one is told in a sentence that names it, what it accepts and what it got."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankgrad import losses, metrics, rankers, spec
from rankgrad.data import Preprocessing, loading
from rankgrad.training.optimisers import check_optimiser, check_schedule

LOSS, METRIC, STEPS = losses.parse_loss, metrics.parse_metric, Preprocessing.parse

WRONG = [
    (LOSS, "softmax:gumbel=x", "gumbel of loss must be an integer of at least 1; got 'x'"),
    (LOSS, "softmax:gumbel=2.5", "gumbel of loss must be an integer of at least 1; got 2.5"),
    (LOSS, "softmax:gumbel=true", "gumbel of loss must be an integer of at least 1; got True"),
    (LOSS, "softmax:gumbel=2000000", "gumbel of loss must be at most 1,000; got 2000000"),
    (LOSS, "lambdaloss@5:sigma=abc", "sigma of lambdaloss must be a finite number; got 'abc'"),
    (LOSS, "lambdaloss:sigma=nan", "sigma of lambdaloss must be a finite number; got 'nan'"),
    (LOSS, "lambdaloss:sigma=1e999", "sigma of lambdaloss must be a finite number; got inf"),
    (LOSS, "lambdaloss@5:k=3", "loss must contain k only once; got 'lambdaloss@5' with k=3"),
    (LOSS, "lambdaloss:metric=5", "metric must be a known name; got '5'"),
    (LOSS, "softmax@²", "loss must have an integer from 1 to 2147483647 after @; got"),
    (LOSS, "lambdaloss@٣", "loss must have an integer from 1 to 2147483647 after @"),
    (LOSS, "lambdaloss@" + "9" * 30, "loss must have an integer from 1 to 2147483647 after @"),
    (LOSS, "lambdaloss:sigma=" + "-" * 5000 + "1", "loss must be at most 1,000 characters long; got 5,018"),
    (LOSS, "lambdaloss:sigma=" + "(" * 300, "sigma of lambdaloss must be a finite number; got '((("),
    (LOSS, "neural_ndcg:sinkhorn_rounds=2.5", "sinkhorn_rounds of neural_ndcg must be an integer; got 2.5"),
    (LOSS, "neural_ndcg:sinkhorn_rounds=999999999", "sinkhorn_rounds of neural_ndcg must be at most 10,000"),
    (LOSS, "neural_ndcg:transposed=5", "transposed of neural_ndcg must be true or false; got 5"),
    (LOSS, "hinge:margin=true", "margin of hinge must be a finite number; got True"),
    (LOSS, "xe_ndcg:gamma=x", "gamma must be a number, 'drawn' or a tensor; got 'x'"),
    (LOSS, "xe_ndcg:gamma=1e999", "gamma must be a number, 'drawn' or a tensor; got 'inf'"),
    (LOSS, "learndcg:k=x", "k of learndcg must be an integer or none; got 'x'"),
    (LOSS, "relaxed:metric=AP,operator=neural_sort,temperature=x", "temperature of neural_sort must be"),
    (LOSS, "softmax:a\nb=1", r"loss must be printable text on one line; got 'softmax:a\nb=1'"),
    (LOSS, "neuralloss:path=" + "x" * 400, "path must be a folder with the file weights.safetensors, or the path of"),
    (LOSS, "0.7*softmx+0.3*bce", "loss must be a known name; got 'softmx'; did you mean 'softmax'"),
    (LOSS, "softmax+bcee", "loss must be a known name; got 'bcee'; did you mean 'bce'"),
    (LOSS, "0.7*softmax+0*bce", "loss must have finite weights above 0; got 0 in '0.7*softmax+0*bce'"),
    (LOSS, "softmax+-0.5*bce", "loss must have finite weights above 0; got -0.5 in 'softmax+-0.5*bce'"),
    (LOSS, "1e999*softmax", "loss must have finite weights above 0; got 1e999 in '1e999*softmax'"),
    (LOSS, "0.5*softmax+0.5*", "loss must be a loss, or a sum such as 0.7*softmax+0.3*bce; got '0.5*softmax"),
    (LOSS, "+softmax", "loss must be a loss, or a sum such as 0.7*softmax+0.3*bce; got '+softmax'"),
    (LOSS, "0.5*(softmax+bce)", "loss must have the form name[@k][:key=value,...] or name(key=value, ...)[@k]"),
    (LOSS, "softmax+" * 30 + "bce", "loss must be a sum of at most 20 terms; got 31"),
    (LOSS, "bce+0.5*lambdaloss:sigma=x", "sigma of lambdaloss must be a finite number; got 'x'"),
    (LOSS, "bce+learndcg:adapt=heldout", "adapt must be 'joint' with a weighted sum; got 'heldout'"),
    (LOSS, "lambdaloss(sigma=" + "(" * 9 + ")" * 9 + ")", "loss must have at most 8 nested brackets"),
    (
        LOSS,
        "relaxed@5:metric=AP@3,operator=neural_sort",
        "loss must contain k only once; got 'relaxed@5' with metric=AP@3",
    ),
    (LOSS, "relaxed(metric=nDCG(gain=x)@3,operator=neural_sort)", "gain must be one of 'exp', 'linear'; got"),
    (LOSS, "relaxed:metric=AP,operator=neural_sort(tau=1)", "option must be an option of neural_sort"),
    (rankers.parse_ranker, "mlp:widths=abc", "widths must be an integer, at least 1; got 'abc'"),
    (rankers.parse_ranker, "mlp:widths=99999999999", "widths of mlp must be at most 1,000,000; got 99999999999"),
    (rankers.parse_ranker, "mlp:widths=" + "8-" * 200 + "8", "widths of mlp must have at most 100 values; got 201"),
    (rankers.parse_ranker, "context_aware:blocks=3000", "blocks of context_aware must be at most 100; got 3000"),
    (METRIC, "nDCG(gain=foo)@10", "gain must be one of 'exp', 'linear'; got 'foo'"),
    (METRIC, "RBP(persistence='x')", "persistence of RBP must be a finite number; got 'x'"),
    (METRIC, "ERR(max_label=1e999)", "max_label of ERR must be a finite number; got inf"),
    (METRIC, "AP(threshold=None)", "threshold of AP must be a finite number; got None"),
    (METRIC, "nDCG@" + "9" * 30, "metric must have an integer from 1 to 2147483647 after @"),
    (METRIC, "nDCG@" + "9" * 5000, "metric must be at most 1,000 characters long; got 5,005"),
    (METRIC, "nDCG@²", "metric must have an integer from 1 to 2147483647 after @; got"),
    (METRIC, "nDCG(gain=" + "-" * 90000 + "1)", "metric must be at most 1,000 characters long; got 90,012"),
    (METRIC, "nDCG(gain=1if 1 else 2)", "gain must be one of 'exp', 'linear'; got '1if 1 else 2'"),
    (METRIC, "nDCG(gain", "metric must have the form name[@k][:key=value,...] or name(key=value, ...)[@k]; got"),
    (METRIC, "nDCG(gain=linear)@5:ties=trec", "metric must have the form name[@k][:key=value,...] or name("),
    (METRIC, "nDCG:gain=5", "gain must be one of 'exp', 'linear'; got '5'"),
    (METRIC, "RR:threshold=true", "threshold of RR must be a finite number; got True"),
    (METRIC, "AP(threshold=" + "(" * 9 + ")" * 9 + ")", "metric must have at most 8 nested brackets"),
    (METRIC, "nDCG(gain='exp', gain='linear')", "metric must contain the option gain only once; got"),
    (check_optimiser, "adam:betas=x", "betas of adam must be 2 numbers joined by -; got 'x'"),
    (check_optimiser, "adam:betas=0.9", "betas of adam must be 2 numbers joined by -; got 0.9"),
    (check_optimiser, "adam:betas=0.9-0.99-0.999", "betas of adam must be 2 numbers joined by -; got [0.9,"),
    (check_optimiser, "adam:amsgrad=x", "amsgrad of adam must be true or false; got 'x'"),
    (check_optimiser, "sgd:dampening=x", "dampening of sgd must be a finite number; got 'x'"),
    (check_optimiser, "sgd:momentum=-1", "optimiser must have options that sgd takes; got 'sgd:momentum=-1' and the"),
    (check_optimiser, "adam@5", "optimiser must have the form name[:key=value,...], without a cutoff; got 'adam@5'"),
    (check_schedule, "step:every=²", "every of step must be a number from 0.001 to 1,000,000; got '²'"),
    (check_schedule, "step:every=1e999", "every of step must be a number from 0.001 to 1,000,000; got inf"),
    (check_schedule, "step:factor=10", "factor of step must be a number from 0 to 1; got 10"),
    (check_schedule, "plateau:patience=0.5", "patience of plateau must be an integer; got 0.5"),
    (check_schedule, "cosine@3", "schedule must have the form name[:key=value,...], without a cutoff; got 'cosine@3'"),
    (STEPS, "clip=1_0", "limit of clip must be a finite number; got '1_0'"),
    (STEPS, "clip=1e999", "limit of clip must be a finite number; got inf"),
    (STEPS, "clip=true", "limit of clip must be a finite number; got True"),
    (STEPS, "clip(limit=-1)", "limit must be a number above 0; got -1.0"),
    (STEPS, "clip(lmit=1)", "option must be an option of clip (limit); got 'lmit'; did you mean 'limit'?"),
    (STEPS, "clip@3", "preprocessing must have the form name[:key=value,...], without a cutoff; got 'clip@3'"),
    (STEPS, "quantile(sample=2.5)", "sample of quantile must be an integer; got 2.5"),
    (STEPS, "quantile:output=uniform,sample=9", "preprocessing must have brackets around several options of"),
    (STEPS, "clip=,log1p", "preprocessing must have options of the form key=value, separated by commas; got 'clip='"),
    (STEPS, "none=3", "preprocessing must be one of"),
    (STEPS, "log1p," * 150, "preprocessing must have at most 100 steps; got 150"),
    (STEPS, None, "preprocessing must be text; got NoneType"),
    (loading.check_source, "synthetic:lists='a'", "lists of synthetic must be an integer; got 'a'"),
    (loading.check_source, "synthetic:lists=-1", "lists of synthetic must be at least 1; got -1"),
    (loading.check_source, "synthetic:seed=-1", "seed of synthetic must be at least 0; got -1"),
    (loading.check_source, "synthetic:lists=1000000,features=1000000", "lists of synthetic must fit in the memory of"),
    (loading.check_source, "web30k-shape:scale=1e308", "lists of web30k-shape must fit in the memory of"),
    (loading.check_source, "synthetic:lists=" + "(" * 300, "lists of synthetic must be an integer; got '((("),
    (loading.check_source, "x" * 3000, "name must be a known data set or a folder with a train file; got 'xxx"),
    (loading.check_source, "-" * 150_000, "name must be at most 4,096 characters long; got 150,000: '---"),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("read", "text", "told"), WRONG, ids=[str(text)[:40] for _, text, _ in WRONG])
def test_what_is_wrong_is_one_sentence(read, text, told):
    begun = time.perf_counter()
    with pytest.raises(ValueError, match="must") as caught:
        read(text)
    assert str(caught.value).startswith(told)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
    assert time.perf_counter() - begun < 1


def test_a_number_where_text_is_asked_for_is_text():
    with pytest.raises(ValueError, match=r"scheme must be one of 'ndcg1', .*; got '5'"):
        losses.parse_loss("lambdaloss:scheme=5")


def test_words_need_no_quotes():
    assert metrics.parse_metric("nDCG(gain=linear)@5") == metrics.nDCG(gain="linear") @ 5
    assert metrics.parse_metric('ERR(max_label=2, ties="expected")').options == {"max_label": 2, "ties": "expected"}
    assert str(losses.parse_loss("lambdaloss:scheme='ndcg1'")) == "lambdaloss:scheme=ndcg1"


# Each line is one thing, in as many ways.
SAME = [
    (LOSS, ["lambdaloss@5:mu=10,sigma=2", "LambdaLoss(mu=10, sigma=2)@5", "lambdaloss@5:mu=1e1,SIGMA=2.0"]),
    (LOSS, ["relaxed:metric=nDCG(gain=linear)@10,operator=neural_sort,temperature=0.5",
                    "relaxed(metric=nDCG(gain=linear)@10, operator=neural_sort, temperature=0.5)",
                    "relaxed@10:metric=nDCG(gain='linear'),operator=neural_sort(temperature=0.5)"]),
    (LOSS, ["0.5*lambdaloss:scheme=ndcg1+0.5*bce", "0.5 * lambdaloss(scheme='ndcg1') + 5e-1*BCE"]),
    (LOSS, ["softmax+1e+1*hinge:margin=1e+1+bce", "1*softmax+10*hinge(margin=10)+1*bce"]),
    (METRIC, ["nDCG(gain='linear', ties='trec')@9",
                     "ndcg@9:gain=linear,ties=trec", 'NDCG(GAIN="linear",ties=trec) @ 9']),
    (METRIC, ["MRR", "rr()", " RR "]),
    (rankers.parse_ranker, ["mlp:widths=256-128,norm=none", "MLP(widths=256-128, norm=None)"]),
    (rankers.parse_ranker, ["context_aware:blocks=1", "context-aware(blocks=1)"]),
    (STEPS, ["quantile=uniform,clip=3", "quantile(output=uniform),clip:limit=3",
                   "Quantile='UNIFORM', clip(limit=3.)"]),
    (STEPS, ["quantile(output=uniform,sample=9),log1p", "quantile(sample=9, output='uniform') , none, log1p"]),
    (check_optimiser, ["adam:betas=0.5-0.9,eps=1e-6", "Adam(betas=0.5-0.9, eps=1e-6)"]),
    (check_schedule, ["step:every=2,factor=0.5", "step(every=2, factor=0.5)"]),
]  # fmt: skip


def meaning(made):
    """What can be compared of a thing that was made from text."""
    if isinstance(made, losses.from_text.TextLoss):
        scores, labels = torch.tensor([[2.0, 1.0, 3.0, 0.5]]), torch.tensor([[1.0, 0.0, 2.0, 1.0]])
        return made(scores, labels).item()
    return made.to_config()[0] if isinstance(made, Preprocessing) else made


@pytest.mark.parametrize(("read", "texts"), SAME, ids=[texts[0][:40] for _, texts in SAME])
def test_all_forms_say_the_same(read, texts):
    first, *others = (meaning(read(text)) for text in texts)
    assert all(other == first for other in others)


@pytest.mark.parametrize(("read", "texts"), SAME[:10], ids=[texts[0][:40] for _, texts in SAME[:10]])
def test_what_is_printed_is_read_back(read, texts):
    for text in texts:
        made = read(text)
        printed = spec.write(made[0], options=made[1]) if read is rankers.parse_ranker else str(made)
        again = read(printed)
        assert meaning(again) == meaning(made)
        assert str(again) == str(made)


@given(
    k=st.one_of(st.none(), st.integers(1, spec.LARGEST_CUTOFF)),
    options=st.dictionaries(
        st.from_regex("[a-z_]{1,9}|path", fullmatch=True),
        st.one_of(
            st.integers(-(10**17), 10**17),
            st.floats(allow_nan=False, allow_infinity=False),
            st.booleans(),
            st.none(),
            st.lists(st.integers(0, 99), min_size=2, max_size=4),
            st.text("ab1(),:=+*@-'. ", max_size=8).filter(lambda text: text.lower() not in ("true", "false", "none")),
        ),
        max_size=4,
    ),
    brackets=st.booleans(),
)
def test_write_and_spell(k, options, brackets):
    options = {key: str(value) if key == "path" else value for key, value in options.items()}
    text = spec.write("x", k, options, brackets=brackets)
    read = spec.spell("loss", text)
    assert (read.name, read.k, list(read.options)) == ("x", k, list(options))
    # Text that looks like numbers is written without quotes, and whoever asks for text takes these as text.
    for key, value in options.items():
        assert read.options[key] == value or spec.read_value(value) == read.options[key]
    if brackets:
        assert spec.weighted_terms("loss", f"0.5*{text}+2*{text}") == [(0.5, text), (2.0, text)]
    assert len(spec.weighted_terms("loss", text)) == 1


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("lambdaloss:scheme=ndcg2++", [(None, "lambdaloss:scheme=ndcg2++")]),
        ("lambdaloss:scheme=ndcg2+++bce", [(None, "lambdaloss:scheme=ndcg2++"), (None, "bce")]),
        ("2e+1*hinge:margin=1e+5", [(20.0, "hinge:margin=1e+5")]),
        ("neuralloss:path=a+bce", [(None, "neuralloss:path=a+bce")]),
        ("neuralloss:path=it's,form=x+bce", [(None, "neuralloss:path=it's,form=x"), (None, "bce")]),
        ("neuralloss(path=a)+0.5*bce", [(None, "neuralloss(path=a)"), (0.5, "bce")]),
        ("neuralloss:path='a'+bce", [(None, "neuralloss:path='a'"), (None, "bce")]),
        ("x:y='a+b'+z", [(None, "x:y='a+b'"), (None, "z")]),
    ],
)
def test_a_plus_separates_terms_only(text, terms):
    assert spec.weighted_terms("loss", text) == terms
    known = [(weight or 1.0, term) for weight, term in terms]
    again = [(weight, spec.spell("loss", term)) for weight, term in spec.weighted_terms("loss", spec.write_sum(known))]
    assert again == [(weight, spec.spell("loss", term)) for weight, term in known]


def test_a_generated_set_takes_brackets():
    from rankgrad.data import load

    one, other = load("synthetic:lists=5,features=10"), load("Synthetic(lists=5, features=10)")
    assert (one.train.features == other.train.features).all()
    with pytest.raises(ValueError, match=r"name must have the form .*, without a cutoff"):
        loading.check_source("synthetic(lists=5)@3")


def test_options_that_are_right_pass():
    assert check_optimiser("adam:betas=0.5-0.9,eps=1e-6,amsgrad=true")[1] == {
        "betas": (0.5, 0.9), "eps": 1e-6, "amsgrad": True,
    }  # fmt: skip
    assert check_schedule("step:every=0.5,factor=0") == ("step", {"every": 0.5, "factor": 0})
    loss = losses.parse_loss("softmax:gumbel=3")
    assert torch.isfinite(loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])))
    loading.check_source("synthetic:lists=30,mean_length=5")
    loading.check_source("web30k-shape:scale=0.01,seed=3")
