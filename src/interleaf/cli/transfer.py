"""Commands that bring logs in from other formats, and take them out to others."""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleaf.cli.terminal import print_json
from interleaf.errors import DataError, listed

DEFAULT_OUT = "log.parquet"


def import_options(made: argparse.ArgumentParser) -> None:
    """From which format, and what its files cannot tell."""
    made.add_argument("format", choices=list(IMPORTS), metavar="FORMAT", help=_formats(IMPORTS))
    made.add_argument(
        "source",
        nargs="+",
        metavar="FILE",
        help="files, globs or folders; for trec and letor NAME=FILE for each ranker",
    )
    made.add_argument(
        "--out", metavar="FILE", help=f"the log: .parquet, .jsonl or .jsonl.gz; a new {DEFAULT_OUT} if left out"
    )
    made.add_argument("--experiment", default="imported", help="the experiment of lists that name none")
    made.add_argument(
        "--method", help="the method that composed lists with owners, or that composes them (trec, letor)"
    )
    made.add_argument(
        "--unit", choices=["user", "client", "session"], help="what identifies a unit; the best known if left out"
    )
    made.add_argument(
        "--ordinals", type=int, choices=[0, 1], help="the number of the first position; guessed if left out"
    )
    made.add_argument("--id-field", default="id", metavar="FIELD", help="solr: the unique key field of documents")
    made.add_argument(
        "--time-unit", type=float, default=1e-3, metavar="SECONDS", help="yandex: the unit of times, in seconds"
    )
    made.add_argument("--judged", metavar="FILE", help="letor: the learning-to-rank file of the scores")
    made.add_argument("-k", type=int, default=10, help="trec, letor: number of documents in a list")
    made.add_argument(
        "--seed", type=int, default=0, help="trec, letor: the random seed of lists, and of the order of equal scores"
    )
    made.add_argument("--json", action="store_true", help="print counts of all records, used or not, as JSON")


def run_import(options: argparse.Namespace) -> int:
    """A foreign log to a native one; says what became of every record."""
    if options.out is None:
        options.out = DEFAULT_OUT
        if Path(DEFAULT_OUT).exists():
            raise DataError(f"{DEFAULT_OUT} is there already; give --out FILE, or --out {DEFAULT_OUT} to replace it")
    _refuse_replacing([*options.source, *([options.judged] if options.judged else [])], options.out)
    found = IMPORTS[options.format][0](options)
    if options.json:
        print_json({"log": options.out} | (found if isinstance(found, dict) else found.to_dict()))
    else:
        print(f"{options.out}: {_said(found) if isinstance(found, dict) else found}")
    return 0


def export_options(made: argparse.ArgumentParser) -> None:
    """To which format, and under which names."""
    made.add_argument("format", choices=list(EXPORTS), metavar="FORMAT", help=_formats(EXPORTS))
    made.add_argument("log", nargs="+", metavar="LOG", help="Parquet, JSON lines or CSV: files, globs, folders")
    made.add_argument("--out", required=True, metavar="FILE", help="the file to write; trec: a folder")
    made.add_argument("--application", default="interleaf", help="ubi: the name of the application")
    made.add_argument(
        "--id-field", default="id", metavar="FIELD", help="ubi: the field of the index that holds document ids"
    )
    made.add_argument("--json", action="store_true", help="print counts as JSON")


def run_export(options: argparse.Namespace) -> int:
    """A log to another format."""
    _refuse_replacing(options.log, options.out)
    found = EXPORTS[options.format][0](options)
    if options.json:
        print_json({"out": options.out} | found)
    else:
        print(f"{options.out}: {_said(found)}")
    return 0


def _refuse_replacing(sources: Sequence[str], out: str) -> None:
    """What is written never takes the place of a file that it is made of."""
    file = Path(out)
    if not file.is_file():
        return
    for source in sources:
        is_pattern = not Path(source).exists()
        places = [*glob.glob(source, recursive=True), source.partition("=")[2]] if is_pattern else [source]
        for place in map(Path, filter(None, places)):
            is_inside = place.is_dir() and file.resolve().is_relative_to(place.resolve())
            if is_inside or (place.is_file() and place.samefile(file)):
                raise DataError(f"--out is {out!r}, which is read as {source}; give another file")


