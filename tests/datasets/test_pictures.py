"""What happens to a file of a data set that is no picture, or too large a one."""

import os

import pytest
from PIL import Image

from biaslib.datasets import pictures, registry
from biaslib.errors import BiaslibError

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 32\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture
def readers(tmp_path):
    """Everything here that opens a picture of a data set, given one file."""
    dataset = registry.get("oxford-iiit-pet")
    return [
        lambda file: pictures.photos(dataset, [file], size=8),
        lambda file: pictures.segmentations(dataset, [file], size=8),
        lambda file: pictures.read_picture(dataset, file, "L"),
    ]


def test_a_program_called_a_picture_starts_nothing(tmp_path, monkeypatch, readers):
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\nexit 1\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    file = tmp_path / "0000.png"
    file.write_bytes(EPS)
    for read in readers:
        with pytest.raises(BiaslibError, match=r"0000\.png is damaged"):
            read(file)
    assert not (tmp_path / "started").exists()


def test_a_picture_that_would_fill_the_memory_is_one_sentence(tmp_path, monkeypatch, readers):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    file = tmp_path / "large.png"
    Image.new("RGB", (20, 20)).save(file)
    for read in readers:
        with pytest.raises(BiaslibError, match=r"large\.png is damaged .*decompression bomb"):
            read(file)
