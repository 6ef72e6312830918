"""Imports a table of impressions and a table of events, in the usual shapes, as one native log.

sources.py          opens files and data frames as record batches; databases.py opens queries of DuckDB and PostgreSQL
column_names.py     finds the column of each field, by its name or by a mapping
cell_values.py      cells of any type, converted to the types of a log
list_rows.py        the rows of the impressions, one for each list or one for each result
event_rows.py       the rows of the events
owners.py           the rankers, and which of them owns each shown document
remedies.py         what to do about rows that cannot be used
table_join.py       events joined to their impressions, partition by partition
convert.py          `import_tables`: both tables to a log
"""
