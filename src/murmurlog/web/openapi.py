"""The OpenAPI 3.1 description of /api, which the page /api shows too."""

from typing import Any

from murmurlog import __version__
from murmurlog.bundle.schema import AT_LEAST, IN_LOG
from murmurlog.web.index import SORTS
from murmurlog.web.top_list import SIZES


def _parameter(
    name: str, words: str, kind: dict[str, Any] | None = None, *, required: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": words,
        "schema": kind or {"type": "string"},
    }


BUNDLE = _parameter("b", "the bundle, by name; the first one if left out")
COUNT = {
    "type": ["object", "null"],
    "description": "a published count; null where the table has none",
    "properties": {
        "value": {"type": "number", "description": "noisy"},
        "of": {"type": "string", "description": "the unit of the count: users, or rows"},
        "meaning": {
            "enum": [IN_LOG, AT_LEAST, None],
            "description": "what the interval is about: the number in the log, or the least number "
            "in the log; null in bundles before version 0.2, whose counts are of bounded items",
        },
        "low": {"type": ["number", "null"], "description": "lower end of the interval"},
        "high": {
            "type": ["number", "null"],
            "description": "upper end; null where the log may have any number more than were counted",
        },
        "confidence": {"type": ["number", "null"]},
        "stderr": {"type": ["number", "null"]},
        "reliable": {"type": "boolean", "description": "error at most a quarter of the count"},
    },
}
ERROR = {
    "type": "object",
    "required": ["status", "error"],
    "properties": {"status": {"type": "integer"}, "error": {"type": "string"}},
}
FAULTS = {
    "400": "a parameter is wrong; the message names it",
    "404": "there is no such bundle",
    "429": "too many requests",
}


def _answer(words: str) -> dict[str, Any]:
    faults = {
        status: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})}
        for status, text in FAULTS.items()
    }
    return {"200": {"description": words, "content": _json({"type": "object"})}, **faults}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _get(name: str, summary: str, answer: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": list(parameters),
            "responses": _answer(answer),
        }
    }


PATHS: dict[str, Any] = {
    "/api/bundles": _get(
        "bundles", "The bundles that are shown", "their names, titles, tables and guarantees"
    ),
    "/api/complete": _get(
        "complete",
        "The most frequent published queries with a prefix",
        "the queries with their counts and intervals, the most frequent first",
        BUNDLE,
        _parameter("q", "the prefix", required=True),
        _parameter("k", "how many", {"type": "integer", "minimum": 1, "maximum": 50}),
    ),
    "/api/query": _get(
        "query",
        "Everything published about a query",
        "counts with intervals, clicks, previous and next queries, related queries",
        BUNDLE,
        _parameter("q", "the query; normalised by the rules of the release", required=True),
    ),
    "/api/top": _get(
        "top",
        "Rows of a table, filtered, sorted and in pages",
        "one page of rows",
        BUNDLE,
        _parameter("table", "the table; the first one if left out"),
        _parameter("match", "a prefix of the key, or a pattern with * and ?"),
        _parameter("column", "the key column to match; the first one if left out"),
        _parameter("sort", "the sort key", {"enum": list(SORTS)}),
        _parameter("order", "the sort order", {"enum": ["falling", "rising"]}),
        _parameter("page", "the page number, from 1", {"type": "integer", "minimum": 1}),
        _parameter("size", "rows per page", {"enum": [str(n) for n in SIZES]}),
    ),
    "/api/certificate": _get(
        "certificate", "The certificate of a bundle", "privacy.json and the checksums", BUNDLE
    ),
    "/api/verify": _get(
        "verify", "Check the bundle now, as murmurlog verify does", "every check", BUNDLE
    ),
    "/api/compare": _get(
        "compare",
        "Two bundles: gained, lost and changed rows, and the combined privacy cost",
        "the numbers and the first rows of each list",
        BUNDLE,
        _parameter("with", "the other bundle", required=True),
        _parameter("table", "the table; the first that both have if left out"),
    ),
    "/api/openapi.json": _get("openapi", "This description", "OpenAPI 3.1"),
}


def description() -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "murmurlog: published releases",
            "version": __version__,
            "description": "Read-only. Every number is noisy and already published; requests cost no "
            "privacy.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": PATHS,
        "components": {"schemas": {"Error": ERROR, "Count": COUNT}},
    }
