"""Imports logs of other systems, and exports to their formats.

protocol.py         what an import takes and what it returns
ubi.py              import_ubi; ubi_records.py decodes records, ubi_export.py writes them
solr_opensearch.py  responses of engines that interleave by themselves
yandex.py           the text format of the Yandex challenge and of PyClick
trec.py             TREC runs and qrels; lists composed from runs
trec_session.py     logs of the TREC Session track
spool.py, partition.py, foreign_lists.py, query_join.py  queries and events, joined to impressions
"""
