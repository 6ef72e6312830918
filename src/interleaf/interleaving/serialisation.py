"""An impression as plain data: `to_dict` writes it, and the other functions check it when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from interleaf.errors import ListError
from interleaf.interleaving.rankings import MAX_DOCUMENTS, Document, Rankings, check_fixed, check_rankers, text_id
from interleaf.kernels.arrays import Array
from interleaf.kernels.randomness import is_key
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme

if TYPE_CHECKING:
    from interleaf.interleaving.api import Interleaving

MIN_LOG = -1e300


def to_dict(shown: Interleaving, rankings: bool, probability: bool) -> dict[str, Any]:
    """The columns of the log, ready for JSON; `log_probability` is None if the list is impossible."""
    log_probability = shown.log_probability if probability else shown.known_log_probability
    data = {
        "method": shown.method,
        "key": shown.key,
        "rankers": list(shown.rankers),
        "documents": _plain(shown.documents),
        "ranks": shown.ranks.tolist(),
        "teams": None if shown.teams is None else list(shown.teams),
        "lengths": list(shown.lengths),
        "union": shown.union,
        "choices": None if shown.choices is None else list(shown.choices),
        "log_probability": log_probability if log_probability is None or math.isfinite(log_probability) else None,
        "relaxed": shown.relaxed,
    }
    if rankings and shown.rankings is not None:
        data["rankings"] = [_plain(ranking) for ranking in shown.rankings]
    if resolve(shown.method).method.logs_unshown_ranks and shown.unshown_ranks is not None:
        data["unshown_ranks"] = shown.unshown_ranks.tolist()
    if shown.fixed:
        data["fixed"] = dict(zip(map(str, shown.fixed), _plain(list(shown.fixed.values())), strict=True))
    return data


def _plain(documents: Sequence[Document]) -> list[Any]:
    """Documents for JSON: numpy numbers become Python numbers."""
    if not any(issubclass(kind, np.generic) for kind in set(map(type, documents))):
        return list(documents)
    return [document.item() if isinstance(document, np.generic) else document for document in documents]


def check_fields(data: Mapping[str, Any], chosen: ResolvedMethod) -> dict[str, Any]:
    """The fields of an `Interleaving` from stored data, each checked against the others."""
    documents = check_documents(data.get("documents"))
    rankers = tuple(_sequence(data.get("rankers"), "rankers"))
    check_rankers(rankers, chosen)
    lengths = _integers(data.get("lengths"), "lengths", len(rankers), min_value=0)
    if max(lengths) > MAX_DOCUMENTS:
        raise ListError(f"lengths are {lengths}; a ranking holds at most {MAX_DOCUMENTS:,} documents")
    union = _integers([data.get("union")], "union", 1, min_value=len(documents))[0]
    if not max(lengths) <= union <= sum(lengths):
        raise ListError(
            f"union is {union}, but rankings of lengths {lengths} hold {max(lengths)} to {sum(lengths)} documents"
        )
    ranks = _ranks(data, lengths, len(documents))
    rankings = None if data.get("rankings") is None else _rankings(data, lengths)
    if rankings is not None:
        _check_agreement(dict(zip(rankers, rankings, strict=True)), documents, ranks)
    return {
        "documents": documents,
        "rankers": rankers,
        "method": chosen.text,
        "teams": check_teams(data.get("teams"), len(documents), len(rankers), chosen),
        "ranks": ranks,
        "lengths": lengths,
        "union": union,
        "choices": None if data.get("choices") is None else _choices(data, len(documents), union),
        **check_extras(data),
        "rankings": rankings,
        "known_unshown_ranks": _unshown_ranks(data, lengths, len(documents)),
    }


def _rankings(data: Mapping[str, Any], lengths: tuple[int, ...]) -> tuple[tuple[Document, ...], ...]:
    """Input rankings that were stored in addition to the ranks, in the order of the rankers."""
    rankings = tuple(tuple(_sequence(one, "rankings")) for one in _sequence(data.get("rankings"), "rankings"))
    if tuple(map(len, rankings)) != lengths:
        raise ListError(
            f"rankings hold {tuple(map(len, rankings))} documents, but lengths are {lengths}; store the same"
        )
    return rankings


def _check_agreement(rankings: Mapping[str, Sequence[Any]], documents: Sequence[Document], ranks: Array) -> None:
    """Check that stored rankings have the shown documents at the stored ranks."""
    for (ranker, ranking), row in zip(rankings.items(), ranks.tolist(), strict=True):
        try:
            places = {document: rank for rank, document in enumerate(ranking, 1)}
        except TypeError:
            raise ListError(f"the ranking of {ranker!r} holds something that is not a document id") from None
        if (computed := [places.get(document, 0) for document in documents]) != row:
            raise ListError(
                f"the ranking of {ranker!r} has the shown documents at ranks {computed}, but its ranks are {row}; "
                "store rankings and ranks of the same list, or only one of them"
            )


def check_extras(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that do not follow from ranks or rankings: key, probability, relaxed, fixed documents."""
    key, log_probability, relaxed = data.get("key"), data.get("log_probability"), data.get("relaxed")
    if key is not None and not is_key(key):
        raise ListError(f"key is {key!r}; it is 'k1:' and 32 hexadecimal digits, or null")
    if log_probability is not None:
        if not isinstance(log_probability, (int, float)) or not MIN_LOG <= log_probability <= 1e-9:
            raise ListError(
                f"log_probability is {log_probability!r}; it is the log of a probability, at most 0, or null"
            )
        log_probability = float(log_probability)
    if relaxed is not None and not isinstance(relaxed, bool):
        raise ListError(f"relaxed is {relaxed!r}; it is true, false or null")
    return {"key": key, "relaxed": relaxed, "known_log_probability": log_probability, "fixed": _check_fixed(data)}


