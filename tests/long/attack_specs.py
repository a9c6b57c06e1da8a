"""Texts that name losses, rankers, metrics, optimisers, schedules, preprocessing and data sets, right and wrong ones.

Each is taken, and then does what it says, or is refused in one sentence; nothing in it is run, and none takes long.
"""

import builtins
import inspect
import os
import random
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import rankgrad.text.collection  # noqa: F401  # its first import makes data classes, which runs code of Python
from rankgrad import backend, losses, metrics, rankers, relax
from rankgrad.data import Preprocessing, datasets, loading
from rankgrad.data.preprocessing.steps import KINDS as STEPS
from rankgrad.data.synthetic import OPTIONS
from rankgrad.losses.from_text import LISTS
from rankgrad.metrics.metric import KINDS as METRICS
from rankgrad.training.optimisers import OPTIMISERS, SCHEDULES, Schedule, check_optimiser

TEXTS = 20  # an attempt
SECONDS = 1.0  # of one processor, for one text: some parse in 0.2
NUMBERS = ["0", "1", "2", "5", "-1", "0.5", "1e-3", "1e300", "1e-320", "-0.0", "10", "240", "1000"]
WORDS = ["true", "none", "False", "exp", "linear", "sound", "best", "layer", "relu", "log", "x", "nDCG@3", "AP", "l2"]
ODD = [
    "", " ", "nan", "inf", "-inf", "1e999", "²", "٣", "1_0", "0x10", "1j", "[1]", "{}", "()", "'a'", '"a"', "b'x'",
    "1-2", "1-", "-", "--1", "1--2", "8-8-8", "1.5-2", "9" * 19, "9" * 400, "9" * 5000, "99999999", "2147483648",
    "(" * 300, "[" * 3000, "-" * 3000 + "1", "\\d", "\0", "\n", "a\nb", "\u2028", "é", "=", "@", ":", ",",
    "1 if 1 else 2", "1if 1", "8-" * 400 + "8", "/dev/zero", "..", "~", "%s%n", "{0}", "nDCG(gain=x)", "lambda: 0",
]  # fmt: skip
CODE = [
    "__import__('os').system('touch tripwire')", "os.system('touch tripwire')", "exec('tripwire=1')", "tripwire",
    "().__class__.__bases__[0].__subclasses__()", "open('tripwire','w')", "f'{tripwire}'", "(lambda: tripwire)()",
    "print('tripwire')", "eval('tripwire')", "!!python/object/apply:os.system [tripwire]", "${tripwire}",
    "$(touch tripwire)",
]  # fmt: skip
# How an error reads that was not meant for a person: by Python, torch or NumPy.
RAW = re.compile(
    r"not supported between|invalid literal|unexpected keyword|has no attribute|object is not|could not convert|"
    r"must be tuple of ints|unsupported operand|invalid data type|Exceeds the limit|cannot be interpreted"
)


def options_of(taker: Any) -> list[str]:
    return [name for name in inspect.signature(taker).parameters if name not in (*LISTS, "features", "params")]


def run_loss(loss: Any) -> None:
    with backend("plain"):
        loss(torch.tensor([[0.5, 2.0, -1.0]]), torch.tensor([[1.0, 0.0, 2.0]])).sum()
    assert str(losses.parse_loss(str(loss))) == str(loss)


def run_metric(metric: Any) -> None:
    metric.measure(torch.tensor([0.5, 2.0, -1.0]), torch.tensor([1.0, 0.0, 2.0]))
    assert metrics.parse_metric(repr(metric)) == metric


def run_steps(steps: Preprocessing) -> None:
    assert str(Preprocessing.parse(str(steps))) == str(steps)
    features = np.array([[0.0, 5.0], [1.0, 5.0], [-3.0, 5.0]], dtype=np.float32)
    steps.transform(features, np.array([0, 3])) if not any(step.fitted for step in steps.steps) else None


def nothing(_: Any) -> None:
    pass


def read_schedule(text: str) -> Schedule:
    return Schedule(text, epochs=10, warmup=1.0)


def run_schedule(rate: Schedule) -> None:
    assert np.isfinite([rate.factor(time) for time in (0.0, 0.5, 3.0, 1000.0)]).all()


MADE = [name for name in relax.__all__ if isinstance(getattr(relax, name), type) and name != "Relaxation"]
RELAXED = {option for name in MADE for option in options_of(getattr(relax, name))}
# What reads the text, what is done with one that is taken, and the names with their options.
GRAMMAR: dict[str, tuple[Callable[[str], Any], Callable[[Any], None], dict[str, list[str]]]] = {
    "loss": (
        losses.parse_loss,
        run_loss,
        {name: [*options_of(getattr(losses, name)), "gumbel", "adapt"] for name in losses.__all__}
        | {"relaxed": ["metric", "operator", *sorted(RELAXED)]},
    ),
    "ranker": (
        rankers.parse_ranker,
        nothing,
        {name: options_of(kind) for name, kind in rankers.MODELS.items()}
        | {name: options_of(rankers.MODELS[preset.model]) for name, preset in rankers.PRESETS.items()},
    ),
    "metric": (
        metrics.parse_metric,
        run_metric,
        {name: [*options_of(kind.function), "ids"] for name, kind in METRICS.items()} | {"MRR": ["threshold"]},
    ),
    "optimiser": (check_optimiser, nothing, {name: options_of(kind) for name, kind in OPTIMISERS.items()}),
    "schedule": (read_schedule, run_schedule, {name: list(options) for name, options in SCHEDULES.items()}),
    "steps": (Preprocessing.parse, run_steps, {name: [] for name in (*STEPS, "none", "standardize-per-query")}),
    "set": (
        loading.check_source,
        nothing,
        {facts.name: ["fold"] for facts in datasets()}
        | {"synthetic": [*OPTIONS], "web30k-shape": ["scale", "seed"]}
        | {"text": ["path", "depth", "parts", "topic", "k1", "b", "queries"]},
    ),
}


