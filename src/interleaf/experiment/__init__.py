"""A live experiment: its settings, the assignment of users, and the lists; without store, network or clock."""

from interleaf.experiment.assignment import assign
from interleaf.experiment.serving import Request, Shown, extend_list, show
from interleaf.experiment.settings import Experiment

__all__ = ["Experiment", "Request", "Shown", "assign", "extend_list", "show"]
