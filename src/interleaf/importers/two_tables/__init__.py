"""Imports a table of impressions and a table of events, in the usual shapes, as one native log.

sources.py       opens files, data frames, and queries of DuckDB and PostgreSQL as record batches
column_names.py  finds the column of each field, by its name or by a mapping
cell_values.py   cells of any type, converted to the types of a log
table_rows.py    the rows of the impressions, one for each list or one for each result; the rows of the events
table_join.py    events joined to their impressions, partition by partition; which ranker owns each shown document
convert.py       `import_tables`: both tables to a log; what to do about rows that cannot be used
"""