def a_value(chance: random.Random, option: str) -> str:
    if option == "operator" and chance.random() < 0.9:
        return chance.choice(MADE)
    if option == "metric" and chance.random() < 0.8:
        return chance.choice([*METRICS, "nDCG(gain='linear')", "AP@3"])
    return chance.choice(chance.choices([NUMBERS, WORDS, ODD, CODE], [12, 4, 2, 1])[0])


def a_text(chance: random.Random, kind: str, names: dict[str, list[str]]) -> str:
    name = chance.choice(list(names))
    known = names[name] or ["limit"]
    chosen = chance.sample(known, min(len(known), chance.choice([0, 1, 1, 2, 3])))
    if name == "relaxed":
        chosen = ["metric", "operator", *(option for option in chosen if option not in ("metric", "operator"))]
    pairs = [f"{option}={a_value(chance, option)}" for option in chosen]
    cutoff = f"@{a_value(chance, 'k')}" if chance.random() < 0.2 else ""
    if kind == "metric" or (kind != "steps" and chance.random() < 0.3):
        text = name + (f"({', '.join(pairs)})" if pairs else "") + cutoff
    elif kind == "steps":
        steps = [chance.choice([*names, "clip", "quantile"]) for _ in range(chance.choice([1, 2, 3]))]
        forms = ["", "={}", "(limit={})", "(output={}, sample=9)", "(sample={})", ":output={}"]
        text = ",".join(
            step + chance.choices(forms, [5, 5, 1, 1, 1, 1])[0].format(a_value(chance, "")) for step in steps
        )
    else:
        text = name + cutoff + (":" + ",".join(pairs) if pairs else "")
    if kind == "loss" and chance.random() < 0.3:
        weight = chance.choice(["0.5*", "2 * ", "1e+1*", "", f"{a_value(chance, '')}*"])
        text = chance.choice([weight + text + "+0.3*bce", f"softmax + {weight}{text}", f"1*{text}+bce+{weight}listnet"])
    for _ in range(chance.choice([0, 0, 0, 0, 1, 2])):
        at, other = chance.randint(0, len(text)), chance.randint(0, len(text))
        piece = chance.choice(["", chance.choice(ODD), chance.choice(CODE), text[min(at, other) : max(at, other)]])
        text = text[:at] + piece * chance.choice([1, 1, 1, 50]) + text[at + chance.choice([0, 1, 3]) :]
    return text.swapcase() if chance.random() < 0.05 else text


def no_code(text: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A builtin that runs source, or a command: not for any part of the text."""

    def guarded(source: Any, *more: Any, **options: Any) -> Any:
        if isinstance(source, str) and (source.strip() in text or "tripwire" in source or text in source):
            raise SystemExit(f"{source!r} was compiled or run")  # which no `except Exception` takes for a refusal
        return call(source, *more, **options)

    return guarded


def attempt(kind: str, text: str) -> str:
    read, run, _ = GRAMMAR[kind]
    refusal: Exception | None = None
    with ExitStack() as armed:
        for place, name in ((builtins, "eval"), (builtins, "exec"), (builtins, "compile"), (os, "system")):
            armed.enter_context(patch.object(place, name, no_code(text, getattr(place, name))))
        armed.enter_context(patch.object(subprocess, "Popen", no_code(text, subprocess.Popen)))
        try:
            begun = time.process_time()
            try:
                found = read(text)
            finally:
                seconds = time.process_time() - begun
            ended = "taken"
            run(found)
        except (ValueError, TypeError, FileNotFoundError) as error:
            refusal, ended = error, "refused"
    if refusal is not None:
        told = str(refusal)
        assert kind == "set" or not isinstance(refusal, FileNotFoundError), told
        assert re.fullmatch(r"[^;]+ must .+; got .+", told), told
        assert not RAW.search(told), told
        assert len(told) < 1500, told
    assert seconds < SECONDS, f"{seconds:.1f} s"
    return ended


@cache
def warm() -> None:
    """Import and load what is used for the first time: that is not what takes long."""
    for kind, (_, _, names) in GRAMMAR.items():
        for name in names:
            with suppress(AssertionError):
                attempt(kind, name)


def case(rng: np.random.Generator, folder: Path) -> str:
    """Some texts of one kind; says how the last one ended."""
    warm()
    chance = random.Random(int(rng.integers(2**62)))
    kind, ended = chance.choice(list(GRAMMAR)), ""
    for _ in range(TEXTS):
        text = a_text(chance, kind, GRAMMAR[kind][2])
        try:
            ended = attempt(kind, text)
        except BaseException as error:
            raise AssertionError(f"{error!r} for {kind} {text[:500]!r}") from error
    assert not Path("tripwire").exists()
    return f"{kind} {ended}"
