"""Keyed randomness: the only source of randomness when a list is composed or a click is drawn.

A kernel draws with `pick(randomness, n)`, exactly uniform on 0 .. n-1, with `pick_weighted(randomness, weights, n)` (or
`pick_from` if it knows the total of the weights), and with `toss(randomness, probability)`. There are three forms:

* compiled (`jit.py`): `randomness` is the state of a counter-based generator, three 64-bit words;
* `Keyed`: the same generator in plain Python, with the same picks for the same key;
* `Tree`: every branch is visited, each with its exact probability, which gives a kernel's whole distribution.

The i-th output for a key with words (k0, k1) is mix(mix(k0 + i * GOLDEN) ^ k1), where mix is the finaliser of
SplitMix64 (Steele, Lea and Flood, 2014). Keys and picks are pinned by test vectors: they never change.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

from interleaf.errors import RandomnessError

Key = str | int | tuple[Any, ...]
Result = TypeVar("Result")

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
UNIT = 2.0**-53
MAX_CHOICES = 2**31
_MASK = 2**64 - 1
_DIGEST = re.compile(r"k1:[0-9a-f]{32}")


class Randomness(Protocol):
    """The source that a kernel draws from; the compiled form is an array with the state of the generator."""

    def pick(self, n: int) -> int: ...
    def pick_from(self, weights: Sequence[Any], n: int, total: Any) -> int: ...
    def toss(self, probability: Any) -> bool: ...


def pick(randomness: Randomness, n: int) -> int:
    """One of 0 .. n-1, each with probability 1/n exactly."""
    return randomness.pick(n)


def pick_weighted(randomness: Randomness, weights: Any, n: int) -> int:
    """One of 0 .. n-1 with probability proportional to its weight."""
    total = 0.0
    for i in range(n):
        total += weights[i]
    return pick_from(randomness, weights, n, total)


def pick_from(randomness: Randomness, weights: Any, n: int, total: Any) -> int:
    """The same, for a caller that knows the total of the weights."""
    return randomness.pick_from(weights, n, total)


def toss(randomness: Randomness, probability: Any) -> bool:
    """True with this probability."""
    return randomness.toss(probability)


def derive(words: Any, number: int) -> Randomness:
    """Randomness for one more list, from the two words of the key of a list and the number of the draw, from 1."""
    first = _mix(int(words[0]) ^ _mix(number))
    return Keyed("k1:" + struct.pack("<QQ", first, _mix((int(words[1]) + first) & _MASK)).hex())


def find_weighted(weights: Any, n: int, target: Any) -> int:
    """The first index at which the sum of the weights exceeds the target; the last with a weight if none does."""
    reached, last = 0.0, 0
    for i in range(n):
        if weights[i] > 0:
            reached += weights[i]
            last = i
            if target < reached:
                break
    return last


def key_of(key: Key | None) -> str:
    """The name of a key: `k1:` and a 128-bit digest of its parts; None draws a fresh one.

    Parts are strings, integers and tuples of them, delimited so that different parts give different keys.

    >>> key_of(("a", "bc")) == key_of(("ab", "c"))
    False
    >>> key_of(key_of("a")) == key_of("a")
    True
    """
    if key is None:
        return "k1:" + secrets.token_hex(16)
    if is_key(key):
        return str(key)
    try:
        return "k1:" + digest(delimit(key)).hex()
    except RecursionError:
        raise RandomnessError("a key is nested too deeply; give a flat tuple of strings and integers") from None


def is_key(key: object) -> bool:
    """Whether this is the name of a key, as `key_of` returns it."""
    return isinstance(key, str) and _DIGEST.fullmatch(key) is not None


def bytes_of(key: str) -> bytes:
    """The two 64-bit words, low byte first, that seed the generator for a key's name."""
    return bytes.fromhex(key[3:])


def key_names(words: bytes) -> list[str]:
    """The names of keys of 16 bytes each.

    >>> key_names(bytes(range(16)))
    ['k1:000102030405060708090a0b0c0d0e0f']
    """
    digits = words.hex()
    return [f"k1:{digits[start : start + 32]}" for start in range(0, len(digits), 32)]


def digest(encoded: bytes) -> bytes:
    """The 128 bits of a key from its delimited parts."""
    return blake2b(encoded, digest_size=16, person=b"interleaf key 1").digest()


