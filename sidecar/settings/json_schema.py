"""The JSON Schema of the configuration file, for completion and hints in editors.

Made from the same types as the reader. It is a little wider than the reader: it cannot know what an
environment variable holds, nor check one field against another.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

from msgspec import NODEFAULT, inspect

from sidecar.settings.schema import Settings
from sidecar.settings.units import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    Duration,
    format_duration,
    format_size,
)

Json: TypeAlias = dict[str, Any]
_FROM_ENVIRONMENT: Final[Json] = {"type": "string", "pattern": r"\$\{"}


def settings_schema() -> Json:
    """Return the schema of the whole file (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of the sidecar",
    } | _schema_of(inspect.type_info(Settings))


def _schema_of(kind: inspect.Type) -> Json:
    if isinstance(kind, inspect.Metadata):
        return _schema_of(kind.type) | (kind.extra_json_schema or {})
    if isinstance(kind, inspect.UnionType):
        return _schema_of(next(t for t in kind.types if not isinstance(t, inspect.NoneType)))
    if isinstance(kind, inspect.StructType):
        return _struct_schema(kind)
    if isinstance(kind, inspect.DictType):
        return {"type": "object", "additionalProperties": _schema_of(kind.value_type)}
    if isinstance(kind, inspect.ListType):
        return {
            "type": "array",
            "items": _schema_of(kind.item_type),
            "minItems": kind.min_length or 0,
        }
    return _scalar_schema(kind)


def _struct_schema(kind: inspect.StructType) -> Json:
    schema: Json = {"type": "object", "additionalProperties": False}
    required = [field.encode_name for field in kind.fields if _is_required(field)]
    if required:
        schema["required"] = required
    schema["properties"] = {field.encode_name: _field_schema(field) for field in kind.fields}
    return schema


def _is_required(field: inspect.Field) -> bool:
    extra = field.type.extra if isinstance(field.type, inspect.Metadata) else None
    return field.required or bool((extra or {}).get("is_required"))


def _field_schema(field: inspect.Field) -> Json:
    schema = _schema_of(field.type)
    default = field.default
    if default is NODEFAULT or default is None or _is_required(field):
        return schema
    if isinstance(default, Duration):
        default = format_duration(default)
    elif isinstance(default, int) and "pattern" in schema:
        default = format_size(default)
    return schema | {"default": default}


def _scalar_schema(kind: inspect.Type) -> Json:
    if isinstance(kind, inspect.CustomType):
        pattern = DURATION_PATTERN if kind.cls is Duration else SIZE_PATTERN
        return {"type": "string", "pattern": rf"^{pattern}$|\$\{{"}
    if isinstance(kind, inspect.BoolType):
        return {"anyOf": [{"type": "boolean"}, _FROM_ENVIRONMENT]}
    if isinstance(kind, inspect.IntType):
        integer: Json = {"type": "integer", "minimum": kind.ge}
        if kind.le is not None:
            integer["maximum"] = kind.le
        return {"anyOf": [integer, _FROM_ENVIRONMENT]}
    if isinstance(kind, inspect.LiteralType):
        return {"anyOf": [{"enum": list(kind.values)}, _FROM_ENVIRONMENT]}
    return _text_schema(cast("inspect.StrType", kind))


def _text_schema(kind: inspect.StrType) -> Json:
    schema: Json = {"type": "string"}
    if kind.min_length is not None:
        schema["minLength"] = kind.min_length
    if kind.max_length is not None:
        schema["maxLength"] = kind.max_length
    return schema
