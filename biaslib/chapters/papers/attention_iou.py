"""The tables behind the figures of Attention-IoU (Serianni et al. 2025), recomputed from what its authors released."""

from typing import Any, get_args

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.chapters import page
from biaslib.datasets import celeba, published, registry, waterbirds
from biaslib.datasets.published import Backbone
from biaslib.metrics import worst_group_accuracy
from biaslib.metrics.groups import matthews_correlation, matthews_from_counts
from biaslib.mitigation.subsampling import subgroup_sizes
from biaslib.statistics import holm, interval, kendall
from biaslib.statistics.intervals import widened
from biaslib.store.files import beside

_NEEDS = beside(__file__)["needs"]
_MODELS = {"resnet": 20, "efficientnet": 10, "positive": 10}
# regions that the paper's figures show: without those that are large and nowhere in particular
LOCALISED = tuple(region for region in celeba.REGIONS if region not in ("background", "skin", "cloth", "neck"))
_TARGETS = (-0.5, -0.4, -0.3, -0.2, -0.1)  # along the axis of Fig. 8
_DIGITS = 6  # of the numbers in the tables, so that a fresh run and its record are the same


def missing() -> list[str]:
    """What `compute` needs and does not find, relative to the folder of all datasets; empty where all is there."""
    return registry.missing(*_NEEDS)


