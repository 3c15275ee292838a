"""What tests of faces share."""

import pytest
import torch

from biaslib.gan.networks import GeneratorNetwork


@pytest.fixture(scope="module")
def generator():
    torch.manual_seed(0)
    return GeneratorNetwork(latent=8, widths=(8, 8)).eval()
