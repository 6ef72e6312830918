"""Simulated studies: judged queries, read or made up; rankers and people on them; runs that know the truth."""

from interleaf.simulate.data import Judged, synthetic
from interleaf.simulate.letor import read_letor
from interleaf.simulate.people import People
from interleaf.simulate.run import Result, run, sweep
from interleaf.simulate.world import World

__all__ = ["Judged", "People", "Result", "World", "read_letor", "run", "sweep", "synthetic"]
