"""Numbers that nobody here wrote: the losses, pair weights and soft metrics of Rax and TF-Ranking.

`oracles_rax` and `oracles_tfr` say which call of ours each recorded call is, and the conversion where a convention
differs. What cannot be said at all is in their tables `NOT_OURS`. Exact metrics are in `test_oracles_metrics`.
"""

import json

import oracles_rax as rax
import oracles_tfr as tfr
import pytest
import torch
from paths import SHARED
from test_oracles_metrics import CASES as METRIC_CASES

from rankgrad import backend, losses

ORACLES = SHARED / "oracles"
RAX, TFR = (
    json.loads((ORACLES / name).read_text()) if (ORACLES / name).exists() else {} for name in ("rax.json", "tfr.json")
)
pytestmark = pytest.mark.skipif(not RAX or not TFR, reason="the recorded numbers, ../shared/oracles, are not here")


@pytest.fixture(autouse=True, params=["plain", pytest.param("auto", marks=pytest.mark.long)])
def _backend(request):
    """The readable version always; what a user gets, fused where that exists, in the long run."""
    with backend(request.param):
        yield


LAMBDA_WEIGHTS = ("labeldiff_lambdaweight", "dcg_lambdaweight", "dcg2_lambdaweight")
UTILITIES = ("approx_ranks", "approx_cutoff", "logcumsumexp", "normalize_probabilities")
RAX_LOSSES = {**rax.LISTWISE, **rax.POINTWISE, **rax.OF_GAP}
TFR_METHODS = {
    "compute": tfr.value,
    "compute_per_list": tfr.value,
    "compute_unreduced_loss": tfr.value,
    "call": tfr.value,
    "normalize_weights": tfr.normalized_weights,
    "pair_weights": tfr.lambda_weights,
    "individual_weights": tfr.lambda_weights,
    "function": tfr.function,
}
TFR_FUNCTIONS = ("approx_ranks", "neural_sort", "DCGLambdaWeight", "PrecisionLambdaWeight")

# Where Rax's own derivative is not that of its value, which `test_rax_slips_are_slips` shows.
TIED_LISTMLE = ("raxgen-004", "raxgen-005")
SIGMOID_AT_ZERO = ("raxgen-034", "raxgen-035", "raxgen-036", "raxgen-037")


def rax_calls():
    """Every recorded Rax call by id, with what it should give; an equivalence is two calls with one value."""
    shared = {case["id"]: case for case in RAX.get("generated", [])}.get("shared-inputs", {})
    for case in RAX.get("cases", []):
        yield case["id"], case
    for case in RAX.get("equivalences", []):
        for side in ("lhs", "rhs"):
            yield f"{case['id']}-{side}", {**case[side], "expected": case["both_equal"], "rtol": case["rtol"]}
    for case in RAX.get("generated", []):
        if "fn" in case:
            yield (
                case["id"],
                {**case, **{key: shared[key] for key in ("scores", "labels", *case["uses"])}, "rtol": 1e-9},
            )
    for number, case in enumerate(RAX.get("doctests", [])):
        name = case["fn"].removeprefix("grad(").removesuffix(")") if case["fn"].startswith("grad(") else case["fn"]
        yield f"raxdoc-{number}", {**case, "fn": name, "atol": 10.0 ** -case["decimals"]}


def rax_ours(call):
    """Whether a Rax call is a loss, a pair weight, a soft metric or a piece of one."""
    soft = "t12n(" in call["fn"] or "rank_fn" in call["fn"]
    return soft or call["fn"] in RAX_LOSSES or call["fn"] in LAMBDA_WEIGHTS or call["fn"] in UTILITIES


def tfr_ours(case):
    kind = case["fn"].replace("_", "").lower()
    return case["fn"] not in tfr.NOT_OURS and (kind.endswith("loss") or case["fn"] in TFR_FUNCTIONS)


RAX_CALLS = dict(rax_calls())
TFR_CASES = {case["id"]: case for case in TFR.get("cases", [])}
RAX_OURS = [name for name, call in RAX_CALLS.items() if rax_ours(call)]
TFR_OURS = [name for name, case in TFR_CASES.items() if tfr_ours(case)]