def _check_fixed(data: Mapping[str, Any]) -> dict[int, Document]:
    """Documents at fixed ranks, which are texts in JSON; none of them is among the shown documents."""
    fixed = data.get("fixed")
    if fixed is None:
        return {}
    if isinstance(fixed, Mapping):
        fixed = {_parse_rank(rank): document for rank, document in fixed.items()}
    fixed = check_fixed(fixed, error=ListError)
    texts = set(map(text_id, data["documents"]))
    for rank, document in fixed.items():
        if text_id(document) in texts:
            raise ListError(f"fixed holds {document!r} at rank {rank}, which is in documents, too; leave it out of one")
    return fixed


def _parse_rank(rank: Any) -> Any:
    """A rank that is a key of a JSON object, and so a text, as a number."""
    return int(rank) if isinstance(rank, str) and rank.isdecimal() and len(rank) < 10 else rank


def rankings_and_documents(data: Mapping[str, Any], chosen: ResolvedMethod) -> tuple[Rankings, Sequence[Any]]:
    """The input rankings, by name, and the shown documents, from which missing ranks are computed."""
    rankings = data["rankings"]
    if data.get("rankers") is not None:
        names = tuple(_sequence(data.get("rankers"), "rankers"))
        check_rankers(names, chosen)
        keys = names if isinstance(rankings, Mapping) else tuple(range(len(names)))
        by_key = rankings if isinstance(rankings, Mapping) else dict(enumerate(_sequence(rankings, "rankings")))
        if set(by_key) != set(keys):
            raise ListError(f"rankings are of {tuple(by_key)!r}, but rankers are {names!r}; give a ranking per ranker")
        rankings = {name: by_key[key] for name, key in zip(names, keys, strict=True)}
    return rankings, _sequence(data.get("documents"), "documents")


def check_documents(documents: Any) -> tuple[Document, ...]:
    """The shown documents; a list holds each of them once."""
    shown = tuple(_sequence(documents, "documents"))
    try:
        if len(set(shown)) == len(shown):
            return shown
    except TypeError:
        raise ListError(f"the shown list {shown!r} holds something that is not a document id") from None
    repeated = next(document for document in shown if shown.count(document) > 1)
    raise ListError(f"document {repeated!r} is shown twice; a list holds each document once")


