"""Models of people: they sample clicks on a shown list, and give the exact distribution of click patterns."""

from interleaf.clicks.cascade import Cascade
from interleaf.clicks.independent import Independent, PositionBased
from interleaf.clicks.model import ClickModel
from interleaf.clicks.one_click import Intents, OneClick

__all__ = ["Cascade", "ClickModel", "Independent", "Intents", "OneClick", "PositionBased"]
