"""Caption bias (H12c): clicks that a result gets for its caption, measured in a log and removed from the comparison.

    captions ──measures──▶ numbers ──features──▶ codes ──patterns──▶ counts ──training──▶ five models
                                                  └──────scores, perplexity, preferences, page──▶ report

caption_results.py   results of a log, page by page, and kinds of queries
click_patterns.py    results that look alike, counted together; the design matrix of the models
caption_training.py  thresholds from data, the five models, and how well they predict clicks
caption_scores.py    an experiment with and without weights, with errors that include the uncertainty of the weights
caption_report.py    whether captions explain a preference, one page explained, and all numbers
diagnose.py          `diagnose`: all passes over the log, on this machine or on Spark
"""

from interleaf.caption_bias.caption_report import CaptionReport as CaptionReport
from interleaf.caption_bias.caption_training import Settings as Settings
from interleaf.caption_bias.diagnose import diagnose as diagnose
from interleaf.captions.caption_features import FEATURES as FEATURES
from interleaf.captions.caption_features import Feature as Feature
from interleaf.captions.caption_features import caption as caption
from interleaf.captions.caption_model import Model as Model
