"""Describe the files that a run leaves behind as JSON schemas, each field with the text below it in the source.

The texts are read when a schema is asked for. Pydantic would read them whenever a command starts, from the source of
every class, which takes longer than all else about its models.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from typing import Any, get_args, get_type_hints

from canarybank.run.commitment import Record

__all__ = ["described_schema", "field_texts"]


def described_schema(kind: type[Record]) -> dict[str, Any]:
    """Return the JSON schema of a record and all its parts, in which every field says what it is."""
    schema = kind.model_json_schema()
    parts = {part.__name__: part for part in _parts(kind, set())}
    for name, part in (*schema["$defs"].items(), (kind.__name__, schema)):
        said = field_texts(parts[name]) if name in parts else {}
        for field, text in said.items():
            if field in part.get("properties", {}):
                part["properties"][field].setdefault("description", text)
    return schema


def field_texts(kind: type) -> dict[str, str]:
    """Return the text below each field of a class, as its source has it."""
    (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(parsed, ast.ClassDef)  # noqa: S101, a class was asked for
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(parsed.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _parts(hint: Any, seen: set[Any]) -> Iterator[type]:
    """Yield the records and dataclasses of which a type is made, itself included, each once."""
    if isinstance(hint, type) and (issubclass(hint, Record) or is_dataclass(hint)):
        if hint not in seen:
            seen.add(hint)
            yield hint
            for inner in get_type_hints(hint).values():
                yield from _parts(inner, seen)
        return
    for inner in get_args(hint):
        yield from _parts(inner, seen)
