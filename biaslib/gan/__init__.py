"""A generator of faces that grows, for counterfactuals along directions of its latent space (Denton et al. 2019)."""

from biaslib.gan.networks import Critic, Generator

__all__ = ["Critic", "Generator"]
