"""Edited model files of LightGBM and XGBoost: one number, line, field or byte is not what the framework wrote."""

import json
import os
import re

import numpy as np
from programs import WARM, end_with_tests

WILD = (-1, -2, 0, 1, 2, 3, 7, 99, 10**6, 2**31 - 1, -(2**31), 2**31, 2**63, -(10**30), 1e308, 0.5)


def edited_lightgbm(text, rng):
    """The text with one to three edits."""
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(6)
        lines = text.split("\n")
        place = int(rng.integers(min(len(lines), 60) if rng.random() < 0.8 else len(lines)))
        numbers = [*re.finditer(r"-?\d+(\.\d+)?(e[-+]?\d+)?", lines[place])]
        if kind <= 2 and numbers:  # another number
            at = numbers[rng.integers(len(numbers))]
            lines[place] = lines[place][: at.start()] + f"{WILD[rng.integers(len(WILD))]}" + lines[place][at.end() :]
        elif kind == 3 and " " in lines[place]:  # a number less or more
            words = lines[place].split(" ")
            words = words[:-1] if rng.random() < 0.5 else words + words[-1:]
            lines[place] = " ".join(words)
        elif kind == 4:  # a line less, twice, or elsewhere
            line = lines.pop(place)
            for _ in range(rng.integers(3)):
                lines.insert(int(rng.integers(len(lines) + 1)), line)
        else:
            at = int(rng.integers(len(text)))
            text = text[:at] + ("" if rng.random() < 0.3 else chr(int(rng.integers(1, 127)))) + text[at + 1 :]
            continue
        text = "\n".join(lines)
        if rng.random() < 0.8:  # sizes that are right lead on to what is wrong inside
            text = sized(text)
    return text


def without_hashes(config):
    """A configuration, in JSON, that agrees with any model file: who edits that can edit this."""
    return json.dumps({key: value for key, value in json.loads(config).items() if key not in ("files", "sha256")})


def sized(text):
    """The text with the sizes of its trees as they are."""
    sizes = [len(block) for block in re.findall(r"Tree=\d+\n.*?(?=Tree=\d|end of trees)", text, re.DOTALL)]
    return re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={' '.join(map(str, sizes))}", text, count=1)


def edited_xgboost(content, rng):
    """The bytes with one to three edits, mostly of numbers inside trees."""
    if rng.random() < 0.15:
        at = int(rng.integers(len(content)))
        return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]
    model = json.loads(content)
    for _ in range(rng.integers(1, 4)):
        holders = [*_holders(model)]
        holder, key = holders[rng.integers(len(holders))]
        value = holder[key]
        wild = WILD[rng.integers(len(WILD))]
        if isinstance(value, list) and value and rng.random() < 0.5:
            holder[key] = value[:-1] if rng.random() < 0.5 else value + value[-1:]
        elif isinstance(value, dict | list):
            if rng.random() < 0.3:
                holder[key] = [{}, [], None, "", 5, [[]], {"a": 1}][rng.integers(7)]
        elif isinstance(value, str):
            holder[key] = str(wild) if rng.random() < 0.8 else wild
        else:
            holder[key] = wild if rng.random() < 0.9 else [None, "x", [], True][rng.integers(4)]
    return json.dumps(model).encode()


def _holders(value):
    """Every place in the JSON: what holds it, and the key or index."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _holders(inner)


def _score(connection):
    """Load and score the models in the folders that are sent."""
    from rankgrad.trees.model import TreeModel

    end_with_tests()
    with open(os.devnull, "w") as nowhere:  # the frameworks print a lot
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    rows = np.random.default_rng(0).normal(scale=30, size=(200, 4)).astype(np.float32)
    rows[::7], rows[1::9] = np.nan, np.inf
    while folder := connection.recv():
        try:
            model = TreeModel.load(folder)
            assert model.score(rows).shape == (200,)
            assert model.size >= 0
            model.save(folder)
            connection.send("scored")
        except ValueError as error:
            connection.send("refused" if folder in str(error) else f"refused, but the file is not named: {error}")


class Scorer:
    """A process that loads and scores models: what crashes it does not crash the tests."""

    process = None

    def __call__(self, folder):
        """`scored`, `refused`, or `crashed` with the exit status."""
        if self.process is None:
            self.connection, theirs = WARM.Pipe()
            self.process = WARM.Process(target=_score, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()  # so that the pipe ends with the process
        try:
            self.connection.send(str(folder))
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            status, self.process = self.process.exitcode, None
            return f"crashed with {status}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.connection.send("")
            self.process.join()
