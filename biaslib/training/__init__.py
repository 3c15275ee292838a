"""Training and prediction: one configuration, one loop, resumable after every epoch."""

from biaslib.training.config import TrainingConfig
from biaslib.training.loop import DamagedCheckpointWarning, fit, fit_with_criterion, predict

__all__ = ["DamagedCheckpointWarning", "TrainingConfig", "fit", "fit_with_criterion", "predict"]
