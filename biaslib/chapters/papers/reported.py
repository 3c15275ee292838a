"""What the four papers print or type in: their tables, their quoted numbers and their sentences, from data/published/.

Every file has a column `where` that names the table, figure or section.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.chapters.page import readable, signed
from biaslib.chapters.papers.attention_iou import residuals
from biaslib.datasets import published
from biaslib.statistics import Interval

_Tables = Mapping[str, pd.DataFrame]


def printed(name: str) -> pd.DataFrame:
    """A table of a paper as printed, by its file in data/published/ without ".csv".

    Of Schaaf et al. (2021), whose p-values of 0.00 stand for p < 0.005: "schaaf-accuracy" (Table 1), "schaaf-p-values"
    (Tables 2 and 4), "schaaf-aopc" (Tables 3 and 5) and "schaaf-set-up".
    """
    return published.read(f"{name}.csv").drop(columns="where")


def family(network: str) -> str | None:
    """The network of Schaaf et al. ("EfficientNet" or "MobileNet") that a network is named after, or None."""
    return next((name for name in ("EfficientNet", "MobileNet") if name.lower() in network.lower()), None)


def not_rejected(object_: str, measure: str) -> tuple[int, int]:
    """In how many of the paper's tests the change of an object is not significant at its level, and of how many."""
    table = printed("schaaf-p-values")
    p = table[(table["object"] == object_) & (table["measure"] == measure)]["p"]
    return int((p > _set_up()["level"]).sum()), len(p)


