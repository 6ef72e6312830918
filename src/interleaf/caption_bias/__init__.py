"""Caption bias (H12c): clicks that a result gets for its caption, measured in a log and removed from the comparison.

    captions ──features──▶ codes ──shown_results──▶ counts ──training──▶ five models ──weighted_scores──▶ report

The words on the arrows are files; `docs/architecture.md` describes all of them.
"""

from interleaf.caption_bias.caption import caption as caption
from interleaf.caption_bias.diagnosis_report import CaptionReport as CaptionReport
from interleaf.caption_bias.features import (
    FEATURES as FEATURES,
    CaptionFeature as CaptionFeature,
    make_caption as make_caption,
)
from interleaf.caption_bias.logistic_model import CaptionModel as CaptionModel
from interleaf.caption_bias.training import DiagnosisSettings as DiagnosisSettings
