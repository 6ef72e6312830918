"""Tallies on Spark: executors read, decode, score and add up; the driver gets only the total.

partitions.py  the rows of a log on executors; impressions with several rows: repeats and further pages
tallies.py     tallies and other sums of a log
"""

from interleaf.execution.spark.tallies import open_log as open_log, sum_parts as sum_parts, tally_log as tally_log
