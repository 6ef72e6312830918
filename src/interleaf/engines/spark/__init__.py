"""The flow on Spark: executors read, decode, score and add up; the driver gets one packed sum, whatever the log's size.

session.py   Spark as it is running, or started here
rows.py      the rows of a log on executors: of Parquet files by row groups, of a data frame by its partitions
pages.py     impressions that go on over pages, joined
repeats.py   impressions that came before, in whatever part
sessions.py  impressions that meet by unit, to be put together to sessions
tallies.py   a log to its tally, and to other sums
"""

from interleaf.engines.spark.tallies import opened as opened
from interleaf.engines.spark.tallies import summed as summed
from interleaf.engines.spark.tallies import tally_log as tally_log
