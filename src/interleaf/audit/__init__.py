"""Proof: considerateness and fidelity of a method, by exact enumeration of the very kernels that serve traffic.

`distribution` and `expectation` answer for given rankings; `check` walks a stated finite world of rankings, lists
and clicks and either proves a property there, or hands back the smallest counterexample.
"""

from interleaf.audit.enumerate import distribution, expectation
from interleaf.audit.properties import Counterexample, MethodAudit, PropertyVerdict, check

__all__ = ["Counterexample", "MethodAudit", "PropertyVerdict", "check", "distribution", "expectation"]
