"""Learned click credit (Yue et al. 2010; C12, section 10): what a click is worth, from experiments with a known winner.

features.py   what a click was like, a named row each
clicks.py     clicks one by one, and what each gives each ranker
inverse_z.py  sums by user group, and the weights that follow from them
fitting.py    the same of several experiments, with a ridge
training.py   logs to sums
examples.py   experiments as examples, and left out
learned.py    the credit: a small file, and how it scores
lesson.py     what was learned, and whether it helps
learning.py   all of it in one call
"""

from interleaf.refine.learn.features import FEATURES as FEATURES
from interleaf.refine.learn.features import Clicked as Clicked
from interleaf.refine.learn.features import Feature as Feature
from interleaf.refine.learn.learned import Learned as Learned
from interleaf.refine.learn.learning import learn as learn
from interleaf.refine.learn.lesson import Lesson as Lesson
from interleaf.refine.learn.training import Training as Training
from interleaf.refine.learn.training import gather as gather
