"""Importers of logs of other systems, and exporters to their formats.

protocol.py         what an importer is, what it takes and returns; the table of importers
ubi.py              UBI queries and events; ubi_records.py decodes records, ubi_export.py writes them
solr_opensearch.py  responses of engines with built-in interleaving
yandex.py           the text format of the Yandex challenge and of PyClick
two_tables/         a table of impressions and a table of events, its `__init__` is the map
trec.py             TREC runs and qrels; lists composed from runs; logs of the Session track
partition.py        queries and events on disk, partitioned by query; one partition as arrays
query_join.py       queries and events of a partition, joined to impressions
"""
