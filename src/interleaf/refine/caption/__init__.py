"""Caption bias (H12c): clicks that a result owes to its looks, found in a log and taken out of its comparison.

    captions ──measures──▶ numbers ──features──▶ codes ──patterns──▶ counts ──training──▶ five models
                                                  └──────scores, perplexity, preferences, page──▶ report

markup.py       captions from texts with <b> and <em>
measures.py     what a caption looks like, in numbers
features.py     the table of features, and codes of results
results.py      results of a log, page after page
settings.py     how a log is diagnosed
tuning.py       thresholds from data
patterns.py     results that look alike, counted
logistic.py     logistic regression on counts
design.py       its design matrix
training.py     the five models, features selected by likelihood-ratio tests
model.py        a model: probabilities of clicks, and their weights
checks.py       whether a model from a file can be one
scores.py       an experiment with and without weights
gradients.py    what units and queries have a part in a model's weights
influence.py    errors that count what the weights do not know
perplexity.py   how well models foretell clicks
segments.py     by which kinds of queries
preferences.py  which of two clicked results is better
page.py         one page explained
verdict.py      whether captions explain a preference
survey.py       sums that models are learned from
findings.py     sums of what is found with them
diagnose.py     all of it, here or on Spark
report.py       all findings
"""

from interleaf.refine.caption.diagnose import diagnose as diagnose
from interleaf.refine.caption.features import FEATURES as FEATURES
from interleaf.refine.caption.features import Feature as Feature
from interleaf.refine.caption.markup import caption as caption
from interleaf.refine.caption.model import Model as Model
from interleaf.refine.caption.report import CaptionReport as CaptionReport
from interleaf.refine.caption.settings import Settings as Settings
