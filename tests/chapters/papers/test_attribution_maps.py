from biaslib.chapters.papers import attribution_maps


def test_table_1_is_whole_and_biased_networks_lose_what_the_paper_says():
    table = attribution_maps.accuracies()
    assert len(table) == 16
    assert not table.duplicated(["use_case", "network", "trained", "tested"]).any()
    wide = table.pivot_table("accuracy", ["use_case", "network", "trained"], "tested")
    drop = (wide["biased"] - wide["unbiased"]).xs("biased", level="trained")
    assert (drop.min().round(2), drop.max().round(2)) == (0.17, 0.25)  # "between 17 and 25 percent points"


def test_p_values_are_those_of_tables_2_and_4():
    table = attribution_maps.p_values()
    assert table.groupby("use_case").size().to_dict() == {"fruits": 80, "pets": 48}
    assert not table.duplicated(list(table.columns[:-1])).any()
    balls = table[table["object"] == "Ball"]
    assert (balls["p"] == 0).all()  # "for Ball the p-values are always zero"
    apples = table[(table["object"] == "Apple") & (table["p"] > 0)]
    assert set(apples["method"]) == {"Grad-CAM"}  # "except for a single case (GC + RRA)": it is two
    assert len(apples) == 2
    one = table.set_index(["network", "object", "method", "measure"])["p"]
    assert one["MobileNet", "Cat", "Integrated gradients", "rra"] == 0.91
    assert one["EfficientNet", "Peach", "Score-CAM", "rra"] == 0.00
    assert one["MobileNet", "Pineapple", "Grad-CAM", "rma"] == 0.94
    assert one["EfficientNet", "Dog", "ε-LRP", "rra"] == 0.89


def test_networks_are_set_beside_those_they_are_named_after_and_no_others():
    names = ("small MobileNet", "MobileNetV1 × 0.75", "efficientnet_b0", "resnet18")
    assert [attribution_maps.family(name) for name in names] == ["MobileNet", "MobileNet", "EfficientNet", None]
