"""Labelled codes of a tiny generator."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from biaslib import training
from biaslib.chapters import face_codes
from biaslib.chapters.attribute_models import trained
from biaslib.chapters.face_codes import encoded_codes, labelled, labelled_codes, readable, request
from biaslib.chapters.face_directions import looks
from biaslib.chapters.face_generators import Trained
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes
from biaslib.gan.encoder import Encoder, encoded
from biaslib.worlds.faces import STRENGTH, Faces
from tests.chapters.judges import Judge
from tests.chapters.test_face_sensitivity import JUDGE, TINY

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_codes_are_labelled_by_what_judges_see(generator):
    codes, labels = labelled_codes(generator, [Judge()], count=40, seed=3)
    np.testing.assert_array_equal(codes, latent_codes(40, 8, seed=3))
    light = training.predict(Judge(), draw(generator, codes))[:, 0] >= 0
    np.testing.assert_array_equal(labels["Smiling"], light)
    assert 0 < light.sum() < 40
    assert labels.to_numpy().dtype == bool


def test_encoded_faces_keep_their_true_labels(generator):
    torch.manual_seed(1)
    encoder = Encoder(latent=8, size=8, widths=(4,)).eval()
    trained = Trained(generator, encoder, np.zeros((1, 1, 8, 8, 3), np.uint8), pd.DataFrame(), np.zeros(8))
    codes, labels = encoded_codes(trained, count=30, seed=2)
    table = Faces().factors(30, strength=STRENGTH, seed=2, detail=1.0)
    pd.testing.assert_frame_equal(labels, table[list(Faces.attributes)].astype(bool))
    np.testing.assert_array_equal(codes, encoded(encoder, Faces().render(table, size=8).images))


def test_looks_are_columns_beside_the_labels(generator):
    reader = looks(size=8, count=300)
    assert reader.readable
    codes, labels = labelled_codes(generator, [Judge()], count=20, reader=reader)
    assert list(labels.columns) == [*Faces.attributes, *reader.readable]
    np.testing.assert_array_equal(labels[reader.readable], reader(draw(generator, codes)) > 0)


def test_codes_of_both_ways_come_from_the_store(monkeypatch):
    generator = face_codes.generator_of(TINY)
    ways = {way: request(TINY, [JUDGE], way=way, count=40, seed=3) for way in ("encoded", "generated")}
    found = {way: labelled(asked) for way, asked in ways.items()}
    monkeypatch.setattr(face_codes, "encoded_codes", None)
    monkeypatch.setattr(face_codes, "labelled_codes", None)
    for way, asked in ways.items():
        codes, labels = labelled(asked)
        np.testing.assert_array_equal(codes, found[way][0])
        pd.testing.assert_frame_equal(labels, found[way][1])
        assert list(labels)[: len(Faces.attributes)] == list(Faces.attributes)
        assert readable(labels) == list(labels)[len(Faces.attributes) :]
        assert readable(labels)
    np.testing.assert_array_equal(found["generated"][0], latent_codes(40, 32, seed=8_000_003))
    table = Faces().factors(40, strength=STRENGTH, seed=7_000_003, detail=1.0)[list(Faces.attributes)].astype(bool)
    pd.testing.assert_frame_equal(found["encoded"][1][list(Faces.attributes)], table)
    said = smiles(generator, found["generated"][0])
    np.testing.assert_array_equal(found["generated"][1]["Smiling"], said)


def smiles(generator, codes):
    (judge,) = trained([JUDGE])
    return training.predict(judge, draw(generator.generator, codes))[:, Faces.attributes.index("Smiling")] >= 0


def test_judges_do_not_count_where_faces_have_labels_of_their_own():
    assert request(TINY, [JUDGE], way="encoded", count=4) == request(TINY, [], way="encoded", count=4)
    assert request(TINY, [JUDGE], way="generated", count=4) != request(TINY, [], way="generated", count=4)
    with pytest.raises(BiaslibError, match="count must be at least 1, not 0"):
        request(TINY, [JUDGE], way="encoded", count=0)
    with pytest.raises(BiaslibError, match="way must be encoded or generated, not 'drawn'"):
        request(TINY, [JUDGE], way="drawn", count=4)


def test_codes_of_another_training_of_a_generator_are_others():
    other = dataclasses.replace(TINY, gan=dataclasses.replace(TINY.gan, seed=1))
    asked = [request(one, [], way="encoded", count=4) for one in (TINY, other)]
    assert asked[0].weights != asked[1].weights