def compute(*, min_share: float = 0.01, resamples: int = 1000, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Every table of the chapter, by name.

    `by_group` has the heatmap scores of each group (Fig. 11), `profiles` the mask scores of every region (Fig. 3
    right), `subgroups` heatmap scores after training on sets of varied correlation (Fig. 5), `sizes` what such sets
    hold (Fig. 8), `uniform` the bars of "Uniform Attention", `overlap` how many test images CelebA itself trains on. A
    group below `min_share` of the test set does not count towards the worst one (Fig. 2: 1 %).
    """
    resnet, efficientnet = (_attributes(backbone, min_share, resamples, seed) for backbone in get_args(Backbone))
    profiles = _over_models(published.mask_scores("resnet"), _MODELS["resnet"])
    parts = [published.subgroup_scores(name).assign(attribute=name) for name in ("Blond_Hair", "Wavy_Hair")]
    varied = pd.concat(parts, ignore_index=True)
    tables = {
        "attributes": resnet,
        "attributes_efficientnet": efficientnet,
        "by_group": _over_models(published.heatmap_scores("resnet"), _MODELS["resnet"]),
        "regions": _regions(profiles),
        "profiles": profiles,
        "one_sided": _one_sided(seed),
        "subgroups": varied[["attribute", "target_mcc", "group", "mean", "sd"]],
        "subgroup_trends": _subgroup_trends(varied, resamples, seed),
        "sizes": _sizes(),
        "waterbirds": _waterbirds(resamples, seed),
        "precision": _precision(),
        "uniform": published.uniform_bar(),
        "overlap": pd.DataFrame({"images": [published.images_in_celebas_training()]}),
    }
    tables["trends"] = _trends(tables, resamples, seed)
    return {name: table.round(_DIGITS) for name, table in tables.items()}


def residuals(attributes: pd.DataFrame) -> pd.Series:
    """Distance, by attribute, of the heatmap score from its line on mcc, in residual deviations; NaN without a line."""
    mcc, heatmap = (attributes[column].to_numpy(float) for column in ("mcc", "heatmap"))
    if len(mcc) < 3 or np.ptp(mcc) == 0:
        return pd.Series(np.nan, index=attributes["attribute"])
    rest = pd.Series(heatmap - np.polyval(np.polyfit(mcc, heatmap, 1), mcc), index=attributes["attribute"])
    return rest / np.sqrt((rest**2).sum() / (len(rest) - 2))


def _attributes(backbone: Backbone, min_share: float, resamples: int, seed: int) -> pd.DataFrame:
    """One row for each of the 40 attributes (Figs. 2, 3 left and 13).

    Intervals of what is computed from predictions cover new test images and new models together, those of released
    scores, of which only mean and deviation are known, new models only. label_mcc is with Male as annotated, mcc the
    absolute value of the mean over models; male_with and male_without are the shares annotated Male among the faces
    that have the attribute and among the others; residual is that of `residuals`. wga is of the worst group that is
    large enough, worst_group ("TF": attribute annotated true, Male false), the same with any_ before the name where
    groups of every size count.
    """
    labels = published.annotated_labels()
    predicted = published.predictions(backbone)
    images, models = _image_draws(len(labels), resamples, seed), _model_draws(len(predicted), resamples, seed)
    male = list(labels).index(published.PROTECTED)
    truth = labels.to_numpy()

    mcc = matthews_correlation(predicted.swapaxes(1, 2), predicted[:, None, :, male])  # (models, attributes)
    sign = np.sign(mcc.mean(axis=0))
    table = pd.DataFrame({"attribute": labels.columns, "label_mcc": matthews_correlation(truth.T, truth[:, male])})
    sides = {"male_with": truth, "male_without": ~truth}
    table = table.assign(**{name: [truth[rows, male].mean() for rows in side.T] for name, side in sides.items()})
    table["mcc"] = sign * mcc.mean(axis=0)
    drawn = _resampled_mcc(predicted, male, images, models) * sign
    ends = [_interval(draws, mean, len(predicted)) for draws, mean in zip(drawn.T, table["mcc"], strict=True)]
    table["mcc_low"], table["mcc_high"] = np.array(ends).T
    letters, worst = np.where(truth, "T", "F"), []
    for a in range(len(labels.columns)):
        correct, groups = predicted[:, :, a] == truth[:, a], np.char.add(letters[:, a], letters[:, male])
        large, every = (_worst_group(correct, groups, share, images, models) for share in (min_share, 0.0))
        worst.append(large | {f"any_{key}": value for key, value in every.items()})
    scores = published.heatmap_scores(backbone).query("group == 'all'").reset_index(drop=True)
    heat = _over_models(scores, len(predicted)).add_prefix("heatmap_").rename(columns={"heatmap_mean": "heatmap"})
    table = pd.concat([table, pd.DataFrame(worst), heat.drop(columns=["heatmap_attribute", "heatmap_group"])], axis=1)
    beyond = residuals(table[table["attribute"] != published.PROTECTED])
    return table.assign(residual=table["attribute"].map(beyond))


def _one_sided(seed: int) -> pd.DataFrame:
    """The models trained on faces with glasses only ("positive") or without ("negative"; Fig. 4), by test faces.

    One row a kind and faces ("with" or "without" glasses): n faces, how many `training` faces the kind saw, accuracy on
    Male and (smiling) on Smiling with intervals over models, the share of faces that are answered `glasses`, lowest and
    highest of the models, and the released heatmap score of that answer with Male on all faces.
    """
    labels, trained_on = published.annotated_labels(), published.annotated_labels("trained on")["Eyeglasses"]
    scores = _over_models(published.one_sided_scores(), _MODELS["positive"]).query("region == 'heatmap'")
    heat = scores.set_index("trained_on")
    rows: list[dict[str, Any]] = []
    kinds: dict[published.Networks, pd.Series] = {"positive": trained_on, "negative": ~trained_on}
    for side, shown in kinds.items():
        predicted = published.predictions(side)
        right = predicted == labels.to_numpy()
        glasses = predicted[:, :, labels.columns.get_loc("Eyeglasses")].mean(axis=1)
        for faces, at in (("with", labels["Eyeglasses"]), ("without", ~labels["Eyeglasses"])):
            row = {"trained_on": side, "faces": faces, "n": int(at.sum()), "training": int(shown.sum())}
            for name, attribute in (("male", published.PROTECTED), ("smiling", "Smiling")):
                accuracy = right[:, at.to_numpy(), labels.columns.get_loc(attribute)].mean(axis=1)
                row[name] = interval(accuracy, seed=seed, bounds=(0, 1))
            row |= {"glasses_least": glasses.min(), "glasses_most": glasses.max(), "heatmap": heat.loc[side, "mean"]}
            rows.append(row | {f"heatmap_{end}": heat.loc[side, end] for end in ("low", "high")})
    return page.ends(pd.DataFrame(rows))


def _sizes() -> pd.DataFrame:
    """Training images of each group that reach a correlation with Male (Fig. 8), of the authors' 21,000 as annotated.

    Columns attribute, target and the groups TT, TF, FT and FF; rows of target NaN have what there is. By the paper's
    rule, the sizes nearest to these, and found by a global search: the authors' may differ.
    """
    labels, rows = published.annotated_labels("trained on"), []
    male = labels[published.PROTECTED]
    for attribute in ("Blond_Hair", "Wavy_Hair"):
        has = labels[attribute]
        available = np.array([(has & male).sum(), (has & ~male).sum(), (~has & male).sum(), (~has & ~male).sum()])
        found = zip((np.nan, *_TARGETS), (available, *subgroup_sizes(available, _TARGETS)), strict=True)
        rows += [(attribute, target, *sizes) for target, sizes in found]
    return pd.DataFrame(rows, columns=["attribute", "target", "TT", "TF", "FT", "FF"])


def _regions(scores: pd.DataFrame) -> pd.DataFrame:
    """The 17 attributes that have a region of their own (Figs. 2 and 10): mask score and average precision."""
    scores = scores.rename(columns={"mean": "mask", "sd": "mask_sd", "low": "mask_low", "high": "mask_high"})
    own = pd.DataFrame(published.OWN_REGION.items(), columns=["attribute", "region"]).merge(scores)
    precision = published.printed_values()["normalized_average_precision"]
    return own.merge(precision.rename(columns={"mean": "ap_n", "sd": "ap_n_sd"}), on="attribute")


def _subgroup_trends(scores: pd.DataFrame, resamples: int, seed: int) -> pd.DataFrame:
    """Kendall's tau of the training set's MCC and the heatmap score; p of the exact test, Holm-corrected."""
    rows = []
    for (attribute, group), part in scores.groupby(["attribute", "group"], sort=False):
        tau = kendall(part["target_mcc"], part["mean"], resamples=resamples, seed=seed)
        p = float(scipy.stats.kendalltau(part["target_mcc"], part["mean"]).pvalue)
        rows.append({"attribute": attribute, "group": group, "tau": tau, "p": p})
    table = page.unpacked(rows, "tau")
    return table.assign(p=holm(table.pop("p")))


def _trends(tables: dict[str, pd.DataFrame], resamples: int, seed: int) -> pd.DataFrame:
    """Kendall's tau, over attributes, between the axes of each scatter plot: columns name, tau, low, high, n and p.

    p is of the test against no relation, exact for up to 33 attributes. heatmap_mcc_TT and so on are of one group.
    """
    of_backbones = (tables[name] for name in ("attributes", "attributes_efficientnet"))
    a, b = (table[table["attribute"] != published.PROTECTED] for table in of_backbones)
    own = tables["regions"].merge(tables["attributes"][["attribute", "wga"]], on="attribute")
    pairs = {
        "heatmap_mcc": (a["mcc"], a["heatmap"]),
        "heatmap_mcc_efficientnet": (b["mcc"], b["heatmap"]),
        "heatmap_label_mcc": (a["label_mcc"].abs(), a["heatmap"]),
        "mask_wga": (own["mask"], own["wga"]),
        "mask_ap_n": (own["mask"], own["ap_n"]),
    }
    for group, part in tables["by_group"].groupby("group"):
        if group != "all":
            part = a.merge(part.dropna(subset=["mean"])[["attribute", "mean"]], on="attribute")
            pairs[f"heatmap_mcc_{group}"] = (part["mcc"], part["mean"])
    taus = [kendall(x, y, resamples=resamples, seed=seed) for x, y in pairs.values()]
    p = [float(scipy.stats.kendalltau(x, y).pvalue) for x, y in pairs.values()]
    return page.unpacked(pd.DataFrame({"name": list(pairs), "tau": taus, "p": p}), "tau")


def _waterbirds(resamples: int, seed: int) -> pd.DataFrame:
    """One row for each bias (percent) and backbone (Figs. 7 and 12).

    bird and background are mask scores; wga is typed in the authors' figure notebook, waterbirds the accuracy on these
    birds by the released predictions, excess is what wga has above it, lag the share of the 50 % models' wga that is
    left less the share of their bird score; unused is the bird score of files that no released figure reads. wga's
    interval is over models alone; excess and lag take the widest ends of their parts.
    """
    truth = waterbirds.cub_test_labels(registry.root())
    printed = published.printed_values()
    unused = published.waterbirds_unused_scores().rename(columns={"mean": "unused", "sd": "unused_sd"})
    draws = _image_draws(int(truth.sum()), resamples, seed)
    rows: list[dict[str, Any]] = []
    for backbone in get_args(Backbone):
        suffix = "" if backbone == "resnet" else f"_{backbone}"
        typed = printed[f"waterbirds_worst_group_accuracy{suffix}"].assign(region="wga")
        table = _over_models(pd.concat([published.waterbirds_scores(backbone), typed]), _MODELS[backbone])
        scores = table.set_index(["bias", "region"]).to_dict("index")
        for bias in published.BIASES:
            predicted = published.waterbirds_predictions(bias, backbone)
            row: dict[str, Any] = {"backbone": backbone, "bias": bias, "models": len(predicted)}
            for name in ("bird", "background", "wga"):
                score = scores[bias, name]
                row |= {name: score["mean"], **{f"{name}_{end}": score[end] for end in ("sd", "low", "high")}}
            correct = predicted[:, truth]
            models = _model_draws(len(predicted), resamples, seed)
            drawn = ((draws @ correct.T.astype(np.float32)) / correct.shape[1] * models).sum(axis=1)
            low, high = _interval(drawn, correct.mean(), len(predicted))
            row |= {"waterbirds": correct.mean(), "waterbirds_low": low, "waterbirds_high": high}
            first = rows[-published.BIASES.index(bias)] if bias > published.BIASES[0] else row
            row["excess"] = row["wga"] - row["waterbirds"]
            row["lag"] = row["wga"] / first["wga"] - row["bird"] / first["bird"]
            for end, other in (("low", "high"), ("high", "low")):
                row[f"excess_{end}"] = row[f"wga_{end}"] - row[f"waterbirds_{other}"]
                score = row[f"bird_{other}"] / first[f"bird_{end}"]
                row[f"lag_{end}"] = row[f"wga_{end}"] / first[f"wga_{other}"] - score
            rows.append(row)
    return pd.DataFrame(rows).merge(unused.assign(backbone="resnet"), how="left", on=["backbone", "bias"])


def _precision() -> pd.DataFrame:
    """What "average precision 0.902 over 40 attributes" could be: columns name, value."""
    printed = published.printed_values()
    ap = printed["average_precision"]["mean"].to_numpy()
    labels = published.annotated_labels().to_numpy()
    frequency = labels.mean(axis=0)
    correct = published.predictions("resnet") == labels
    values = {
        "mean of the 40 average precisions": ap.mean(),
        "the same, weighted by how often the attribute occurs": (ap * frequency).sum() / frequency.sum(),
        "mean normalised average precision": printed["normalized_average_precision"]["mean"].mean(),
        "mean accuracy": correct.mean(),
    }
    return pd.DataFrame(values.items(), columns=["name", "value"])


def _image_draws(n: int, resamples: int, seed: int) -> np.ndarray:
    """How often each of n images comes in each bootstrap resample: (resamples, n) float32."""
    drawn = np.random.default_rng(seed).integers(n, size=(resamples, n))
    return np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float32)


def _model_draws(n: int, resamples: int, seed: int) -> np.ndarray:
    """The share of each of n models in each bootstrap resample: (resamples, n), rows sum to 1."""
    return np.random.default_rng(seed + 1).multinomial(n, np.full(n, 1 / n), size=resamples) / n


def _resampled_mcc(predicted: np.ndarray, male: int, images: np.ndarray, models: np.ndarray) -> np.ndarray:
    """(resamples, attributes): the mean over drawn models of the MCC over drawn images."""
    n = images[0].sum()
    total = np.zeros((len(images), predicted.shape[2]))
    for weight, answers in zip(models.T, predicted.astype(np.float32), strict=True):
        a, b = images @ answers, images @ answers[:, [male]]
        both = images @ (answers * answers[:, [male]])
        total += weight[:, None] * matthews_from_counts(both=both, a=a, b=b, n=n)
    return total


def _worst_group(
    correct: np.ndarray, groups: np.ndarray, min_share: float, images: np.ndarray, models: np.ndarray
) -> dict[str, object]:
    """The group with the lowest accuracy averaged over models; its interval keeps to that group."""
    large_enough = [name for name in np.unique(groups) if (groups == name).mean() >= min_share]
    name = min(large_enough, key=lambda group: correct[:, groups == group].mean())
    hits, drawn_images = correct[:, groups == name], images[:, groups == name]
    with np.errstate(invalid="ignore"):  # a resample may hold no image of a tiny group: its interval is undefined
        accuracy = (drawn_images @ hits.T.astype(np.float32)) / drawn_images.sum(axis=1, keepdims=True)
    drawn = (accuracy * models).sum(axis=1)
    low, high = _interval(drawn, hits.mean(), len(correct))
    lowest = float(worst_group_accuracy(correct.mean(axis=0), groups, min_share=min_share))
    return {"wga": lowest, "wga_low": low, "wga_high": high, "worst_group": str(name), "worst_n": hits.shape[1]}


def _interval(draws: np.ndarray, estimate: float, n_models: int) -> tuple[float, float]:
    return widened(draws, estimate, n_models, 0.95, (-np.inf, np.inf))


def _over_models(scores: pd.DataFrame, n_models: int) -> pd.DataFrame:
    """Adds low and high: Student's 95 % interval of a mean over models from its deviation; NaN where that is 0."""
    half = scipy.stats.t.ppf(0.975, n_models - 1) * scores["sd"].where(scores["sd"] > 0) / np.sqrt(n_models - 1)
    return scores.assign(low=scores["mean"] - half, high=scores["mean"] + half)
