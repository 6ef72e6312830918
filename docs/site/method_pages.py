"""A page for each method of the table: its text from docs/methods, and what the table and the audit say of it."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from interleaf.audit import MethodAudit, PropertyVerdict, check
from interleaf.methods.registry import METHODS, Method

SECTION = "Methods"
FEW_WORLDS = 45  # where most counterexamples are; all of them are walked only where these do not show what is refuted
NAMES = {"pareto": "Pareto-faithful"}  # the others are named by their own word


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by mkdocs with its settings; the pages of methods go into the navigation."""
    (section,) = [entry[SECTION] for entry in config.nav or [] if SECTION in entry]
    section += [{row.name: f"methods/{row.name}.md"} for row in METHODS.values()]
    return config


def on_files(files: Files, **_: Any) -> Files:
    """Called by mkdocs with all files; a method without a text stops the build."""
    for name in METHODS:
        if files.get_file_from_path(f"methods/{name}.md") is None:
            raise PluginError(
                f"{name} has no page; write docs/methods/{name}.md: what it does, its mathematics, its use"
            )
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    folder, name = posixpath.split(page.file.src_uri.removesuffix(".md"))
    if folder == "methods":
        return "\n\n".join(_page(METHODS[name], markdown))
    if name == "methods":
        for row in METHODS.values():
            markdown = markdown.replace(f"| {row.name} |", f"| [{row.name}](methods/{row.name}.md) |")
    return markdown


def _page(row: Method, text: str) -> Iterator[str]:
    fewest, most = row.rankers
    rankers = f"{fewest} rankers" if fewest == most else f"{fewest} or more rankers"
    yield f"# {row.title}"
    yield f"`{row.name}` · {rankers} · [{row.paper}](../bibliography.md#{row.paper.lower()})"
    yield text
    yield "## Options"
    yield "\n".join(_options(row)) if row.parameters else "None."
    yield "## Credit"
    yield from _credit(row)
    yield "## What is proved"
    yield from _properties(row)


def _options(row: Method) -> Iterator[str]:
    yield "| option | default | other values | meaning |"
    yield "| --- | --- | --- | --- |"
    for parameter in row.parameters:
        others = ", ".join(f"`{choice}`" for choice in parameter.choices if choice != parameter.default)
        free = "a name" if parameter.default is None else "a number above 0"
        yield f"| `{parameter.name}` | `{parameter.default}` | {others or free} | {parameter.meaning} |"


def _credit(row: Method) -> Iterator[str]:
    if not row.schemes:
        yield "No [scheme](../first-comparison.md#schemes)."
        return
    listed = ", ".join(f"`{scheme}`" for scheme in row.schemes)
    yield f"[Schemes](../first-comparison.md#schemes), the default first: {listed}."
    if row.schemes_for_many:
        yield f"For more than two rankers: {', '.join(f'`{scheme}`' for scheme in row.schemes_for_many)}."
    if row.needs:
        needs = ", ".join(f"`{need}`" for need in row.needs)
        yield f"Besides ranks, the [log](../log-format.md) must hold {needs}."


def _properties(row: Method) -> Iterator[str]:
    claims = asdict(row.claims)
    answers = {True: "yes, proved", False: "no, see below", None: "the question has no meaning here"}
    yield (
        "As the [audit](../audit.md#how-it-works) finds it: a yes is proved on all worlds of small rankings by "
        "enumerating the code that serves, a no has a smallest counterexample."
    )
    rows = [f"| {NAMES.get(key, key)} | {answers[holds]} |" for key, holds in claims.items()]
    yield "\n".join(["| property | answer |", "| --- | --- |", *rows])
    unfair = [
        f"{row.name}({p.name}={value})" for p in row.parameters for value in p.choices if value in row.unfair_values
    ]
    if unfair:
        commands = " and ".join(f"`interleaf audit '{text}'`" for text in unfair)
        yield f"Less holds with some options: {commands} say what."
    found = _audited(row)
    for key, holds in claims.items():
        if holds is False:
            yield from _refuted(f"Not {NAMES.get(key, key)}", getattr(found, key))
    if claims["pareto"]:
        yield from _refuted("Not Pareto-faithful if people may click on the last shown rank", found.pareto_at_cut)
    if claims["fair"]:
        yield from _refuted("The sign of the score is not fair, so there is no binary scheme", found.sign)


def _audited(row: Method) -> MethodAudit:
    """The claims are proved in the tests; here it is enough to walk until what is not claimed is refuted."""
    found = check(row.name, max_worlds=FEW_WORLDS)
    is_enough = found.claims == row.claims and not any(verdict.note for verdict in found.fair.values())
    return found if is_enough else check(row.name)


def _refuted(title: str, found: PropertyVerdict | Mapping[str, PropertyVerdict]) -> Iterator[str]:
    """The smallest counterexample; where schemes have one each, that of the first scheme that fails."""
    verdicts = [found] if isinstance(found, PropertyVerdict) else found.values()
    for verdict in [one for one in verdicts if one.counterexample is not None][:1]:
        yield f"### {title}"
        yield f"```text\n{verdict.counterexample}\n```"
        if verdict.note:
            yield f"{verdict.note[0].upper()}{verdict.note[1:]}."
