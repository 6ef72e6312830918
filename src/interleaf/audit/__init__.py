"""The audit of methods: it runs the kernels that serve traffic on all small cases, with exact probabilities.

`distribution` and `expectation` compute the lists and the preferences for given rankings. `check` goes through all
small rankings, lists and clicks, and proves each property there or returns the smallest counterexample.
"""

from interleaf.audit.properties import MethodAudit, check
from interleaf.audit.worlds import Counterexample, PropertyVerdict, distribution, expectation

__all__ = ["Counterexample", "MethodAudit", "PropertyVerdict", "check", "distribution", "expectation"]
