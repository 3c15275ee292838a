"""Three ways to train or read a classifier so that it leans less on the group; none is taken on trust."""

from biaslib.mitigation.objectives import Adversarial, Constrained, DomainIndependent, corpus_constraints, domain_scores

__all__ = ["Adversarial", "Constrained", "DomainIndependent", "corpus_constraints", "domain_scores"]