def images_a_test() -> dict[str, int]:
    """Images of one object, which a test is about, by use case; the paper leaves out some wrong ones."""
    set_up = _set_up()
    return {name: int(set_up[f"{name}: images"] // set_up[f"{name}: classes"]) for name in ("pets", "fruits")}


def celeba_amplification() -> pd.DataFrame:
    """The values of CelebA that Zhao, Andrews and Xiang (2023) released, multiplied by 100, with 95 % intervals.

    Undirected values of single attributes cannot be compared with ours: the released code counts each hair colour
    twice, for the faces with it and without, and divides the absolute sum by these six rows, not by the 23 attributes.
    One row a value: kind ("mAP" or a kind of amplification), sets, sign, value, interval (half of its width), printed.
    """
    table = printed("amplification-celeba")
    pairs = zip(table["value"], table["interval"], strict=True)
    return table.assign(printed=[f"{value:.3f}\u00a0±\u00a0{half:.3f}".replace("-", "−") for value, half in pairs])


def quoted(tables: _Tables) -> pd.DataFrame:
    """Every result that the text of Attention-IoU (Serianni et al. 2025) quotes as a number.

    From the tables of `attention_iou.compute`: paper and paper_sd as printed, released (from the authors' score
    tables), recomputed (from predictions, or by a test on released scores); sd, low and high of the value found,
    difference (found minus paper) and agrees: "yes" (equal when rounded), "cut" (when cut off instead), "no".
    """
    rows = {
        "attributes": _rows(tables["attributes"], "attribute"),
        "subgroup_trends": _rows(tables["subgroup_trends"], "attribute", "group"),
        "mustache": _rows(tables["mustache"], "group"),
        "waterbirds": _rows(tables["waterbirds"], "backbone", "bias"),
        "precision": _rows(tables["precision"], "name"),
        "normalized_average_precision": _rows(published.printed_values()["normalized_average_precision"], "attribute"),
    }
    table = published.read("attention-iou-quoted.csv").rename(columns={"where": "place"})
    spreads = [_with_spread(rows[row["table"]][row["row"]], row["value"]) for row in table.to_dict("records")]
    values = pd.DataFrame(spreads, columns=["value", "sd", "low", "high"])
    table["paper_sd"] = pd.to_numeric(table["paper_sd"])
    for source in ("released", "recomputed"):
        table[source] = values["value"].where(table["source"] == source)
    table = table.drop(columns=["source", "table", "row", "value"]).join(values[["sd", "low", "high"]])
    table["difference"] = values["value"] - table["paper"]
    return table.assign(agrees=list(map(_verdict, values["value"], table["paper"], table["decimals"])))


def sentences(tables: _Tables) -> pd.DataFrame:
    """Where a sentence, a caption or the code of Attention-IoU says something that the released files do not.

    One row a sentence: place, says, files (what these show, with numbers of the tables) and verdict.
    """
    table = published.read("attention-iou-sentences.csv").rename(columns={"where": "place"})
    numbers = {**_of_birds(tables), **_of_training_sets(tables), **_of_attributes(tables)}
    return table.assign(files=[text.format_map(numbers) for text in table["files"]])


def _set_up() -> pd.Series:
    return printed("schaaf-set-up").set_index("quantity")["value"]


def _rows(table: pd.DataFrame, *key: str) -> dict[str, dict[Any, Any]]:
    """The rows as mappings, by what stands in their key column, or in several with a space between."""
    names = table[list(key)].astype(str).agg(" ".join, axis=1)
    return dict(zip(names, table.to_dict("records"), strict=True))


def _with_spread(row: Mapping[str, float], name: str) -> tuple[float, float, float, float]:
    """A value of a row with its standard deviation and the ends of its interval; NaN for what there is not."""
    prefix = "" if name in ("mean", "tau") else f"{name}_"
    value, sd, low, high = row[name], *(row.get(f"{prefix}{end}", np.nan) for end in ("sd", "low", "high"))
    if name == "tau":  # the authors' figure code drops the sign
        ends = sorted((abs(low), abs(high)))
        return abs(value), sd, 0.0 if low < 0 < high else ends[0], ends[1]
    return value, sd, low, high


def _verdict(value: float, paper: float, decimals: int) -> str:
    unit = 10.0**-decimals
    if abs(value - paper) <= unit / 2 + 1e-9:
        return "yes"
    return "cut" if 0 <= value - paper < unit else "no"


def _of_birds(tables: _Tables) -> dict[str, Any]:
    """The numbers of the sentences about Waterbirds."""
    table = tables["waterbirds"]
    birds = _rows(table[table["backbone"] == "resnet"], "bias")
    first, last = birds["50"], birds["100"]
    above = {bias: row for bias, row in birds.items() if row["wga"] > row["waterbirds_high"]}
    compared = [f"at {bias} %: {row['wga']:.3f} against {row['waterbirds']:.3f}" for bias, row in above.items()]
    return {
        "bias_50": first,
        "bias_100": last,
        "mask_fall": 100 * (1 - last["bird"] / first["bird"]),
        "wga_fall": 100 * (1 - last["wga"] / first["wga"]),
        "wga_by_bias": ", ".join(f"{row['wga']:.2f}" for row in birds.values()),
        "wga_above_class": "; ".join(compared),
    }


def _of_training_sets(tables: _Tables) -> dict[str, Any]:
    """The numbers of the sentences about training sets of several correlations."""
    trends = _rows(tables["subgroup_trends"], "attribute", "group")
    groups = {name: trends[f"Blond_Hair {name}"] for name in ("TF", "FT", "FF")}
    p = max(row["p"] for row in groups.values())
    bounds = ("0.0001", "0.001", "0.01", "0.05")
    return {
        "blond_tau": _signed(trends["Blond_Hair all"]["tau"]),
        "blond_p": trends["Blond_Hair all"]["p"],
        "blond_groups": ", ".join(f"{name} {_signed(row['tau'], 2)}" for name, row in groups.items()),
        "blond_groups_p": next((bound for bound in bounds if p < float(bound)), "1"),
        "wavy_tau": _signed(trends["Wavy_Hair all"]["tau"]),
    }


def _of_attributes(tables: _Tables) -> dict[str, Any]:
    """The numbers of the sentences about attributes, regions, the second network and the average precision."""
    table = tables["attributes"]
    others = table[table["attribute"] != published.PROTECTED]
    resnet, efficientnet = (_rows(tables[name], "attribute") for name in ("attributes", "attributes_efficientnet"))
    beyond = residuals(others).sort_values(ascending=False)
    own = tables["regions"].merge(table[["attribute", "wga"]], on="attribute")
    one_model = [name for name, row in efficientnet.items() if row["heatmap_sd"] == 0 and name != published.PROTECTED]
    trends = tables["trends"]
    taus = [Interval(*row) for row in trends[["tau", "low", "high", "n"]].itertuples(index=False)]
    candidates = zip(tables["precision"]["name"], tables["precision"]["value"], strict=True)
    return {
        "resnet": resnet,
        "efficientnet": efficientnet,
        "uniform": _rows(tables["uniform"], "region"),
        "tau": dict(zip(trends["name"], [signed(tau, ".2f") for tau in taus], strict=True)),
        "highest_mcc": readable(others.sort_values("mcc")["attribute"].tolist()[-1]),
        "highest_heatmap": readable(others.sort_values("heatmap")["attribute"].tolist()[-1]),
        "named_residuals": ", ".join(_signed(beyond[name], 1) for name in ("Eyeglasses", "Mustache", "Wavy_Hair")),
        "furthest": readable(beyond.index[0]),
        "furthest_residual": _signed(beyond.iloc[0], 1),
        "second": readable(beyond.index[1]),
        "second_residual": _signed(beyond.iloc[1], 1),
        "n_higher": int((others["mcc"] > others["label_mcc"].abs()).sum()),
        "n_others": len(others),
        "mask_wga_p": float(scipy.stats.kendalltau(own["mask"], own["wga"]).pvalue),
        "resnet_gap": resnet["Blond_Hair"]["heatmap"] - resnet["Wavy_Hair"]["heatmap"],
        "efficientnet_gap": efficientnet["Blond_Hair"]["heatmap"] - efficientnet["Wavy_Hair"]["heatmap"],
        "one_model": ", ".join(readable(name) for name in one_model),
        "precisions": "; ".join(f"{name} {value:.3f}" for name, value in candidates),
    }


def _signed(value: float, digits: int = 3) -> str:
    return signed(value, f"+.{digits}f")
