"""The cards of a bundle, each made from its certificate alone.

croissant.json (MLCommons), datapackage.json (Frictionless), deployment.yaml (the registry of DP
deployments) and README.md (a dataset card that Hugging Face reads).
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate, TableClaim
from murmurlog.bundle.facts import facts
from murmurlog.bundle.label import known_keys, periods
from murmurlog.bundle.schema import (
    AT_LEAST,
    BOUNDED_DESCRIPTIONS,
    DESCRIPTIONS,
    IN_LOG,
    LISTS,
    MORE,
    TABLES,
    keys_of,
)
from murmurlog.bundle.table_rules import stated_schema
from murmurlog.privacy.rounding import loss_of_several, odds, round_up_text

VARIANTS = {"dp": "Approximate DP", "pdp": "Probabilistic DP", "none": "None"}
# (Croissant, Frictionless) type of a column by its Arrow type
TYPES = {
    pa.string(): ("sc:Text", "string"),
    pa.int64(): ("sc:Integer", "integer"),
    pa.float64(): ("sc:Float", "number"),
    pa.bool_(): ("sc:Boolean", "boolean"),
    pa.list_(pa.string()): ("sc:Text", "any"),  # frictionless reads no "array" from Parquet
}
# Croissant's official context; readers warn about any other.
CROISSANT_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{
        name: f"cr:{name}"
        for name in (
            *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty"),
            *("fileObject", "fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key"),
            *("md5", "parentField", "path", "recordSet", "references", "regex", "repeated"),
            *("replace", "samplingRate", "separator", "source", "subField", "transform"),
        )
    },
}
NOT_PRIVATE = (
    "NOT PRIVATE: the noise was drawn from a known seed, for demonstration. The guarantee below is "
    "what the same parameters give with secret noise; this bundle does not have it."
)
FOLDED = (
    "Spellings of one query share a key: quotes around it and punctuation after it are dropped, and from "
    "the address of a site http://, www. and a well-known ending such as .com."
)
NO_GUARANTEE = (
    "NO FORMAL PRIVACY GUARANTEE. One person's presence can change this data for sure. It was made "
    "for comparison, on the owner's word, and must not be published."
)


def columns_of(certificate: Certificate, table: str) -> dict[str, str]:
    """The table's columns with their descriptions."""
    unit = certificate.guarantee.unit
    names = stated_schema(certificate, table).names
    descriptions = {**MORE, **DESCRIPTIONS}
    if certificate.tables[table].meaning != IN_LOG:
        descriptions |= BOUNDED_DESCRIPTIONS
    texts = {name: text.format(unit=unit) for name, text in descriptions.items()}
    if period := certificate.period("count_from"):
        texts |= {
            name: f"{texts[name]}, in {period}" for name in ("users", "users_low", "users_high")
        }
    if certificate.text["url"] == "id":
        texts["url"] = "a clicked document, as the log names it"
    if by := certificate.by:
        texts[by.column] = f"one of the public values {', '.join(by.values)}"
    return {name: texts[name] for name in names}


def _types(certificate: Certificate, table: str, standard: int) -> dict[str, str]:
    """The type of each column of a table by Croissant (0) or Frictionless (1)."""
    types = {f.name: TYPES[f.type][standard] for f in stated_schema(certificate, table)}
    claim = certificate.tables[table]
    if claim.meaning == AT_LEAST and standard == 1:
        # Readers of data packages turn a column of empty integers into NaN, which is a number.
        types[f"{claim.count}_high"] = "number"
    return types


def statement(certificate: Certificate) -> str:
    """The guarantee in words: unit first, epsilon as odds and as a number."""
    g = certificate.guarantee
    if g.notion == "none":
        return NO_GUARANTEE
    change = "added or removed" if g.neighbours == "add-remove" else "replaced by another"
    epsilon = round_up_text(g.epsilon, 6)
    unit = f"{g.unit} (an id of the log, not a person)" if g.unit == "user" else g.unit
    about = "whether it is in the log" if g.neighbours == "add-remove" else "which of two it is"
    text = (
        f"Protected unit: one {unit}, {change}. This bundle moves anyone's odds on {about} by a "
        f"factor of at most {odds(g)} (epsilon {epsilon}), but for a chance of at most "
        f"{round_up_text(g.plain_delta)} (delta)."
    )
    if g.notion == "pdp":
        text += (
            f" The tables as they are, though nothing made from them, also have probabilistic "
            f"differential privacy at epsilon {epsilon}, delta {round_up_text(g.delta)}."
        )
    return text if certificate.private else f"{NOT_PRIVATE} {text}"


