"""One metric of each of four libraries, by `biaslib.dial.adapters`: captum, grad-cam, Quantus and fairlearn.

Sides, said before measuring:

* *RMA of the cue, Saliency* (captum 0.9): the share of the absolute gradient of the answer that lies on the cue. Above:
  a biased model's answer changes with the cue. Gradients of small networks are noisy, so we expect little.
* *RMA of the cue, LayerCAM* (grad-cam 1.5): as with Grad-CAM, but each place has its own weight, and only what speaks
  for the answer counts. Above. HiResCAM would say nothing new: behind average pooling and a linear layer it equals
  Grad-CAM. EigenCAM was left out, as the sign of its map is that of a singular vector, which is not defined.
* *Sparseness of Grad-CAM* (Quantus 0.6): the Gini index of the map. Above: one simple sign is enough for a biased
  model. Where the cue is the whole background, as in birds and fruits, it may well be the other way round.
* *Equalized odds difference* (fairlearn 0.15): the larger of two gaps between images with the cue and without it, in
  the share that is answered "target" of those that have it, and of the others. Above: it counts what bias does.

NaN: for maps, a map of zeros, and where a mask is asked for, an image without the cue.
"""

import captum.attr
import fairlearn.metrics
import pytorch_grad_cam
import quantus

from biaslib import dial
from biaslib.dial import adapters

dial.metric(name="RMA of the cue, Saliency", tier=3, side="above", passes=3)(adapters.captum(captum.attr.Saliency))

dial.metric(name="RMA of the cue, LayerCAM", tier=3, side="above", passes=3)(
    adapters.grad_cam(pytorch_grad_cam.LayerCAM)
)

dial.metric(name="Sparseness of Grad-CAM", tier=3, side="above", passes=3)(
    adapters.quantus(quantus.Sparseness(disable_warnings=True))
)

dial.metric(name="Equalized odds difference", tier=1, side="above", passes=1)(
    adapters.fairlearn(fairlearn.metrics.equalized_odds_difference)
)