def delimit(part: Any) -> bytes:
    """The parts of a key as bytes, such that different keys have different bytes."""
    if isinstance(part, str):
        text = part.encode("utf-8", "surrogatepass")
        return b"s%d:%s" % (len(text), text)
    if isinstance(part, tuple):
        return b"t%d:%s" % (len(part), b"".join([delimit(inner) for inner in part]))
    if isinstance(part, int) and not isinstance(part, bool):
        return b"i%x:" % part
    raise RandomnessError(
        f"a key is made of strings, integers and tuples of them, not {part!r} ({type(part).__name__}); "
        "convert it to a string first"
    )


class Keyed:
    """The keyed generator in plain Python: same key, same picks as the compiled form.

    >>> randomness = Keyed(key_of("example"))
    >>> [randomness.pick(6) for _ in range(5)]
    [3, 1, 5, 3, 4]
    """

    def __init__(self, key: str) -> None:
        self._first, self._second = struct.unpack("<QQ", bytes_of(key))
        self._count = 0

    def bits(self) -> int:
        """The next 64 random bits."""
        self._count += 1
        return _mix(_mix((self._first + self._count * GOLDEN) & _MASK) ^ self._second)

    def pick(self, n: int) -> int:
        """Lemire's multiplication with rejection on 32 bits: uniform without modulo bias; n = 1 draws nothing."""
        if not 1 <= n <= MAX_CHOICES:
            raise RandomnessError(f"cannot pick one of {n} things; the number of choices lies in 1 .. {MAX_CHOICES}")
        if n == 1:
            return 0
        product = (self.bits() >> 32) * n
        rejected_below = (2**32 - n) % n
        while product & 0xFFFFFFFF < rejected_below:
            product = (self.bits() >> 32) * n
        return product >> 32

    def pick_from(self, weights: Sequence[Any], n: int, total: Any) -> int:
        return find_weighted(weights, n, (self.bits() >> 11) * UNIT * total)

    def toss(self, probability: Any) -> bool:
        return bool((self.bits() >> 11) * UNIT < probability)


def _mix(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = ((word ^ (word >> 30)) * MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * MIX_2) & _MASK
    return word ^ (word >> 31)


def _exactly(number: Any) -> Fraction:
    """A fraction of Python's integers; numpy's would overflow."""
    return number if type(number) is Fraction else Fraction(number.item() if hasattr(number, "item") else number)


class Tree:
    """Visits every branch of a function that draws random numbers, with the exact probability of each.

    >>> tree = Tree()
    >>> sorted(tree.branches(lambda randomness: randomness.pick(2) + randomness.pick(2)))
    [(Fraction(1, 4), 0), (Fraction(1, 4), 1), (Fraction(1, 4), 1), (Fraction(1, 4), 2)]
    """

    def __init__(self) -> None:
        self._path: list[tuple[list[tuple[int, Fraction]], int]] = []
        self._depth = 0
        self._probability = Fraction(1)

    def branches(self, function: Callable[[Randomness], Result]) -> Iterator[tuple[Fraction, Result]]:
        """Each outcome of `function(randomness)` with its probability; the function runs once per branch."""
        self._path = []
        while True:
            self._depth, self._probability = 0, Fraction(1)
            result = function(self)
            yield self._probability, result
            while self._path and self._path[-1][1] + 1 == len(self._path[-1][0]):
                self._path.pop()
            if not self._path:
                return
            choices, branch = self._path[-1]
            self._path[-1] = choices, branch + 1

    def pick(self, n: int) -> int:
        return self._branch(lambda: [(i, Fraction(1, int(n))) for i in range(n)])

    def pick_from(self, weights: Sequence[Any], n: int, total: Any) -> int:
        exact = [_exactly(weights[i]) for i in range(n)]
        exact_total = sum(exact)
        return self._branch(lambda: [(i, weight / exact_total) for i, weight in enumerate(exact) if weight > 0])

    def toss(self, probability: Any) -> bool:
        exact = _exactly(probability)
        return bool(self._branch(lambda: [choice for choice in ((1, exact), (0, 1 - exact)) if choice[1] > 0]))

    def _branch(self, choices_of: Callable[[], list[tuple[int, Fraction]]]) -> int:
        if self._depth == len(self._path):
            self._path.append((choices_of(), 0))
        choices, branch = self._path[self._depth]
        self._depth += 1
        value, probability = choices[branch]
        self._probability *= probability
        return value
