"""What tests of faces share."""

import pytest
import torch

from biaslib.gan.networks import Generator


@pytest.fixture(scope="module")
def generator():
    torch.manual_seed(0)
    return Generator(latent=8, widths=(8, 8)).eval()
