"""Read the YAML of a recipe safely.

The text 1e-3 is a number, a duplicate key is an error, and the number of values is limited, with aliases expanded.
"""

import re
from typing import Any

import yaml

from rankgrad.experiments.recipes.errors import RecipeError

BYTES = 250_000  # maximum size of a file; our largest recipe has 4,000 bytes
VALUES = 10_000  # maximum number of values in a file, with aliases expanded; our largest recipe has 400
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def parse_yaml(content: bytes, name: str) -> Any:
    """Parse the YAML of a recipe; `name` is the name of the file in error messages."""
    if len(content) > BYTES:
        raise RecipeError(f"{name} must be at most {BYTES:,} bytes long ({_BEYOND}); got {len(content):,} bytes")
    try:
        loader = _Loader(content.decode("utf-8"))
        node = loader.get_single_node()
        if node is None:
            return None
        count = _count(node, {}, ())
        if count > VALUES:
            raise RecipeError(f"{name} must contain at most {VALUES:,} values ({_BEYOND}); got {count:,} values")
        return loader.construct_document(node)
    except RecursionError:
        raise RecipeError(f"{name} must be YAML; got values that are nested too deeply") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{name} must be text in UTF-8; got byte 0x{content[error.start]:02x}") from None
    except RecipeError:
        raise
    except (yaml.YAMLError, ValueError, TypeError) as error:  # an invalid date or number is not a YAMLError
        raise RecipeError(f"{name} must be YAML; got the error {' '.join(str(error).split())}") from None


_BEYOND = "divide the recipe into several recipes, which may share a results folder"


def _count(node: yaml.Node, known: dict[int, int], above: tuple[int, ...]) -> int:
    """Return the number of values under a YAML node of a recipe, with aliases expanded."""
    if id(node) in above:
        raise yaml.YAMLError("a value contains itself")
    if isinstance(node, yaml.ScalarNode):
        if odd := _CONTROL.search(node.value):
            raise yaml.YAMLError(f"the control character {odd[0]!a} is not allowed{node.start_mark}")
        return 1
    if id(node) not in known:
        inner = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + sum(_count(each, known, (*above, id(node))) for each in inner)
    return known[id(node)]


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            name = self.construct_object(key, deep=True)
            try:
                if name in seen:
                    raise yaml.YAMLError(f"the key {name!r} is given twice in one mapping{node.start_mark}")
                seen.add(name)
            except TypeError:
                raise yaml.YAMLError(f"a key must be text or a number{key.start_mark}") from None
        return super().construct_mapping(node, deep)


# PyYAML reads YAML 1.1, in which 1e-3 is text, because a float needs a decimal point.
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))
