"""Caption bias (H12c): clicks that a result owes to its looks, found in a log and taken out of its comparison.

    captions ──measures──▶ numbers ──features──▶ codes ──patterns──▶ counts ──training──▶ five models
                                                  └──────scores, perplexity, preferences, page──▶ report

captions.py     captions from markup, and what they look like in numbers
features.py     the table of features, codes of results, and results that look alike, counted
results.py      results of a log, page by page, and kinds of queries
logistic.py     logistic regression on counts, and its design matrix
model.py        a model: probabilities of clicks, and their weights; whether a model from a file is valid
training.py     settings, thresholds from data, the five models
scores.py       an experiment with and without weights, with errors that count the uncertainty of the weights
predictions.py  how well models predict clicks, and which of two clicked results is better
verdict.py      whether captions explain a preference; one page explained
diagnose.py     `diagnose`: all passes over the log, here or on Spark
report.py       all results
"""

from interleaf.caption_bias.captions import caption as caption
from interleaf.caption_bias.diagnose import diagnose as diagnose
from interleaf.caption_bias.features import FEATURES as FEATURES
from interleaf.caption_bias.features import Feature as Feature
from interleaf.caption_bias.model import Model as Model
from interleaf.caption_bias.report import CaptionReport as CaptionReport
from interleaf.caption_bias.training import Settings as Settings
