"""Reading of YAML: 1e-3 is a number, a key given twice is an error, and a small file cannot become a large value."""

import re
from typing import Any

import yaml

from rankgrad.experiments.recipes.errors import RecipeError

BYTES = 250_000  # of a file; the largest recipe of ours has 4,000
VALUES = 10_000  # of a file, with each alias counted as what it stands for; the largest recipe of ours has 400
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def parse_yaml(content: bytes, name: str) -> Any:
    """What YAML holds; `name` is that of its file, for errors."""
    if len(content) > BYTES:
        raise RecipeError(f"{name} must be at most {BYTES:,} bytes ({_BEYOND}); got {len(content):,}")
    try:
        loader = _Loader(content.decode("utf-8"))
        node = loader.get_single_node()
        if node is None:
            return None
        count = _count(node, {}, ())
        if count > VALUES:
            raise RecipeError(f"{name} must hold at most {VALUES:,} values ({_BEYOND}); got {count:,}")
        return loader.construct_document(node)
    except RecursionError:
        raise RecipeError(f"{name} must be YAML; got values that are nested too deeply") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{name} must be text in UTF-8; got byte 0x{content[error.start]:02x}") from None
    except RecipeError:
        raise
    except (yaml.YAMLError, ValueError, TypeError) as error:  # dates and numbers that are none raise the latter
        raise RecipeError(f"{name} must be YAML; got {' '.join(str(error).split())}") from None


_BEYOND = "several recipes may share a folder of results"


def _count(node: yaml.Node, known: dict[int, int], above: tuple[int, ...]) -> int:
    """The number of values under a node, where each alias stands for all of its own."""
    if id(node) in above:
        raise yaml.YAMLError("a value that holds itself")
    if isinstance(node, yaml.ScalarNode):
        if odd := _UNSEEN.search(node.value):
            raise yaml.YAMLError(f"the control character {odd[0]!a}{node.start_mark}")
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
            own = self.construct_object(key, deep=True)
            try:
                if own in seen:
                    raise yaml.YAMLError(f"{own!r} twice in one mapping{node.start_mark}")
                seen.add(own)
            except TypeError:
                raise yaml.YAMLError(f"a key that is no text or number{key.start_mark}") from None
        return super().construct_mapping(node, deep)


# YAML 1.1, which PyYAML reads, takes 1e-3 for text: it asks for a point.
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))
