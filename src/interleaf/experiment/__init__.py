"""A live experiment: its settings, who takes part, the list that is shown; no store, no network and no clock."""

from interleaf.experiment.settings import Experiment as Experiment
from interleaf.experiment.showing import Request as Request
from interleaf.experiment.showing import Shown as Shown
from interleaf.experiment.showing import extended as extended
from interleaf.experiment.showing import show as show
from interleaf.experiment.traffic import assign as assign
