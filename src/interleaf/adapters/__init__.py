"""Foreign formats at the door, in and out.

ubi.py           import_ubi, import_solr, import_opensearch: queries and events that are records of their own
ubi_reading.py     files to records
ubi_records.py     a record to a query or an event, leniently
responses.py       answers of engines that interleave by themselves
times.py           times as others write them
line_blocks.py     lines of a file, some at a time
scanned.py         a block of them scanned, its fields as columns
json_scan.py         compiled steps over JSON
record_scan.py       the compiled scanner: kinds of lines, and where fields stand
iso_scan.py          the compiled reader of times
event_blocks.py    events of a scanned block
query_blocks.py    queries of one
pieces.py          columns put together
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
