"""Generators of faces: what any of them has to be able to do, ours that grow, and walks (Denton et al. 2019)."""

from biaslib.gan.counterfactuals import Generator
from biaslib.gan.networks import Critic, GeneratorNetwork

__all__ = ["Critic", "Generator", "GeneratorNetwork"]