@pytest.mark.parametrize("name", RAX_OURS)
def test_rax(name):
    call = RAX_CALLS[name]
    if call["fn"] in LAMBDA_WEIGHTS or call["fn"] in UTILITIES:
        ours = (rax.utility if call["fn"] in UTILITIES else rax.lambda_weights)(call)
        return close(ours, call["expected"], rtol=call["rtol"], atol=1e-6)
    scores = rax.tensor(call["scores"]).requires_grad_()
    value = rax.value(call, scores)
    if "expected" in call:
        # Twelve digits were recorded.
        close(value, call["expected"], rtol=max(call.get("rtol", 0.0), 1e-11), atol=call.get("atol", 1e-12))
    recorded = call.get("grad", call.get("expected_grad"))
    if recorded is not None:
        close(
            *comparable(name, call, gradient(value, scores), rax.tensor(recorded)),
            rtol=1e-9,
            atol=call.get("atol", 1e-11),
        )


@pytest.mark.parametrize("name", TFR_OURS)
def test_tfr(name):
    case = TFR_CASES[name]
    tolerance = case["tol"]
    # Recorded in float32, often with six decimals.
    atol = 10.0 ** -tolerance["places"] if "places" in tolerance else max(tolerance["atol"], 2e-6)
    ours = TFR_METHODS[case["method"]](case)
    close(ours, tfr.expected(case), rtol=tolerance.get("rtol", 0.0), atol=atol)


def close(ours, recorded, rtol, atol):
    recorded = torch.as_tensor(recorded, dtype=torch.float64)
    torch.testing.assert_close(ours.detach().double(), recorded, rtol=rtol, atol=atol)


def gradient(value, scores):
    # Connected always: recall of the whole list, which every order gives, has a gradient of 0 and not None.
    return torch.autograd.grad(value, scores)[0]


def comparable(name, call, ours, theirs):
    """Both gradients, made equal where Rax's slips: over tied scores the sums agree; at 0 theirs is 3 times ours."""
    scores = rax.tensor(call["scores"])
    if name in TIED_LISTMLE:
        same = (scores[..., :, None] == scores[..., None, :]).double()
        return (same @ ours[..., None])[..., 0], (same @ theirs[..., None])[..., 0]
    if name in SIGMOID_AT_ZERO:
        at_zero = (scores == 0) & (rax.tensor(call["labels"]) > 0)
        return torch.where(at_zero, 3 * ours, ours), theirs
    return ours, theirs


@pytest.mark.parametrize("name", TIED_LISTMLE + SIGMOID_AT_ZERO)
def test_rax_slips_are_slips(name):
    """Central differences of the value, on which both agree, give our gradient and not the recorded one."""
    call = RAX_CALLS[name]
    scores = rax.tensor(call["scores"]).requires_grad_()
    ours = gradient(rax.value(call, scores), scores)
    step = 1e-5
    # A loss is smooth in one score at a time even where labels tie, for the order of labels does not move.
    numeric = torch.stack(
        [
            (rax.value(call, scores.detach() + e) - rax.value(call, scores.detach() - e)) / (2 * step)
            for e in step * torch.eye(scores.numel(), dtype=torch.float64).reshape(-1, *scores.shape)
        ]
    ).reshape(scores.shape)
    torch.testing.assert_close(ours, numeric, rtol=1e-6, atol=1e-8)
    assert not torch.allclose(rax.tensor(call["grad"]), numeric, atol=1e-3)


def test_every_recorded_case_is_covered_once():
    """Metrics there, losses here; what is in neither is named in `NOT_OURS`, and nothing is in two places."""
    metric = {name.removesuffix("-lhs").removesuffix("-rhs") for name in METRIC_CASES}
    here = {name.removesuffix("-lhs").removesuffix("-rhs") for name in RAX_OURS} | set(TFR_OURS)
    refused = {name for name, call in RAX_CALLS.items() if call["fn"] in rax.NOT_OURS}
    refused = {name.removesuffix("-lhs").removesuffix("-rhs") for name in refused}
    refused |= {name for name, case in TFR_CASES.items() if case["fn"] in tfr.NOT_OURS}
    recorded = {
        case["id"]
        for kind in ("cases", "equivalences", "generated")
        for case in RAX[kind]
        if "fn" in case or "lhs" in case
    }
    recorded |= {f"raxdoc-{number}" for number in range(len(RAX["doctests"]))} | set(TFR_CASES)
    assert metric | here | refused == recorded
    assert len(metric) + len(here) + len(refused) == len(recorded)
    assert len(here) >= 250


@pytest.mark.parametrize("table", [rax.NOT_OURS, tfr.NOT_OURS], ids=["rax", "tfr"])
def test_what_is_not_ours_is_not_ours(table):
    """A reason is given for each name, and no loss of ours hides behind one."""
    assert all(len(reason) > 20 for reason in table.values())
    assert not {name.removesuffix("_loss") for name in table} & set(losses.__all__)
