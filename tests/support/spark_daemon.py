"""Spark's daemon of Python workers, which collects less garbage.

A worker collects garbage after each task. In tests, that takes ten times as long as the task, since it visits all
objects of all imported modules. Here, what is there after a task stays, and is not visited again.
"""

import gc

from pyspark import daemon


def keep_garbage(generation: int = 2) -> int:
    gc.freeze()
    return 0


if __name__ == "__main__":
    gc.collect = keep_garbage
    daemon.manager()
