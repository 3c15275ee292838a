"""What the text of Attention-IoU (Serianni et al. 2025) says, beside what the released files give."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.datasets import published

Tables = Mapping[str, pd.DataFrame]
Rows = dict[Any, dict[str, Any]]

_COLUMNS = ["place", "number", "paper", "paper_sd", "decimals", "released", "recomputed", "sd", "low", "high"]


def quoted(tables: Tables) -> pd.DataFrame:
    """Every result the paper's text quotes as a number.

    Args:
        tables: what `tables.compute` gives.

    Returns:
        columns place (section), number (what it is), paper and paper_sd (as printed), decimals (as printed),
        released (from the authors' score tables; NaN where they hold none), recomputed (from predictions, or by a
        test on released scores; NaN where neither is possible), sd, low and high of the value that was found,
        difference (found minus paper) and agrees: "yes" (equal when rounded as the paper rounds), "cut" (equal
        when cut off instead of rounded), "no".
    """
    resnet = _keyed(tables["attributes"], "attribute")
    trends = _keyed(tables["subgroup_trends"], ["attribute", "group"])
    groups = _keyed(tables["mustache"], "group")
    rows = [
        *[_mcc(resnet, *printed) for printed in _MCC],
        *[_heatmap(resnet, *printed) for printed in _HEATMAP],
        *[_tau(trends, name, paper) for name, paper in (("Blond_Hair", 0.007), ("Wavy_Hair", 0.785))],
        *[_released("Suppl. F", f"Mustache: heatmap score, {what}", paper, sd, 2, groups[group])
          for what, group, paper, sd in _MUSTACHE],
        *_waterbirds_rows(tables["waterbirds"]),
        *_precision_rows(tables["precision"]),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=_COLUMNS)
    found = table["recomputed"].fillna(table["released"])
    table["difference"] = found - table["paper"]
    table["agrees"] = [
        _verdict(value, paper, int(digits))
        for value, paper, digits in zip(found, table["paper"], table["decimals"], strict=True)
    ]
    return table


def sentences(tables: Tables) -> pd.DataFrame:
    """Where a sentence, a caption or the code says something that the released files do not: one row a sentence.

    Returns:
        columns place, says (in the paper's words or close to them), files (what the files show, with its numbers) and
        verdict ("holds", "holds in part", "does not hold", "cannot be checked").
    """
    return pd.DataFrame(
        [
            *_about_waterbirds(tables),
            *_about_training_sets(tables),
            *_about_attributes(tables),
            *_about_efficientnet(tables),
            *_about_precision(tables),
        ],
        columns=["place", "says", "files", "verdict"],
    )


# attribute, section, the paper's value and its standard deviation
_MCC = (
    ("Wearing_Lipstick", "Sec. 3", 0.88, 0.03),
    ("Eyeglasses", "Sec. 3", 0.26, 0.02),
    ("Blond_Hair", "Sec. 3", 0.34, 0.02),
    ("Wavy_Hair", "Sec. 3", 0.37, 0.05),
    ("Mustache", "Suppl. F", 0.51, 0.04),
)
_HEATMAP = (
    ("Eyeglasses", "Sec. 3", 0.86, 0.01),
    ("Blond_Hair", "Sec. 3", 0.72, 0.02),
    ("Wavy_Hair", "Sec. 3", 0.65, 0.03),
    ("Mustache", "Suppl. F", 0.90, 0.02),
)
_MUSTACHE = (
    ("not Male", "FF", 0.94, 0.02),
    ("both", "TT", 0.84, 0.5),
    ("Male only", "FT", 0.82, 0.03),
)


def _mcc(resnet: Rows, name: str, place: str, paper: float, sd: float) -> tuple:
    row = resnet[name]
    return (place, f"{words(name)}: |MCC| with Male", paper, sd, 2, np.nan, row["mcc"], row["mcc_sd"],
            row["mcc_low"], row["mcc_high"])  # fmt: skip


def _heatmap(resnet: Rows, name: str, place: str, paper: float, sd: float) -> tuple:
    row = resnet[name]
    found = {"mean": row["heatmap"], **{k: row[f"heatmap_{k}"] for k in ("sd", "low", "high")}}
    return _released(place, f"{words(name)}: heatmap score", paper, sd, 2, found)


def _tau(trends: Rows, name: str, paper: float) -> tuple:
    row = trends[name, "all"]
    what = f"{words(name)}: Kendall's |τ|, score and MCC"  # the authors' figure code drops the sign
    ends = sorted(abs(row[end]) for end in ("low", "high"))
    low = 0.0 if row["low"] < 0 < row["high"] else ends[0]
    return ("Sec. 3", what, paper, np.nan, 3, np.nan, abs(row["tau"]), np.nan, low, ends[1])


def _waterbirds_rows(table: pd.DataFrame) -> list[tuple]:
    resnet = _keyed(table[table["backbone"] == "resnet"], "bias")
    rows = []
    for bias, mask, mask_sd, wga, wga_sd in ((50, 0.72, 0.02, 0.81, 0.02), (100, 0.42, 0.03, 0.21, 0.10)):
        one = resnet[bias]
        bird = {"mean": one["bird"], **{k: one[f"bird_{k}"] for k in ("sd", "low", "high")}}
        worst = {"mean": one["wga"], "sd": one["wga_sd"], "low": np.nan, "high": np.nan}
        rows.append(_released("Suppl. D", f"Waterbirds, {bias} %: bird mask score", mask, mask_sd, 2, bird))
        rows.append(_released("Suppl. D", f"Waterbirds, {bias} %: worst-group accuracy", wga, wga_sd, 2, worst))
    return rows


def _precision_rows(table: pd.DataFrame) -> list[tuple]:
    mean = table["value"].iloc[0]
    rows = [_released("Suppl. F", "All 40 attributes: average precision", 0.902, 0.025, 3, {"mean": mean})]
    ap_n = _keyed(published.printed_values()["normalized_average_precision"], "attribute")
    for name, paper, sd in (("Male", 0.994, 0.003), ("Eyeglasses", 0.998, 0.001)):
        rows.append(_released("Suppl. F", f"{words(name)}: normalised average precision", paper, sd, 3, ap_n[name]))
    return rows


def _released(place: str, what: str, paper: float, sd: float, digits: int, found: Mapping[str, float]) -> tuple:
    spread = [found.get(name, np.nan) for name in ("sd", "low", "high")]
    return (place, what, paper, sd, digits, found["mean"], np.nan, *spread)


def _verdict(found: float, paper: float, decimals: int) -> str:
    unit = 10.0**-decimals
    if abs(found - paper) <= unit / 2 + 1e-9:
        return "yes"
    return "cut" if 0 <= found - paper < unit else "no"


def _about_waterbirds(tables: Tables) -> list[tuple]:
    birds = tables["waterbirds"]
    resnet = _keyed(birds[birds["backbone"] == "resnet"], "bias")
    first, last = resnet[50], resnet[100]
    mask_fall, wga_fall = 1 - last["bird"] / first["bird"], 1 - last["wga"] / first["wga"]
    impossible = {bias: row for bias, row in resnet.items() if row["wga"] > row["waterbirds_high"]}
    bounds = "; ".join(f"at {b} %: {r['wga']:.3f} against {r['waterbirds']:.3f}" for b, r in impossible.items())
    steps = ", ".join(f"{row['wga']:.2f}" for row in resnet.values())
    return [
        ("Suppl. D", "The bird's mask score decreases from 0.72 to 0.42",
         f"{first['bird']:.3f} to {last['bird']:.3f}, also in the paper's own bars. Files that no released figure "
         f"reads have {first['unused']:.3f} to {last['unused']:.3f}: the text is probably about an earlier run",
         "does not hold"),
        ("Suppl. D", "The fall of the mask score almost exactly mirrors the proportional fall of WGA",
         f"the mask score falls by {100 * mask_fall:.0f} %, WGA by {100 * wga_fall:.0f} %", "does not hold"),
        ("Fig. 7", "As the bias increases, the worst-group accuracy decreases", f"WGA is {steps}: it rises first",
         "holds in part"),
        ("Fig. 7", "The WGAs beside the bars are those of the models shown",
         f"no group can be worse off than the worst one, so WGA cannot exceed the accuracy on all waterbirds; it does "
         f"({bounds}): these WGAs come from other predictions or other images", "does not hold"),
    ]  # fmt: skip


def _about_training_sets(tables: Tables) -> list[tuple]:
    trends = _keyed(tables["subgroup_trends"], ["attribute", "group"])
    whole, wavy = trends["Blond_Hair", "all"], trends["Wavy_Hair", "all"]
    parts = {name: trends["Blond_Hair", name] for name in ("TF", "FT", "FF")}
    smallest = _bound(max(row["p"] for row in parts.values()))
    listed = ", ".join(f"{name} {row['tau']:+.2f}".replace("-", "−") for name, row in parts.items())
    return [
        ("Sec. 3", "Blond Hair: no statistically significant change in heatmap score with the training set's MCC",
         f"true of the mean over all images (τ = {_signed(whole['tau'])}, p = {whole['p']:.2f}); three of the four "
         f"groups do change, in opposite directions ({listed}; corrected p < {smallest}), and cancel", "holds in part"),
        ("Sec. 3", "Kendall's tau is 0.007 (Blond Hair) and 0.785 (Wavy Hair)",
         f"against the training sets' MCC it is {_signed(whole['tau'])} and "
         f"{_signed(wavy['tau'])}: the score falls as a negative MCC nears 0. The figure "
         "code takes the absolute value, and the MCC of predictions that were not released", "cannot be checked"),
    ]  # fmt: skip


def _about_attributes(tables: Tables) -> list[tuple]:
    table = tables["attributes"]
    others = table[table["attribute"] != published.PROTECTED]
    top_mcc, top_heat = (others.sort_values(column)["attribute"].tolist()[-1] for column in ("mcc", "heatmap"))
    blond = _keyed(table, "attribute")["Blond_Hair"]
    beyond = residuals(others).sort_values(ascending=False)
    uniform = {region: row["mean"] for region, row in _keyed(tables["uniform"], "region").items()}
    trends = _keyed(tables["trends"], "name")
    higher = int((others["mcc"] > others["label_mcc"].abs()).sum())
    own = tables["regions"].merge(tables["attributes"][["attribute", "wga"]], on="attribute")
    p = float(scipy.stats.kendalltau(own["mask"], own["wga"]).pvalue)
    return [
        ("Sec. 3", "Wearing Lipstick has the highest correlation with Male and the highest heatmap score",
         f"highest correlation: {words(top_mcc)}; highest score: {words(top_heat)}", "holds"),
        ("Fig. 3", "Eyeglasses and Mustache lie above the trend, Wavy Hair below",
         "they do, by " + ", ".join(f"{_signed(beyond[n], 1)}" for n in ("Eyeglasses", "Mustache", "Wavy_Hair"))
         + f" residual SD; {words(beyond.index[0])} ({_signed(beyond.iloc[0], 1)}) and {words(beyond.index[1])} "
         f"({_signed(beyond.iloc[1], 1)}) lie further out and are not named", "holds in part"),
        ("Sec. 3", "The MCC measures the correlation between the attribute and the Male label",
         f"it is taken between two predictions, which are more correlated with each other than the labels are in "
         f"{higher} of {len(others)} attributes", "holds in part"),
        ("Fig. 3", "The bar \"Uniform Attention\" shows a map that is equal everywhere",
         f"such a map would score a larger region higher; its file gives the mouth {uniform['mouth']:.2f} and the "
         f"skin, which is larger, {uniform['skin']:.2f}; it looks like a model's map of Smiling", "does not hold"),
        ("Fig. 2", "Groups below 1 % of the test set were excluded",
         f"this leaves out the {blond['any_worst_n']} faces annotated blond and Male, for whom accuracy is "
         f"{blond['any_wga']:.3f}: with them, Blond Hair's WGA of {blond['wga']:.3f} would be that", "holds"),
        ("Fig. 2", "There is no strong correlation between WGA and the mask score",
         f"τ = {_interval(trends['mask_wga'])} over 17 attributes: moderate; the exact test of none gives p = {p:.3f}",
         "holds"),
    ]  # fmt: skip


def _about_efficientnet(tables: Tables) -> list[tuple]:
    first, second = (_keyed(tables[name], "attribute") for name in ("attributes", "attributes_efficientnet"))
    trends = _keyed(tables["trends"], "name")
    gaps = [table["Blond_Hair"]["heatmap"] - table["Wavy_Hair"]["heatmap"] for table in (first, second)]
    single = [words(n) for n, row in second.items() if row["heatmap_sd"] == 0 and n != published.PROTECTED]
    shadow = "5_o_Clock_Shadow"
    return [
        ("Fig. 13", "EfficientNetV2 shows a very similar trend; the highlighted attributes keep their place",
         f"τ with |MCC| is {_interval(trends['heatmap_mcc_efficientnet'])} instead of "
         f"{_interval(trends['heatmap_mcc'])}; the gap between Blond Hair and Wavy Hair, on which the "
         f"confounder argument rests, shrinks from {gaps[0]:.3f} to {gaps[1]:.3f}", "holds in part"),
        ("Fig. 13", "Every point is a mean over 10 models",
         f"the file of {', '.join(single)} has a deviation of exactly 0, so it holds one model; it is the point "
         f"that moves furthest ({first[shadow]['heatmap']:.3f} to {second[shadow]['heatmap']:.3f})", "does not hold"),
        ("Fig. 12", "The lower bars are the ResNet-50 scores of Fig. 3", "they are the ResNet-18 scores of Fig. 7",
         "does not hold"),
    ]  # fmt: skip


def _about_precision(tables: Tables) -> list[tuple]:
    candidates = tables["precision"]
    listed = "; ".join(f"{n} {value:.3f}" for n, value in zip(candidates["name"], candidates["value"], strict=True))
    trend = _keyed(tables["trends"], "name")["mask_ap_n"]
    return [
        ("Suppl. F", "The average precision over all 40 attributes is 0.902",
         f"none of the candidates gives it: {listed}. The released trainer prints average precisions and accuracies "
         "under each other's names", "does not hold"),
        ("Fig. 10", "There is no correlation between normalised average precision and the mask score",
         f"τ = {_interval(trend)} with the printed AP_N; it needs the "
         "models' scores, of which only 0/1 predictions were released", "holds"),
    ]  # fmt: skip


def residuals(attributes: pd.DataFrame) -> pd.Series:
    """Distance of each attribute's heatmap score from the straight line through all, in residual standard deviations.

    Args:
        attributes: columns attribute, mcc, heatmap.

    Returns:
        indexed by attribute; NaN where fewer than three attributes, or all with one mcc, leave no residuals.
    """
    mcc, heatmap = (attributes[column].to_numpy(float) for column in ("mcc", "heatmap"))
    if len(mcc) < 3 or np.ptp(mcc) == 0:
        return pd.Series(np.nan, index=attributes["attribute"])
    rest = pd.Series(heatmap - np.polyval(np.polyfit(mcc, heatmap, 1), mcc), index=attributes["attribute"])
    return rest / np.sqrt((rest**2).sum() / (len(rest) - 2))


def _keyed(table: pd.DataFrame, key: str | list[str]) -> Rows:
    """The rows as mappings, by what stands in their key column."""
    rows = table.set_index(key).to_dict("index")
    return {name: {str(column): value for column, value in row.items()} for name, row in rows.items()}


def words(attribute: str) -> str:
    """An attribute's name as one says it: Wavy Hair, 5 o'Clock Shadow."""
    return attribute.replace("5_o_Clock", "5 o'Clock").replace("_", " ")


def _signed(value: float, digits: int = 3) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def _interval(row: Mapping[str, float]) -> str:
    return f"{row['tau']:.2f} [{row['low']:.2f}, {row['high']:.2f}]".replace("-", "−")


def _bound(p: float) -> str:
    """The smallest power of ten above p, down to 0.0001."""
    return next(str(bound) for bound in ("0.0001", "0.001", "0.01", "0.05", "1") if p < float(bound) or bound == "1")
