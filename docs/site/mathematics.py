"""Formulas become MathML while the site is built, so that a browser needs no script for them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs with the HTML of each page."""
    return FORMULA.sub(_mathml, content)


def _mathml(formula: re.Match[str]) -> str:
    tag, latex = formula[1], html.unescape(formula[2]).strip()
    mathml = convert(latex, display="block" if tag == "div" else "inline")
    return f'<{tag} class="formula">{mathml}</{tag}>'
