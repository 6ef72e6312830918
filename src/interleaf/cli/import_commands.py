"""Commands that convert logs from and to formats of other systems: import, export."""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from interleaf.cli.output import print_json
from interleaf.cli.parser import add_map_options, add_ordinals, as_map
from interleaf.errors import DataError, join_names
from interleaf.importers.protocol import IMPORTERS, Importer, ImportOptions, ImportResult

DEFAULT_OUT = "log.parquet"


def import_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf import`."""
    add = parser.add_argument
    add("kind", choices=list(IMPORTS), metavar="KIND", help=_kinds(IMPORTS))
    add("source", nargs="+", metavar="FILE", help="files, globs or folders; trec and letor: NAME=FILE for each ranker")
    add("--out", metavar="FILE", help=f"log to write: .parquet, .jsonl or .jsonl.gz (default: a new {DEFAULT_OUT})")
    add("--experiment", default="imported", help="name of the experiment, for lists without one")
    add("--method", help="method that made the lists; trec, letor: method to make lists with")
    add("--unit", choices=["user", "client", "session"], help="which id identifies a user (default: detected)")
    add_ordinals(parser)
    add("--id-field", default="id", metavar="FIELD", help="solr: unique key field of documents")
    add_map_options(parser, "tables: ")
    add("--time-unit", type=float, default=1e-3, metavar="SECONDS", help="yandex: unit of times, in seconds")
    add("--judged", metavar="FILE", help="letor: learning-to-rank file that the scores belong to")
    add("-k", type=int, default=10, help="trec, letor: number of documents in a list")
    add("--seed", type=int, default=0, help="trec, letor: random seed of lists, and of the order of equal scores")
    _add_format(parser)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="format of the printed counts")


def run_import(options: argparse.Namespace) -> None:
    """Convert a log of another system, such as UBI, Solr or OpenSearch, to an interleaf log.

    interleaf simulate --impressions 500 --out world.parquet && interleaf export ubi world.parquet --out
    ubi.ndjson && interleaf import ubi ubi.ndjson --out back.parquet
    """
    if options.out is None:
        options.out = DEFAULT_OUT
        if Path(DEFAULT_OUT).exists():
            raise DataError(f"{DEFAULT_OUT} already exists; give --out FILE, or --out {DEFAULT_OUT} to replace it")
    _refuse_replacing([*options.source, *([options.judged] if options.judged else [])], options.out)
    _print_counts(options, "log", IMPORTS[options.kind][0](options))


def export_options(parser: argparse.ArgumentParser) -> None:
    """Options of `interleaf export`."""
    add = parser.add_argument
    add("kind", choices=list(EXPORTS), metavar="KIND", help=_kinds(EXPORTS))
    add("log", nargs="+", metavar="LOG", help="files, globs or folders: Parquet, JSON lines or CSV")
    add("--out", required=True, metavar="FILE", help="file to write; trec: folder")
    add("--application", default="interleaf", help="ubi: name of the application")
    add("--id-field", default="id", metavar="FIELD", help="ubi: field of the index that holds document ids")
    _add_format(parser)


def run_export(options: argparse.Namespace) -> None:
    """Convert an interleaf log to UBI, TREC runs, Parquet or JSON lines.

    interleaf simulate --impressions 500 --out world.parquet && interleaf export ubi world.parquet --out
    ubi.ndjson
    """
    _refuse_replacing(options.log, options.out)
    _print_counts(options, "out", EXPORTS[options.kind][0](options))


def _refuse_replacing(sources: Sequence[str], out: str) -> None:
    """Never overwrite a file that is read."""
    file = Path(out)
    if not file.is_file():
        return
    for source in sources:
        if "://" in source:  # a query, which writes no file
            continue
        is_pattern = not Path(source).exists()
        places = [*glob.glob(source, recursive=True), source.partition("=")[2]] if is_pattern else [source]
        for place in map(Path, filter(None, places)):
            is_inside = place.is_dir() and file.resolve().is_relative_to(place.resolve())
            if is_inside or (place.is_file() and place.samefile(file)):
                raise DataError(f"--out is {out!r}, which is read as {source}; give another file")


def _print_counts(options: argparse.Namespace, key: str, counts: dict[str, Any] | ImportResult) -> None:
    """Print how many records were converted; in JSON, `key` is the name of the file that was written."""
    if options.format == "json":
        print_json({key: options.out} | (counts if isinstance(counts, dict) else counts.to_dict()))
    elif isinstance(counts, dict):
        print(f"{options.out}: {', '.join(f'{count:,} {name}' for name, count in counts.items() if count)}")
    else:
        print(f"{options.out}: {counts}")


def _import(options: argparse.Namespace) -> ImportResult:
    importer: Importer = resolve_name(IMPORTERS[options.kind][0])
    options.map = as_map("--map", options.map)
    values = {one.name: getattr(options, one.name, None) for one in fields(ImportOptions)}
    settings = ImportOptions(**{name: value for name, value in values.items() if value is not None})
    return importer(options.source, options.out, settings)


def _trec(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.log.trec_runs import read_run

    return _compose({name: read_run(path) for name, path in _ranker_files(options.source).items()}, options)


def _letor(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.simulate import read_letor
    from interleaf.simulate.rankers import rank, read_scores

    if options.judged is None:
        raise DataError("scores belong to the rows of a learning-to-rank file; give it with --judged")
    data = read_letor(options.judged)
    files = _ranker_files(options.source)
    orders = rank(data, [read_scores(path, data) for path in files.values()], ("letor", options.seed))
    rankings = {
        name: {
            query: [f"q{query}-d{row + 1}" for row in orders[at, number].tolist() if row >= 0]
            for at, query in enumerate(data.queries)
        }
        for number, name in enumerate(files)
    }
    return _compose(rankings, options)


def _compose(rankings: dict[str, dict[str, list[str]]], options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.importers.trec import compose

    method = {"method": options.method} if options.method else {}
    return dict(compose(rankings, options.out, k=options.k, experiment=options.experiment, seed=options.seed, **method))


def _ranker_files(sources: list[str]) -> dict[str, str]:
    """Rankers' names and files; a file alone is named by its stem."""
    pairs = [source.partition("=") for source in sources]
    files = {name if path else Path(name).stem: path or name for name, _, path in pairs}
    if len(files) < max(2, len(sources)):
        problem = f"{' '.join(sources)} name {len(files)} rankers"
        raise DataError(f"{problem}; give NAME=FILE for two or more, with different names")
    return files


def _convert(source: list[str], out: str) -> dict[str, Any]:
    from interleaf.log import convert

    return _counts(convert(source, out))


def _counts(reading: Any) -> dict[str, Any]:
    """How many rows and events were read, and why others were not."""
    from interleaf.log.drop_reasons import text_of

    events = {f"events {text_of(fate)}": count for fate, count in reading.events.items()}
    dropped = {f"× {text_of(reason)}": count for reason, count in reading.dropped.items()}
    return {"impressions": reading.rows} | dropped | events


def _to_log(options: argparse.Namespace) -> dict[str, Any]:
    _check_suffix(options.out, *((".parquet",) if options.kind == "parquet" else (".jsonl", ".jsonl.gz")))
    return _convert(options.log, options.out)


def _to_trec(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.importers.trec import LOG_RANKINGS, export_trec

    counts = dict(export_trec(options.log, options.out))
    if "runs" not in counts:
        print(f"interleaf export: no run is written, since the log holds no rankings; {LOG_RANKINGS}", file=sys.stderr)
    return counts


def _to_ubi(options: argparse.Namespace) -> dict[str, Any]:
    from interleaf.importers.ubi_export import export_ubi

    _check_suffix(options.out, ".ndjson", ".ndjson.gz")
    about = {"application": options.application, "object_id_field": options.id_field}
    return _counts(export_ubi(options.log, options.out, **about))


def _check_suffix(out: str, *endings: str) -> None:
    if not out.endswith(endings):
        raise DataError(f"--out is {out!r}; end it in {join_names(endings)}")


def _kinds(table: Mapping[str, tuple[Any, str]]) -> str:
    return "; ".join(f"{name}: {does}" for name, (_, does) in table.items())


IMPORTS: dict[str, tuple[Callable[[argparse.Namespace], Any], str]] = {
    **{name: (_import, does) for name, (_, does) in IMPORTERS.items()},
    "trec": (_trec, "runs, to make lists from"),
    "letor": (_letor, "scores for the rows of a learning-to-rank file, to make lists from"),
    "jsonl": (lambda options: _convert(options.source, options.out), "JSON lines with the columns of an interleaf log"),
}
EXPORTS: dict[str, tuple[Callable[[argparse.Namespace], dict[str, Any]], str]] = {
    "ubi": (_to_ubi, "bulk file of queries and events, which import reads back unchanged"),
    "parquet": (_to_log, "one file, with events joined"),
    "jsonl": (_to_log, "one file, one impression per line"),
    "trec": (_to_trec, "one run per ranker, and qrels"),
}
