"""What the shops sell, and the two rankers to compare. Replace both rankers with calls to your search engine."""

PRODUCTS = [
    *("trail runner", "road runner", "trail socks", "hiking boots", "sandals", "laces"),
    *("light rain jacket", "rain trousers", "winter jacket", "umbrella", "rain hat", "gloves"),
]


def production(query: str) -> list[str]:
    """The ranker in use: all products by name."""
    return sorted(PRODUCTS)


def candidate(query: str) -> list[str]:
    """The proposed ranker: products with the most words of the query first."""
    words = set(query.lower().split())
    return sorted(PRODUCTS, key=lambda product: -len(words & set(product.split())))


def rankings(query: str) -> dict[str, list[str]]:
    """Both rankings of one query, as `interleave` takes them."""
    return {"production": production(query), "candidate": candidate(query)}