def croissant(certificate: Certificate, sha256: Mapping[str, str]) -> str:
    """croissant.json; `sha256` gives the digest of each data file."""
    about = certificate.about
    files = [
        {
            "@type": "cr:FileObject",
            "@id": f"{table}.parquet",
            "name": f"{table}.parquet",
            "contentUrl": f"data/{table}.parquet",
            "encodingFormat": "application/x-parquet",
            "sha256": sha256[f"data/{table}.parquet"],
        }
        for table in certificate.tables
    ]
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": table,
            "name": table,
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": f"{table}/{name}",
                    "name": name,
                    "description": description,
                    "dataType": _types(certificate, table, 0)[name],
                    **({"repeated": True} if name in LISTS else {}),
                    "source": {
                        "fileObject": {"@id": f"{table}.parquet"},
                        "extract": {"column": name},
                    },
                }
                for name, description in columns_of(certificate, table).items()
            ],
        }
        for table in certificate.tables
    ]
    return _json(
        {
            "@context": CROISSANT_CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": "http://mlcommons.org/croissant/1.0",
            "name": f"search-log-{certificate.release_id[:8]}",
            "description": f"{_description(certificate)} {statement(certificate)}",
            "license": about.get("license", "not stated"),
            "url": about.get("url", f"urn:uuid:{certificate.release_id}"),
            "creator": {"@type": "sc:Organization", "name": about.get("publisher", "not stated")},
            "datePublished": certificate.published,
            "version": "1.0.0",
            "citeAs": f"{certificate.title}, {certificate.published}, {certificate.release_id}",
            "rai:personalSensitiveInformation": statement(certificate),
            "rai:dataLimitations": " ".join(limits(certificate)),
            "distribution": files,
            "recordSet": records,
        }
    )


def datapackage(certificate: Certificate, sha256: Mapping[str, str]) -> str:
    """datapackage.json."""
    return _json(
        {
            "name": f"search-log-{certificate.release_id[:8]}",
            "id": certificate.release_id,
            "title": certificate.title,
            "description": statement(certificate),
            "created": f"{certificate.published}T00:00:00Z",
            **facts(certificate, sha256),
            "resources": [
                {
                    "name": table,
                    "path": f"data/{table}.parquet",
                    "format": "parquet",
                    "mediatype": "application/x-parquet",
                    "hash": f"sha256:{sha256[f'data/{table}.parquet']}",
                    "schema": {
                        "fields": [
                            {
                                "name": name,
                                "type": _types(certificate, table, 1)[name],
                                "description": description,
                            }
                            for name, description in columns_of(certificate, table).items()
                        ],
                        **_primary_key(keys_of(table, certificate.by)),
                    },
                }
                for table in certificate.tables
            ],
        }
    )


def _primary_key(keys: tuple[str, ...]) -> dict[str, list[str]]:
    """The key of a table for Frictionless, which cannot hold lists in one."""
    return {} if set(keys) & set(LISTS) else {"primaryKey": list(keys)}


def deployment(certificate: Certificate) -> str:
    """deployment.yaml, in the form of the registry of deployments; the owner fills what is left."""
    g, about = certificate.guarantee, certificate.about
    change = "adding or removing" if g.neighbours == "add-remove" else "replacing"
    mechanisms = "; ".join(f"{t}: {c.mechanism}" for t, c in certificate.tables.items())
    users, stated = certificate.declared_users, g.as_json()
    fields: dict[str, Any] = {
        "url_slug": f"search-log-{certificate.release_id[:8]}",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": certificate.title,
                "data_curators": [about.get("publisher", "not stated")],
                "intended_use": about.get("description", "Research and product work on search."),
                "data_product_type": "Dataset",
                "data_product_region": about.get("region", "not stated"),
                "description": _description(certificate),
                "publication_date": certificate.published,
                "data_product_sector": "Technology",
            },
            "dp_variant": {
                "variant_name": VARIANTS[g.notion],
                "data_domain": "Search logs: rows of user id, time, query and clicked url.",
                "unprotected_quantities": "; ".join(certificate.unprotected) or "None.",
            },
            "privacy_loss": {
                "privacy_unit": g.unit,
                "privacy_unit_details": f"Neighbouring logs differ by {change} all rows of one "
                f"{g.unit}. A unit is an id of the log; a person with several ids has the group "
                "privacy of that many units.",
                "privacy_parameters": {name: stated[name] for name in ("epsilon", "delta")},
                "privacy_parameters_details": ("" if certificate.private else f"{NOT_PRIVATE} ")
                + _accounting(certificate)
                + ("" if users is None else f" Declared users: {users}."),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The curator holds the log and is trusted; readers of the bundle are not.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": f"{_corrections(certificate)}; rows sorted.",
                "composition": f"Sequential: {certificate.composition}.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"Text normalised record by record "
                f"({certificate.text_rules}; urls: {certificate.text['url']}; screened for: "
                f"{', '.join(certificate.text['screen']) or 'nothing'}); each unit's distinct items "
                f"bounded ({certificate.bound}) before {_bounded_step(certificate)}.",
                "mechanisms": f"{mechanisms}. murmurlog {certificate.murmurlog}; integer noise by "
                f"exact inversion, entropy: {certificate.sampler['entropy']}.",
            },
            "administrative": {"registry_authors": [about.get("publisher", "not stated")]},
        },
    }
    return _yaml(fields)


