"""Reads and writes logs of other systems.

ubi.py           import_ubi, import_solr, import_opensearch: queries and events that are records of their own
ubi_reading.py     reads JSON lines
ubi_records.py     turns records into rows of queries and events
responses.py       answers of engines that interleave by themselves
times.py           times as others write them
spool.py           records that wait on disk for the others of their query
parts.py           a part of a log, joined
repeated_queries.py  queries that came more than once
evidence.py        what a log must be seen whole for
placing.py         the rank of every event
joining.py         impressions
foreign_lists.py     what is known of lists of other systems
imported.py        what became of every record, and what to do about it
ubi_export.py    export_ubi: a log as UBI records
own_columns.py     what UBI has no field for, as texts
trec.py          export_trec: runs and qrels; compose: lists from runs
yandex.py        the text format of the Yandex challenge and of PyClick
trec_session.py  logs of the TREC Session track
whole_file.py    files written whole or not at all
"""
