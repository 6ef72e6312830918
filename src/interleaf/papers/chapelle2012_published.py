"""The figures of C12 that ours stand beside, as printed.

Rankers have C12's letters, with the search engine behind: arXiv (A), Bing (B), Yahoo (Y). Columns are pairs of rankers
in C12's order, the better one first. In Table VIII two signs of the row of abandonment (D_Y over A_Y and over C_Y) and
that of its correlation are lost in the text at hand; they follow from the row itself, whose differences add up, and
from the counts of Table IX.
"""

from __future__ import annotations

ARXIV = (("E_A", "B_A"), ("B_A", "A_A"), ("E_A", "A_A"), ("E_A", "D_A"), ("D_A", "C_A"), ("E_A", "C_A"))
YAHOO = (("B_Y", "A_Y"), ("C_Y", "A_Y"), ("D_Y", "A_Y"), ("C_Y", "B_Y"), ("D_Y", "B_Y"), ("D_Y", "C_Y"))

Row = tuple[float, ...]

# Delta_AB in per cent: Table II for arXiv, Table VIII for Yahoo.
SIGNALS: dict[tuple[str, str], Row] = {
    ("arXiv", "balanced"): (4.32, 2.54, 5.38, 1.74, 3.06, 3.83),
    ("arXiv", "team_draft"): (5.23, 3.52, 12.92, 2.05, 1.96, 4.92),
    ("Yahoo", "balanced"): (0.160, 0.543, 0.559, 0.504, 0.537, 0.035),
}
# Table III: correlation with a judged metric, and mean and deviation of the bootstrapped one.
CORRELATIONS = {
    ("Bing", "team_draft", "NDCG@5"): (0.882, 0.864, 0.048),
    ("Bing", "team_draft", "MAP"): (0.689, 0.669, 0.104),
    ("Yahoo", "balanced", "DCG@5"): (0.696, 0.417, 0.419),
}
# Table VI: relative differences of absolute metrics in per cent, positive as expected, on arXiv.
ARXIV_METRICS: dict[str, Row] = {
    "abandonment": (6.22, 0.14, 6.35, -3.56, 2.61, -0.86),
    "reformulation": (3.86, 1.30, 5.12, 0.82, -0.84, -0.01),
    "session_queries": (1.90, 1.86, 3.73, -0.70, -3.90, -4.62),
    "clicks": (28.26, 4.16, 33.59, -5.17, 3.49, -1.86),
    "clicks_at_1": (36.01, -2.93, 32.02, -11.77, 35.65, 19.68),
    "skipped": (2.28, 3.00, 5.22, -2.38, 12.51, 10.43),
    "max_reciprocal_rank": (6.48, 0.48, 6.99, -3.80, 14.69, 10.33),
    "mean_reciprocal_rank": (3.67, 0.51, 4.20, -4.86, 18.45, 12.69),
    "first_click": (-3.33, 6.25, 3.12, 0.00, 12.50, 12.50),
    "last_click": (4.59, -5.22, -0.87, 24.04, -18.11, 1.57),
}
# Table VIII: the same on Yahoo, and the correlation with DCG@5, whose differences stand above.
YAHOO_DCG: Row = (0.27, 0.50, 0.65, 0.23, 0.38, 0.16)
YAHOO_METRICS: dict[str, Row] = {
    "abandonment": (-0.214, 0.084, 0.228, 0.298, 0.441, 0.144),
    "clicks": (-0.365, -0.033, -0.097, 0.334, 0.269, -0.064),
    "clicks_at_1": (0.049, 0.245, 0.844, 0.196, 0.795, 0.597),
    "skipped": (-0.039, 0.140, 0.465, 0.180, 0.504, 0.326),
    "max_reciprocal_rank": (-0.069, 0.155, 0.527, 0.224, 0.596, 0.371),
    "mean_reciprocal_rank": (-0.014, 0.178, 0.599, 0.192, 0.613, 0.420),
    "first_click": (0.646, 0.245, 0.381, -0.403, -0.266, 0.137),
    "last_click": (-0.725, -0.282, -0.233, 0.446, 0.496, 0.050),
}
YAHOO_CORRELATIONS = {
    "abandonment": 0.16,
    "clicks": -0.11,
    "clicks_at_1": 0.43,
    "skipped": 0.38,
    "max_reciprocal_rank": 0.35,
    "mean_reciprocal_rank": 0.40,
    "first_click": 0.28,
    "last_click": -0.23,
    "balanced": 0.69,
}
# Tables VII and IX: weakly right and wrong, significantly right and wrong.
VERDICTS: dict[str, dict[str, tuple[int, int, int, int]]] = {
    "arXiv": {
        "abandonment": (4, 2, 2, 0),
        "reformulation": (4, 2, 0, 0),
        "session_queries": (3, 3, 0, 0),
        "clicks": (4, 2, 2, 0),
        "clicks_at_1": (4, 2, 4, 0),
        "skipped": (5, 1, 2, 0),
        "max_reciprocal_rank": (5, 1, 3, 0),
        "mean_reciprocal_rank": (5, 1, 2, 0),
        "first_click": (4, 1, 0, 0),
        "last_click": (3, 3, 1, 0),
        "balanced": (6, 0, 6, 0),
        "team_draft": (6, 0, 4, 0),
    },
    "Yahoo": {
        "abandonment": (5, 1, 5, 1),
        "clicks": (2, 4, 2, 3),
        "clicks_at_1": (6, 0, 5, 0),
        "skipped": (5, 1, 5, 0),
        "max_reciprocal_rank": (5, 1, 5, 0),
        "mean_reciprocal_rank": (5, 1, 5, 0),
        "first_click": (4, 2, 3, 1),
        "last_click": (3, 3, 2, 3),
        "balanced": (6, 0, 6, 0),
    },
}
# Table X: how many queries of Clicks@1 do the work of one of balanced interleaving, on Yahoo.
DATA_RATIOS: Row = (379.1, 193.1, 17.8, 270.7, 18.9, 0.69)
CLICKS_A_JUDGEMENT = 10  # clicked queries that do the work of a judged one, with NDCG@5 on Bing
# Tables XI and XII: z-scores over those of the binary scheme, and their median. Bing has five other pairs.
SCHEMES: dict[tuple[str, str], dict[str, tuple[Row, float]]] = {
    ("arXiv", "balanced"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((1.14, 0.99, 1.25, 1.11, 1.00, 1.04), 1.08),
        "normalized": ((1.06, 0.89, 1.18, 1.23, 1.14, 0.83), 1.10),
        "binary_direct": ((0.64, 0.87, 1.10, 0.95, 1.19, 1.09), 1.02),
        "click_direct": ((0.41, 0.85, 0.69, 1.01, 1.40, 1.14), 0.93),
        "normalized_direct": ((0.83, 0.86, 1.18, 1.20, 1.23, 0.96), 1.07),
    },
    ("Yahoo", "balanced"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((0.89, 1.00, 0.98, 1.01, 1.00, 1.15), 1.00),
        "normalized": ((1.14, 1.05, 1.05, 0.96, 0.99, 0.97), 1.02),
        "binary_direct": ((0.76, 1.03, 0.99, 1.10, 1.06, 0.85), 1.01),
        "click_direct": ((0.38, 0.98, 0.95, 1.18, 1.09, 1.13), 1.035),
        "normalized_direct": ((0.95, 1.05, 1.06, 1.05, 1.05, 0.98), 1.05),
    },
    ("arXiv", "team_draft"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((1.25, 0.78, 0.84, 0.71, 0.36, 0.91), 0.81),
        "normalized": ((0.98, 0.90, 1.04, 1.23, 0.75, 0.95), 0.97),
        "binary_deduped": ((1.24, 1.04, 0.97, 1.40, 1.42, 1.18), 1.21),
        "click_deduped": ((1.38, 0.81, 0.83, 1.00, 0.58, 1.02), 0.91),
        "normalized_deduped": ((1.34, 0.99, 1.03, 1.44, 1.22, 1.19), 1.21),
    },
    ("Bing", "team_draft"): {
        "binary": ((1.00, 1.00, 1.00, 1.00, 1.00), 1.00),
        "click": ((1.04, 1.05, 1.07, 1.05, 1.00), 1.05),
        "normalized": ((1.00, 0.97, 0.98, 0.97, 1.01), 0.98),
        "binary_deduped": ((1.35, 1.60, 1.55, 1.52, 2.86), 1.55),
        "click_deduped": ((1.18, 1.55, 1.54, 1.33, 3.12), 1.54),
        "normalized_deduped": ((1.48, 1.58, 1.57, 1.50, 2.87), 1.57),
    },
}
# Table XIII: Normalized Click-Direct over sessions with so many seconds between queries, on Yahoo.
TIMEOUTS: dict[int, tuple[Row, float]] = {
    0: ((0.95, 1.05, 1.06, 1.05, 1.05, 0.98), 1.05),
    10: ((0.94, 1.05, 1.06, 1.05, 1.06, 0.99), 1.05),
    20: ((0.95, 1.06, 1.08, 1.06, 1.06, 1.02), 1.06),
    50: ((1.02, 1.08, 1.08, 1.05, 1.05, 1.06), 1.055),
    100: ((1.10, 1.09, 1.09, 1.00, 1.02, 1.03), 1.06),
    200: ((1.17, 1.09, 1.10, 0.96, 0.99, 1.00), 1.045),
    500: ((1.32, 1.07, 1.06, 0.88, 0.90, 0.81), 0.98),
}
