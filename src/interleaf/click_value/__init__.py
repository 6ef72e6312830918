"""Learned click credit (Yue et al. 2010; C12, section 10): what a click is worth, from experiments with a known winner.

features.py   what a click was like, a named row each; the weight of its caption
learned.py    learned credit: a small file, and how it scores clicks
fitting.py    sums by user group, and the weights that follow from them, of one experiment or several
training.py   logs to sums; experiments as examples, and left out
lesson.py     what was learned, and whether it helps
learning.py   `learn`: from logs to credit
"""

from interleaf.click_value.features import FEATURES as FEATURES
from interleaf.click_value.features import Clicked as Clicked
from interleaf.click_value.features import Feature as Feature
from interleaf.click_value.learned import Learned as Learned
from interleaf.click_value.learning import learn as learn
from interleaf.click_value.lesson import Lesson as Lesson
from interleaf.click_value.training import Training as Training
from interleaf.click_value.training import gather as gather
