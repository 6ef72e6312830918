"""Simulation: judged queries (read or synthetic), rankers and people; the true preference is known."""

from interleaf.simulate.data import Judged, synthetic
from interleaf.simulate.letor import read_letor
from interleaf.simulate.people import People
from interleaf.simulate.run import Result, run, sweep
from interleaf.simulate.world import World

__all__ = ["Judged", "People", "Result", "World", "read_letor", "run", "sweep", "synthetic"]
