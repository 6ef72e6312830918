"""Learned click credit (Yue et al. 2010; C12, section 10): what a click is worth, from experiments with a known winner.

click_features.py  what a click was like, a named row each, and what each click adds to each ranker's credit
credit_fitting.py  weights of features from sums by user group, and on experiments left out
learned_credit.py  learned credit as a file, how it scores clicks, and whether it helps
learn.py           `learn`: from logs to sums to credit
"""

from interleaf.click_value.click_features import FEATURES as FEATURES
from interleaf.click_value.click_features import ClickFeature as ClickFeature
from interleaf.click_value.click_features import PageClicks as PageClicks
from interleaf.click_value.learn import TrainingSums as TrainingSums
from interleaf.click_value.learn import gather as gather
from interleaf.click_value.learn import learn as learn
from interleaf.click_value.learned_credit import LearnedCredit as LearnedCredit
from interleaf.click_value.learned_credit import LearningResult as LearningResult
