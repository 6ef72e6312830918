"""Caption bias (H12c): clicks that a result gets for its caption, measured in a log and removed from the comparison.

    captions ──features──▶ codes ──click_patterns──▶ counts ──training──▶ five models ──weighted_scores──▶ report

features.py          captions from HTML, their lengths and highlights as numbers, and the features made of these
logistic_model.py    a logistic model of clicks by position, relevance and caption, and the weight of a click
shown_results.py     the results of a log, page by page; kinds of queries
click_patterns.py    results with the same features, counted together; the design matrix of the models
training.py          thresholds from data, the five models, and how well they predict clicks
weighted_scores.py   the scores of an experiment with and without weights, with standard errors
diagnosis_report.py  the verdict on each pair of rankers, the explanation of one page, and all tables
caption.py           `caption`: all passes over the log, on this machine or on Spark
"""

from interleaf.caption_bias.caption import caption as caption
from interleaf.caption_bias.diagnosis_report import CaptionReport as CaptionReport
from interleaf.caption_bias.features import FEATURES as FEATURES
from interleaf.caption_bias.features import CaptionFeature as CaptionFeature
from interleaf.caption_bias.features import make_caption as make_caption
from interleaf.caption_bias.logistic_model import CaptionModel as CaptionModel
from interleaf.caption_bias.training import DiagnosisSettings as DiagnosisSettings
