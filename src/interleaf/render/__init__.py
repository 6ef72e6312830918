"""A report for people and for programs: one page, laid out once, then drawn as text, Markdown and HTML; and plain data.

layout.py     what is shown, in which order
sections.py   the parts of it, as words and tables
scorecard.py  which pairs and figures
grid.py       tables that remember why a cell is empty
figures.py    numbers and names, as people read them
text.py       for a terminal
markdown.py   for a file
page.py       for a browser, in one file; page.html, page.css
charts.py     its charts
plain.py      dictionaries, JSON
frames.py     Arrow tables
"""