def readme(certificate: Certificate, sha256: Mapping[str, str]) -> str:
    """README.md: a dataset card, with the front matter that Hugging Face reads."""
    about, g = certificate.about, certificate.guarantee
    front = {
        "license": "other",
        "license_name": about.get("license", "not stated"),
        "pretty_name": certificate.title,
        "configs": [
            {"config_name": table, "data_files": f"data/{table}.parquet"}
            for table in certificate.tables
        ],
        **facts(certificate, sha256),
    }
    lines = ["---", _yaml(front).rstrip(), "---", "", f"# {certificate.title}", ""]
    lines += [
        _paragraph(_description(certificate)),
        "",
        "## Privacy",
        "",
        statement(certificate),
        "",
    ]
    lines += ["| table | rows | mechanism | epsilon | delta |", "|---|---|---|---|---|"]
    for table, claim in certificate.tables.items():
        guarantee, epsilon, delta = claim.guarantee, "none", "none"
        if guarantee.notion != "none":
            epsilon, delta = round_up_text(guarantee.epsilon, 6), round_up_text(guarantee.delta)
        lines.append(f"| {table} | {claim.rows} | `{claim.mechanism}` | {epsilon} | {delta} |")
    lines += [
        "",
        f"All figures are per {g.unit} ({g.neighbours}). Check them: `murmurlog verify .`",
        "",
    ]
    lines += ["## Tables", ""]
    for table in certificate.tables:
        lines += [f"`data/{table}.parquet`: {TABLES[table].contents}", ""]
        lines += [f"- `{name}`: {text}" for name, text in columns_of(certificate, table).items()]
        lines.append("")
    for table, claim in certificate.tables.items():
        if claim.notes.get("searches left out, %") is not None:
            lines += [
                f"{claim.notes['searches left out, %']} % of searches were of queries that are not "
                "here.",
                "",
            ]
        if claim.notes:
            remarks = "; ".join(f"{name}: {value}" for name, value in claim.notes.items())
            lines += [f"How `{table}` was made: {remarks}.", ""]
    first = next(iter(certificate.tables))
    lines += ["## Load", "", "```python", "import duckdb"]
    lines += [f"duckdb.sql(\"from 'data/{first}.parquet' limit 10\")", "```", ""]
    lines += ["## Limits", "", *(f"- {limit}" for limit in limits(certificate)), ""]
    if g.assumptions:
        lines += ["## What the guarantee assumes", ""]
        stated = certificate.as_json()["assumptions"]
        lines += [f"- {name}: {text}" for name, text in stated.items()]
    lines += ["", f"Release {certificate.release_id}, {certificate.published}, "]
    lines[-1] += f"murmurlog {certificate.murmurlog}."
    return "\n".join(lines) + "\n"


def _accounting(certificate: Certificate) -> str:
    if certificate.guarantee.notion == "none":
        return NO_GUARANTEE
    return f"Exact theorem for each table; together: {certificate.composition}."


def _description(certificate: Certificate) -> str:
    contents = ", ".join(TABLES[table].contents for table in certificate.tables)
    return certificate.about.get("description", f"Parts of a search log ({contents}).")


def _paragraph(text: str) -> str:
    """A line by the owner, escaped so that Markdown reads it as a paragraph."""
    text = text.lstrip()
    return f"\\{text}" if text[:1] in tuple("#>-+*=_|~`<[!") else text


