"""Every metric of the book on the same models, whose bias is a dial, beside the true causal effect of the bias."""
