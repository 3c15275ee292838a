"""Multi-attribute bias amplification (Zhao, Andrews and Xiang 2023): does a model exaggerate what it was shown?"""

from biaslib.metrics.amplification.labels import Labels, permutation_baseline
from biaslib.metrics.amplification.scores import Amplification, bias_amplification

__all__ = ["Amplification", "Labels", "bias_amplification", "permutation_baseline"]