def check_teams(teams: Any, count: int, rankers: int, chosen: ResolvedMethod) -> tuple[int, ...] | None:
    """Teams that fit the list: an owner for each position, -1 for nobody; or None where the method has none."""
    if teams is not None and not chosen.method.has_teams:
        raise ListError(f"{chosen.method.name} has no teams, but {teams!r} were given; leave them out")
    if teams is None:
        if "teams" in chosen.method.needs:
            raise ListError(
                f"{chosen.method.name} credits teams: give the owner of each shown document (0, 1, ...; -1 nobody)"
            )
        return None
    owners = _integers(teams, "teams", count, min_value=-1)
    for position, owner in enumerate(owners):
        if owner >= rankers:
            raise ListError(
                f"rank {position + 1} is owned by ranker {owner}, but rankers are numbered 0 to {rankers - 1}"
            )
    return owners


def check_needs(shown: Interleaving, chosen: ResolvedMethod, scheme: Scheme) -> None:
    """Check that the list has all fields that the scheme needs to compute credit."""
    for need in chosen.method.needs_of(scheme):
        if getattr(shown, need) is None:
            raise ListError(
                f"{chosen.method.name} needs {need!r} to credit a list by {scheme.name!r}, and this one has none; "
                "log it, or score by another scheme or method"
            )


def _ranks(data: Mapping[str, Any], lengths: tuple[int, ...], count: int) -> Array:
    rows = _sequence(data.get("ranks"), "ranks")
    if len(rows) != len(lengths):
        raise ListError(f"ranks has {len(rows)} rows for {len(lengths)} rankers; give a row per ranker")
    for ranker, row in enumerate(rows):
        name = f"ranks of ranker {ranker}"
        positive = [rank for rank in _integers(row, name, count, min_value=0) if rank]
        if len(set(positive)) < len(positive) or max(positive, default=0) > lengths[ranker]:
            raise ListError(
                f"{name} are {row!r}; a ranking of {lengths[ranker]} documents has ranks 1 to {lengths[ranker]}, "
                "each once, and 0 for a document that it lacks"
            )
    ranks = np.array(rows, np.int32)
    if not ranks.any(axis=0).all():
        position = int(np.argmin(ranks.any(axis=0)))
        raise ListError(
            f"the document at rank {position + 1} is in no ranking (its ranks are all 0); at least one must hold it"
        )
    return ranks


def _unshown_ranks(data: Mapping[str, Any], lengths: tuple[int, ...], count: int) -> Array | None:
    """The ranks of unshown documents; with those of the shown ones they are the top of each ranking, each rank once."""
    if data.get("unshown_ranks") is None:
        return None
    rows = _sequence(data["unshown_ranks"], "unshown_ranks")
    if len(rows) != len(lengths):
        raise ListError(f"unshown_ranks has {len(rows)} rows for {len(lengths)} rankers; give a row per ranker")
    width = len(_sequence(rows[0], "unshown_ranks"))
    for ranker, (row, shown) in enumerate(zip(rows, _sequence(data.get("ranks"), "ranks"), strict=True)):
        name = f"unshown_ranks of ranker {ranker}"
        ranks = [rank for rank in (*_integers(row, name, width, min_value=0), *shown) if 0 < rank <= count]
        if sorted(ranks) != list(range(1, min(count, lengths[ranker]) + 1)):
            raise ListError(
                f"{name} are {row!r}, and ranks {list(shown)!r}; together they have each rank from 1 to "
                f"{min(count, lengths[ranker])} once, because the list has {count} documents"
            )
    return np.array(rows, np.int32).reshape(len(lengths), width)


def _choices(data: Mapping[str, Any], count: int, union: int) -> tuple[int, ...]:
    choices = _integers(data.get("choices"), "choices", count, min_value=1)
    for position, (size, previous) in enumerate(zip(choices, (0, *choices), strict=False)):
        if not max(previous, position + 1) <= size <= union:
            raise ListError(
                f"choices are {choices}; at rank x they count the documents of all top x: "
                f"at least x, growing, at most {union}"
            )
    return choices


def _sequence(value: Any, name: str) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        return value.tolist()  # type: ignore[no-any-return]
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ListError(f"{name} is {value!r}; give a list")
    return value


def _integers(sequence: Any, name: str, count: int, min_value: int) -> tuple[int, ...]:
    values = _sequence(sequence, name)
    if len(values) != count:
        raise ListError(f"{name} has {len(values)} entries; give {count}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not min_value <= value < 2**31:
            raise ListError(f"{name} holds {value!r}; give whole numbers from {min_value} up")
    return tuple(int(value) for value in values)
