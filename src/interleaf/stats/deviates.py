"""Student's t as a normal deviate, and back, in closed form.

    z = (8 f + 1) / (8 f + 3) * sqrt(f log(1 + t^2 / f)),  f degrees of freedom (Wallace 1959)

Boundaries for many looks and for many pairs are made for normal deviates. With few units a t-statistic is none, and
the errors of such tests grow to three times their level; its deviate keeps them.
"""

from __future__ import annotations

import numpy as np

from interleaf.methods.arrays import Array

MOST = 700.0  # the largest exponent that a float can hold


def deviate(statistic: Array | float, degrees: Array | float) -> Array:
    """The normal deviate as unlikely as this t-statistic, with its sign.

    >>> round(float(deviate(2.262, 9)), 2)  # the 97.5 % point of t with 9 degrees of freedom
    1.96
    """
    shrunk = np.sqrt(degrees * np.log1p(np.square(statistic) / degrees))
    deviates: Array = np.sign(statistic) * shrunk * (8 * np.asarray(degrees) + 1) / (8 * np.asarray(degrees) + 3)
    return deviates


def statistic(deviates: Array | float, degrees: Array | float) -> Array:
    """The t-statistic as unlikely as this normal deviate of at least 0: the inverse; infinite where no float is.

    >>> round(float(statistic(1.96, 9)), 2)
    2.26
    """
    stretched = deviates * (8 * np.asarray(degrees) + 3) / (8 * np.asarray(degrees) + 1)
    exponent = np.square(stretched) / degrees
    root: Array = np.sqrt(degrees * np.expm1(np.minimum(exponent, MOST)))
    return np.where(exponent < MOST, root, np.inf)
