"""TypeScript types of the HTTP API, made from its OpenAPI description; `python -m tests.support.typescript_types`.

The file that it writes, `clients/typescript/src/api.ts`, is committed. A test checks that it is current.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from interleaf.experiment import limits
from interleaf.server.openapi import description
from tests.support.paths import ROOT

API = ROOT / "clients" / "typescript" / "src" / "api.ts"
HEAD = """/** Types of the HTTP API and limits of its values, made by `python -m tests.support.typescript_types`. */

"""


def api_types() -> str:
    """The text of the file."""
    document = description()
    records = [record_type(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    bounds = "".join(f"  {name}: {value:_},\n" for name, value in vars(limits).items() if name.startswith("MAX_"))
    return HEAD + "\n".join([*records, calls_type(document), f"export const LIMITS = {{\n{bounds}}} as const;\n"])


def record_type(name: str, schema: dict[str, Any]) -> str:
    """An interface for a record of the API."""
    lines = [f"export interface {name} {{"]
    required = schema.get("required", ())
    for field, kind in schema["properties"].items():
        if "description" in kind:
            lines.append(f"  /** {kind['description']} */")
        lines.append(f"  {field}{'' if field in required else '?'}: {type_of(kind)};")
    meaning = " ".join(schema.get("description", "").split())
    return (f"/** {meaning} */\n" if meaning else "") + "\n".join([*lines, "}"]) + "\n"


def calls_type(document: dict[str, Any]) -> str:
    """All calls that answer with JSON: the types of their parameters, requests and responses."""
    lines = ["/** The calls of the API that answer with JSON. */", "export interface Calls {"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            gives = next(content_types(operation["responses"]), None)
            if gives is not None:
                takes = next(content_types({"": operation.get("requestBody", {})}), "undefined")
                parts = [f"path: {parameters(operation, 'path')}", f"query: {parameters(operation, 'query')}"]
                body = "; ".join([*parts, f"takes: {takes}", f"gives: {gives}"])
                lines += [f"  /** {operation['summary']} */", f'  "{method.upper()} {path}": {{ {body} }};']
    return "\n".join([*lines, "}"]) + "\n"


def content_types(bodies: dict[str, Any]) -> Iterator[str]:
    """The types of JSON contents, that of the first status first."""
    for body in list(bodies.values())[:1]:
        content = body.get("content", {}).get("application/json")
        if content is not None:
            yield type_of(content["schema"])


def parameters(operation: dict[str, Any], place: str) -> str:
    """The type of the parameters in the path or in the query."""
    some = [one for one in operation.get("parameters", ()) if one["in"] == place]
    fields = [f"{one['name']}{'' if one.get('required') else '?'}: {type_of(one['schema'])}" for one in some]
    return f"{{ {'; '.join(fields)} }}" if fields else "Record<string, never>"


def type_of(schema: dict[str, Any]) -> str:
    """The type of a JSON schema."""
    if "$ref" in schema:
        return re.sub(r".*/", "", schema["$ref"])
    if "anyOf" in schema:
        return " | ".join(map(type_of, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    match schema.get("type"):
        case "array":
            item = type_of(schema["items"])
            return f"({item})[]" if " " in item else f"{item}[]"
        case "object":
            return f"Record<string, {type_of(schema.get('additionalProperties', {}))}>"
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as kind:
            return str(kind)
        case _:
            return "unknown"


if __name__ == "__main__":
    API.write_text(api_types(), encoding="utf-8")
