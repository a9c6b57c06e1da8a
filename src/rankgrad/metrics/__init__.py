"""Exact ranking metrics: functions, value objects, and files of trec_eval.

All functions share these rules.

**Lists.** `scores` and `labels` have one of three layouts: `(..., n)` with a boolean `mask`, `(documents,)` with
`offsets (lists + 1,)`, or jagged nested tensors. The mask is True for a document. Without a mask, all positions are
documents. A 1-D input without offsets is one list. The document with the highest score is ranked first. Labels are
integers or floats. Metrics are computed in float64 if the scores are float64, and in float32 if the scores are float32
or in half precision.

**Options.**

- `k`: only the first k ranks count; with None, all ranks count.
- `ties`: order of documents with equal scores. `"stable"`: the document at the earlier position is first. `"expected"`:
  the value is the average over all orders, in closed form. `"trec"`: the order of trec_eval, which compares scores in
  float32. Among equal scores, the document with the higher id is first. Without `ids`, the document at the later
  position is first. `ids` are texts with the shape of `scores`, and are compared by code point.
- `empty`: the value of an empty list: `"zero"`, `"one"` or `"skip"`. A list without documents is empty; each function
  defines which other lists are empty. With `"skip"`, an empty list has the value NaN for `reduction="none"` and is
  excluded from the mean and the sum.
- `reduction`: `"mean"` over the lists (0 if there are no lists), `"sum"`, or `"none"`: one value per list, `(...)`.

Documents with a score of NaN are ranked last, after documents with -inf, and are tied with each other. On the CPU, a
warning states the number of these documents. On other devices, NaN scores are not counted, to avoid a synchronisation.
"""

from rankgrad import moved
from rankgrad.metrics.arp_opa import arp, opa
from rankgrad.metrics.binary import ap, precision, rbp, recall
from rankgrad.metrics.cascade import err, rr, success
from rankgrad.metrics.cumulative_gain import dcg, ndcg
from rankgrad.metrics.evaluate import Evaluation, evaluate
from rankgrad.metrics.metric import AP, ARP, DCG, ERR, OPA, RBP, RR, Metric, P, R, Success, nDCG, parse_metric
from rankgrad.metrics.trec import measure_run, read_qrels, read_run, to_run, write_qrels, write_run

__all__ = [
    "ndcg",
    "dcg",
    "rr",
    "ap",
    "precision",
    "recall",
    "success",
    "err",
    "rbp",
    "arp",
    "opa",
    "nDCG",
    "DCG",
    "RR",
    "AP",
    "P",
    "R",
    "Success",
    "ERR",
    "RBP",
    "ARP",
    "OPA",
    "Metric",
    "parse_metric",
    "Evaluation",
    "evaluate",
    "read_run",
    "read_qrels",
    "write_run",
    "write_qrels",
    "to_run",
    "measure_run",
]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"parse": "parse_metric"})