def limits(certificate: Certificate) -> list[str]:
    """Sentences on the limits of a release."""
    g = certificate.guarantee
    if g.notion == "none":
        return [NO_GUARANTEE]
    sentences = [
        "Rare items are missing by design, and some frequent ones by chance.",
        "What many users have in common is published, whatever it is about.",
    ]
    if counts := counts_note(certificate):
        sentences.insert(0, counts)
    if certificate.keys:
        sentences.append(FOLDED)
    if "log" in certificate.tables:
        sentences.insert(0, "The users of `log` are invented; no row of it is anybody's.")
    if any("expected_fakes" in claim.parameters for claim in certificate.tables.values()):
        sentences.append(
            "Some rows hold what nobody asked; their noise alone reached the threshold."
        )
    if selected := certificate.period("select_from"):
        sentences.insert(0, periods(certificate, selected))
    if certificate.after:
        sentences.append(known_keys(certificate))
    if g.unit != "user":
        sentences.append(loss_of_several(g.unit))
    if certificate.unprotected:
        sentences.append("The guarantee is conditional on: " + "; ".join(certificate.unprotected))
    return sentences


def _in_log(certificate: Certificate) -> list[bool]:
    """Of each table with counts, whether they are of all units in the log."""
    return [claim.meaning == IN_LOG for claim in certificate.tables.values() if claim.count]


def _corrections(certificate: Certificate) -> str:
    corrections = {
        "Numbers of units in the log estimated from weighted counts": any(_in_log(certificate)),
        "selection bias taken out of counts": not all(_in_log(certificate) or [False]),
    }
    text = "; ".join(text for text, applies in corrections.items() if applies)
    return text[:1].upper() + text[1:]


def _bounded_step(certificate: Certificate) -> str:
    """What a unit's items are bounded for: counts of all units in the log use all items."""
    in_log = _in_log(certificate)
    if all(in_log or [False]):
        return "selection; counts use all of them"
    return "counting" if not any(in_log) else "selection, and in some tables before counting"


def counts_note(certificate: Certificate) -> str:
    """Sentences on what the published counts count; empty where none are published."""
    unit = certificate.guarantee.unit
    counted = {name: claim for name, claim in certificate.tables.items() if claim.count}
    if not counted:
        return ""
    if all(claim.meaning is None for claim in counted.values()):
        return _bounded_note(unit, counted)
    by_meaning: dict[str, list[str]] = {}
    for name, claim in counted.items():
        by_meaning.setdefault(_meaning(unit, claim), []).append(name)
    if len(by_meaning) == 1:
        return f"{next(iter(by_meaning))} They are not traffic."
    sentences = [f"{', '.join(names)}: {t[:1].lower()}{t[1:]}" for t, names in by_meaning.items()]
    return f"{' '.join(sentences)} They are not traffic."


def _meaning(unit: str, claim: TableClaim) -> str:
    """What the counts of a table are about."""
    if claim.meaning == IN_LOG:
        return f"Counts are estimates of how many {unit}s in the log hold the item."
    if claim.count == "rows":
        return f"Counts are of rows, a few of each {unit}: the log has at least as many, up to the noise."
    return (
        f"Counts are of {unit}s, each with a few of its items: the log has at least as many, up to the "
        "noise."
    )


def _bounded_note(unit: str, claims: Mapping[str, TableClaim]) -> str:
    """A sentence for bundles before version 0.2, whose tables do not state what counts are about."""
    rows = [name for name, claim in claims.items() if claim.count == "rows"]
    if not rows:
        counted = f"{unit}s after each was bounded to a few distinct items"
    elif len(rows) == len(claims):
        counted = f"rows after each {unit} was bounded to a few"
    else:
        counted = f"{unit}s, in {', '.join(rows)} of rows, after each {unit} was bounded to a few"
    return f"Counts are of {counted}, plus noise; they are not traffic."


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _yaml(value: Any, depth: int = 0) -> str:
    """Plain dicts, lists and scalars as block YAML; a scalar's JSON is valid YAML."""
    pad = "  " * depth
    if isinstance(value, dict):
        return "".join(
            f"{pad}{key}:\n{_yaml(item, depth + 1)}"
            if isinstance(item, dict | list)
            else f"{pad}{key}: {_yaml_scalar(item)}\n"
            for key, item in value.items()
        )
    return "".join(
        f"{pad}- {_yaml(item, depth + 1).lstrip()}"
        if isinstance(item, dict)
        else f"{pad}- {_yaml_scalar(item)}\n"
        for item in value
    )


def _yaml_scalar(value: Any) -> str:
    # YAML 1.1 reads 1e-06 as text; 1.0e-06 is a number everywhere.
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value, ensure_ascii=False)
