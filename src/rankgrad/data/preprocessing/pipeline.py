"""A sequence of preprocessing steps. It is fitted on training data, saved with the model, and applied to all data."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset
from rankgrad.data.preprocessing.missing_values import FillMissing
from rankgrad.data.preprocessing.steps import (
    KINDS,
    Array,
    Clip,
    PreprocessingStep,
    Quantile,
    SignedLog1p,
    Standardise,
    StandardisePerQuery,
    is_tensor,
)
from rankgrad.data.sparse_rows import dense, rows_per_block
from rankgrad.errors import bad_value, one_of
from rankgrad.option_checks import fit_options
from rankgrad.spec import known_options, no_cutoff, sequence, show, write, write_number

__all__ = [
    "Clip",
    "FillMissing",
    "Quantile",
    "SignedLog1p",
    "Standardise",
    "StandardisePerQuery",
    "PreprocessingStep",
    "Preprocessing",
]

_MOST_STEPS = 100
_ROWS = 32_768  # maximum number of rows per block; a longer list is a separate block
_SAVED: dict[str, type[PreprocessingStep]] = {
    **KINDS,
    FillMissing.name: FillMissing,
}  # steps in saved models; `parse` does not know all of them


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """A sequence of preprocessing steps. Its text form is, for example, `log1p,standardise` or `quantile(sample=1000)`.

    Example:
        >>> rows = np.array([[0.0, 1.0], [np.e - 1, 1.0]], dtype=np.float32)
        >>> data = Dataset(rows, np.array([0.0, 1.0]), np.array([0, 2]), np.array([1]))
        >>> steps = Preprocessing.parse("log1p,standardise").fit(data)
        >>> steps.transform(data.features)
        array([[-1.,  0.],
               [ 1.,  0.]], dtype=float32)
        >>> config, arrays = steps.to_config()
        >>> config
        {'steps': [{'name': 'log1p'}, {'name': 'standardise'}]}
        >>> str(Preprocessing.from_config(config, arrays))
        'log1p,standardise'
    """

    steps: tuple[PreprocessingStep, ...] = ()  # steps in the order in which they are applied, fitted or not
    # No step changes categorical columns. They become the last columns of the output: 0 for a missing or unknown
    # category, otherwise the number of the category, from 1.
    categorical: tuple[tuple[int, int], ...] = ()  # column and number of categories of each categorical column

    @staticmethod
    def parse(text: str) -> "Preprocessing":
        """Return the preprocessing steps that a text describes; `none` and an empty text describe no steps.

        Args:
            text: names of steps, separated by commas. The value of the first option follows `=` (`clip=10`). Several
                options are in brackets (`quantile(output=uniform, sample=1000)`). The case of letters is ignored.
        """
        steps: list[PreprocessingStep] = []
        for spec in sequence("preprocessing", text):
            name = spec.name.replace("-", "_").replace("standardize", "standardise")
            if spec == ("none", None, {}):
                continue
            if steps and name in _options(steps[-1]):
                must = f"have brackets around several options of {steps[-1].name}, as in {steps[-1].name}(...)"
                bad_value("preprocessing", must, show(text))
            one_of("preprocessing", name, KINDS)
            steps.append(_make(name, no_cutoff("preprocessing", spec, text).options))
        if len(steps) > _MOST_STEPS:
            bad_value("preprocessing", f"have at most {_MOST_STEPS} steps", len(steps))
        return Preprocessing(tuple(steps))

    def __str__(self) -> str:
        return ",".join(map(_text, self.steps)) or "none"

    def fit(self, dataset: Dataset) -> "Preprocessing":
        """Fit the preprocessing on training data, and return a copy. The input of each step is the previous output.

        Args:
            dataset: training lists.
        """
        done: tuple[PreprocessingStep, ...] = ()
        for step in self.steps:
            before = Preprocessing(done, self.categorical)
            blocks = self._blocks(dataset.matrix, dataset.offsets)
            inputs = (before._apply(before._numbers(rows), offsets, None) for rows, offsets in blocks)
            done = (*done, step.fit(inputs) if step.fitted else step)
        return Preprocessing(done, self.categorical)

    @property
    def added(self) -> int:
        """Number of columns that the fitted preprocessing steps add: the indicators of missing values."""
        return sum(step.added for step in self.steps if isinstance(step, FillMissing))

    @property
    def takes_missing(self) -> bool:
        """True if features may be NaN before the preprocessing."""
        return any(isinstance(step, FillMissing) for step in self.steps)

    def sources(self, features: int) -> NDArray[np.int64]:
        """Return the input column of each output column of the preprocessing.

        Args:
            features: number of input columns.
        """
        codes = [column for column, _ in self.categorical]
        found = np.delete(np.arange(features), codes)
        for step in self.steps:
            if isinstance(step, FillMissing) and step.indicated is not None:
                found = np.concatenate([found, found[step.indicated]])
        return np.concatenate([found, np.array(codes, dtype=np.int64)])

    def transform(self, features: Array, offsets: Array | None = None, *, mask: Array | None = None) -> Array:
        """Return the features after all preprocessing steps, as float32.

        Args:
            features: features of flat lists, `(documents, f)`, or of padded lists, `(..., n, f)`; NumPy or PyTorch.
            offsets: offsets of flat lists, `(lists + 1,)`.
            mask: mask of padded lists, `(..., n)`; the output at padding is undefined.
        """
        if is_tensor(features):
            return self._complete(features.float(), offsets, mask)
        if mask is not None or features.ndim != 2:
            return self._complete(np.asarray(features, dtype=np.float32), offsets, mask)
        out, start = np.empty((features.shape[0], features.shape[1] + self.added), dtype=np.float32), 0
        for rows, lists in self._blocks(features, offsets):
            out[start : start + len(rows)] = self._complete(rows, lists, None)
            start += len(rows)
        return out

    def to_config(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
        """Return the names and options of the steps as JSON values, and the fitted arrays for safetensors."""
        config = [{"name": step.name, **_options(step)} for step in self.steps]
        arrays = {
            f"{number}.{name}": getattr(step, name)
            for number, step in enumerate(self.steps)
            for name in step.fitted
            if getattr(step, name) is not None
        }
        categorical = {"categorical": [list(pair) for pair in self.categorical]} if self.categorical else {}
        return {"steps": config, **categorical}, arrays

    @staticmethod
    def from_config(config: dict[str, Any], arrays: dict[str, NDArray[np.float32]]) -> "Preprocessing":
        """Return the preprocessing steps from the result of `to_config`.

        Args:
            config: names and options of the steps.
            arrays: fitted arrays of the steps, by name.
        """
        steps = []
        for number, entry in enumerate(config["steps"]):
            one_of("preprocessing", entry["name"], _SAVED)
            kind = _SAVED[entry["name"]]
            stored = {name: np.asarray(arrays[key]) for name in kind.fitted if (key := f"{number}.{name}") in arrays}
            settings = {key: value for key, value in entry.items() if key != "name"}
            known_options(kind.name, settings, _options(kind()))
            steps.append(kind(**settings, **stored))
        categorical = config.get("categorical", [])
        if not all(
            isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair) for pair in categorical
        ):
            bad_value("categorical", "be pairs of column and number of categories", show(str(categorical)))
        return Preprocessing(tuple(steps), tuple((column, count) for column, count in categorical))

    def _numbers(self, x: Array) -> Array:
        """Return the columns that are not categorical, for the preprocessing steps."""
        if not self.categorical:
            return x
        kept = np.delete(np.arange(x.shape[-1]), [column for column, _ in self.categorical])
        if not is_tensor(x):
            return x[..., kept]
        import torch

        return x.index_select(-1, torch.as_tensor(kept, device=x.device))

    def _codes(self, x: Array) -> Array:
        """Return the categorical columns as category numbers, from 1; 0 for a missing or unknown category."""
        counts: Array = np.array([count for _, count in self.categorical], dtype=np.float32)
        columns = [column for column, _ in self.categorical]
        if not is_tensor(x):
            codes = x[..., columns]
            known = (codes >= 0) & (codes < counts) & (codes == np.floor(codes))  # False for NaN
            return np.where(known, codes + 1, np.float32(0))
        import torch

        codes = x.index_select(-1, torch.tensor(columns, device=x.device))
        known = (codes >= 0) & (codes < torch.as_tensor(counts, device=x.device)) & (codes == codes.floor())
        return torch.where(known, codes + 1, torch.zeros_like(codes))

    def _complete(self, x: Array, offsets: Array | None, mask: Array | None) -> Array:
        """Join the preprocessed features, then the indicators of missing values, then the category numbers."""
        numbers = self._numbers(x)
        parts = [self._apply(numbers, offsets, mask)]
        parts += [step.indicators(numbers) for step in self.steps if isinstance(step, FillMissing) and step.added]
        parts += [self._codes(x)] if self.categorical else []
        if len(parts) == 1:
            return parts[0]
        if not is_tensor(x):
            return np.concatenate(parts, axis=-1)
        import torch

        return torch.cat(parts, dim=-1)

    def _apply(self, x: Array, offsets: Array | None, mask: Array | None) -> Array:
        for step in self.steps:
            x = step.transform(x, offsets, mask)
        return x

    def _blocks(
        self, features: NDArray[Any], offsets: NDArray[np.int64] | None
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64] | None]]:
        """Yield blocks of complete lists, as rows and their offsets; without offsets, yield blocks of rows and None."""
        most = rows_per_block(features, _ROWS)
        if offsets is None:
            for start in range(0, features.shape[0], most):
                yield dense(features[start : start + most]).astype(np.float32, copy=False), None
            return
        first = 0
        while first < len(offsets) - 1:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1)
            rows = dense(features[offsets[first] : offsets[last]]).astype(np.float32, copy=False)
            if len(rows):
                yield rows, offsets[first : last + 1] - offsets[first]
            first = last


def _make(name: str, options: dict[str, Any]) -> PreprocessingStep:
    kind = KINDS[name]
    defaults = _options(kind())
    if "" in options:
        if not defaults:
            bad_value("preprocessing", f"have no option for {name}", show(str(options[""])))
        options = {next(iter(defaults)): options[""]}
    known_options(name, options, defaults)
    given: dict[str, Any] = {}
    for option, value in options.items():
        number = isinstance(defaults[option], float) and isinstance(value, int) and not isinstance(value, bool)
        given[option] = float(value) if number else value.lower() if isinstance(value, str) else value
    return kind(**fit_options(name, given, kind))


def _options(step: PreprocessingStep) -> dict[str, Any]:
    return {field.name: getattr(step, field.name) for field in fields(step) if field.name not in step.fitted}


def _text(step: PreprocessingStep) -> str:
    """Return a preprocessing step as text, such as `clip=3`.

    The options are in brackets if an option other than the first option differs from its default.
    """
    defaults = _options(type(step)())
    options = {
        option: write_number(value) if isinstance(value, float) else value
        for option, value in _options(step).items()
        if value != defaults[option]
    }
    if list(options) == list(defaults)[:1]:
        return "".join(f"{step.name}={value}" for value in options.values()) or step.name
    return write(step.name, options=options, brackets=True)