def _said(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _settings(options: argparse.Namespace, **more: Any) -> Any:
    from interleaf.importers.foreign_lists import Options

    given = {"method": options.method} if options.method else {}
    return Options(experiment=options.experiment, unit=options.unit, ordinals=options.ordinals, **given, **more)


def _ubi(options: argparse.Namespace) -> Any:
    from interleaf.importers.ubi import import_ubi

    return import_ubi(options.source, options.out, _settings(options))


def _solr(options: argparse.Namespace) -> Any:
    from interleaf.importers.ubi import import_solr

    return import_solr(options.source, options.out, _settings(options, only_interleaved=True), options.id_field)


def _opensearch(options: argparse.Namespace) -> Any:
    from interleaf.importers.ubi import import_opensearch

    return import_opensearch(options.source, options.out, _settings(options, only_interleaved=True))


def _yandex(options: argparse.Namespace) -> Any:
    from interleaf.importers.yandex import import_yandex

    if len(options.source) != 1:
        raise DataError(f"{len(options.source)} files are given; a yandex log is one file")
    return import_yandex(options.source[0], options.out, options.experiment, unit=options.time_unit)


def _jsonl(options: argparse.Namespace) -> dict[str, Any]:
    return _converted(options.source, options.out)


def _trec(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.counterfactual.new_rankings import read_run

    return _composed({name: read_run(path) for name, path in _named(options.source).items()}, options)


def _letor(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.simulate import read_letor
    from interleaf.simulate.rankers import rank, read_scores

    if options.judged is None:
        raise DataError("scores are of the rows of a learning-to-rank file: give it with --judged")
    data = read_letor(options.judged)
    named = _named(options.source)
    orders = rank(data, [read_scores(path, data) for path in named.values()], ("letor", options.seed))
    rankings = {
        name: {
            query: [f"q{query}-d{row + 1}" for row in orders[at, number].tolist() if row >= 0]
            for at, query in enumerate(data.queries)
        }
        for number, name in enumerate(named)
    }
    return _composed(rankings, options)


def _composed(rankings: dict[str, dict[str, list[str]]], options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.importers.trec import compose

    more = {"method": options.method} if options.method else {}
    given = {"k": options.k, "experiment": options.experiment, "seed": options.seed} | more
    return dict(compose(rankings, options.out, **given))


def _named(sources: list[str]) -> dict[str, str]:
    """Rankers' names and files; a file alone is named by its stem."""
    pairs = [source.partition("=") for source in sources]
    found = {name if path else Path(name).stem: path or name for name, _, path in pairs}
    if len(found) < max(2, len(sources)):
        raise DataError(
            f"{' '.join(sources)} name {len(found)} rankers; give NAME=FILE for two or more, each another name"
        )
    return found


def _converted(source: list[str], out: str) -> dict[str, Any]:
    from interleaf.log import convert

    return _counts(convert(source, out))


def _counts(reading: Any) -> dict[str, Any]:
    """What a reader met, with what it could not use."""
    events = {f"events {what}": count for what, count in reading.events.items()}
    return {"impressions": reading.rows} | {f"× {reason}": count for reason, count in reading.dropped.items()} | events


def _to_parquet(options: argparse.Namespace) -> dict[str, Any]:
    _ask_for(options.out, ".parquet")
    return _converted(options.log, options.out)


def _to_lines(options: argparse.Namespace) -> dict[str, Any]:
    _ask_for(options.out, ".jsonl", ".jsonl.gz")
    return _converted(options.log, options.out)


def _to_trec(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.importers.trec import LOG_RANKINGS, export_trec

    found = dict(export_trec(options.log, options.out))
    if "runs" not in found:
        print(f"interleaf export: no run is written, since the log holds no rankings; {LOG_RANKINGS}", file=sys.stderr)
    return found


def _to_ubi(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.importers.ubi_export import export_ubi

    _ask_for(options.out, ".ndjson", ".ndjson.gz")
    return _counts(
        export_ubi(options.log, options.out, application=options.application, object_id_field=options.id_field)
    )


def _ask_for(out: str, *endings: str) -> None:
    if not out.endswith(endings):
        raise DataError(f"--out is {out!r}; end it in {listed(endings)}")


def _formats(table: Mapping[str, tuple[Any, str]]) -> str:
    return "; ".join(f"{name}: {does}" for name, (_, does) in table.items())


IMPORTS: dict[str, tuple[Callable[[argparse.Namespace], Any], str]] = {
    "ubi": (_ubi, "User Behavior Insights 1.3, queries and events"),
    "solr": (_solr, "answers with [interleaving], and clicks"),
    "opensearch": (_opensearch, "answers with _search_configuration_id, and UBI events"),
    "yandex": (_yandex, "the text format of the Yandex challenge and of PyClick"),
    "trec": (_trec, "runs, to compose lists from"),
    "letor": (_letor, "scores of a learning-to-rank file's rows, to compose lists from"),
    "jsonl": (_jsonl, "JSON lines of this log's own names, events joined"),
}
EXPORTS: dict[str, tuple[Callable[[argparse.Namespace], dict[str, Any]], str]] = {
    "ubi": (_to_ubi, "a bulk file of queries and events, which import gives back as it was"),
    "parquet": (_to_parquet, "one file, events joined"),
    "jsonl": (_to_lines, "one file, an impression a line"),
    "trec": (_to_trec, "a run a ranker, and qrels"),
}
