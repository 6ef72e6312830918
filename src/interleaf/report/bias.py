"""Which methods may score which lists: where expected credit is not zero although clicks depend on the rank only."""

from __future__ import annotations

from interleaf.methods.registry import ResolvedMethod, resolve


def bias(composed: str, scored: str, scheme: str, relaxed: bool = False) -> str:
    """Why lists of one method, scored by another (or the same), prefer somebody under rank-only clicks; '' if not.

    A method's credit is fair to the lists that it makes itself. Besides, plain credit for owners is fair wherever
    owners are drawn evenly. The tests enumerate all pairs of methods, and find a counterexample for each refused one.

    >>> bias("team_draft", "team_draft", "binary_deduped")
    ''
    >>> bias("team_draft", "probabilistic", "click").partition(":")[0]
    'lists of team_draft scored as probabilistic are biased'
    """
    made, given = resolve(composed), resolve(scored)
    fair = not set(made.parameters.values()) & set(made.method.unfair)
    if _lists_of(made) == _lists_of(given):
        constrained = given.method.kernels.prepare is not None  # unbiased by its constraints, where they could be met
        if fair and (given.method.claims.unbiased or (constrained and not relaxed)):
            return ""
        return (
            f"{given} is biased: it prefers somebody even if clicks depend on the rank only "
            f"({given.method.paper}; interleaf audit '{given}' shows the smallest case)"
        )
    if fair and made.method.even_owners and scheme in given.method.rankless_schemes:
        return ""
    return (
        f"lists of {made} scored as {given} are biased: that credit ({given.method.paper}) is fair to the lists of "
        f"{given} alone, and on others prefers somebody even if clicks depend on the rank only"
    )


def _lists_of(chosen: ResolvedMethod) -> tuple[str, ...]:
    """What decides which lists are shown, and how often; parameters that another method has not are at its default."""
    owner = resolve(chosen.method.composes_as) if chosen.method.composes_as else chosen
    return owner.method.name, *(repr(owner.parameters[name]) for name in owner.method.composing)
