"""A live experiment: its settings, the assignment of users, and the lists; without store, network or clock."""

from interleaf.experiment.assignment import assign as assign
from interleaf.experiment.serving import Request as Request
from interleaf.experiment.serving import Shown as Shown
from interleaf.experiment.serving import extend_list as extend_list
from interleaf.experiment.serving import show as show
from interleaf.experiment.settings import Experiment as Experiment
