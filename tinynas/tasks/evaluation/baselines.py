"""Simple classifiers as baselines of a network, on the same samples. In: a Dataset. Out: their predictions on the test part.

Majority class, multinomial logistic regression, k nearest neighbours. Regularisation and k are chosen on the validation part,
then both parts are fitted. A network that is not better is not worth its Flash. At most MAX_SAMPLES samples of MAX_FEATURES
features are used, on one thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.installing import install
from tinyweave.support.progress import Progress, silent

from ..dataset import Dataset, pooled
from .intervals import Groups, Interval, paired_interval, too_few_groups

Floats = NDArray[np.float32]
MAX_SAMPLES = 8_000  # that a baseline is fitted on, drawn at random from a larger training part
MAX_FEATURES = 1_024  # of a sample; larger samples are average pooled
MAX_ITERATIONS = 60  # of the solver of logistic regression
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # C of logistic regression, the inverse of its regularisation
NEVER = -100.0  # bias of a class that logistic regression has not seen
NEIGHBOURS = (1, 3, 7, 15)  # k
STRENGTH_SAMPLES, STRENGTH_FOLDS = 2_000, 3  # of the cross-validation by which `logistic_regression` chooses C
SMOOTHING = 0.05  # label smoothing when `nearest_neighbours` chooses its logit scale; it keeps the scale finite
LOGIT_SCALES = np.geomspace(0.1, 100, 25)  # from which it chooses, relative to the standard deviation of the logits
MAJORITY, LOGISTIC, NEAREST = "majority class", "logistic regression", "k-NN"


class Baseline(NamedTuple):
    """A baseline and its predictions of the test samples."""

    name: str
    setting: str  # chosen on the validation part, such as "C = 0.1"
    validation: float  # accuracy on the validation part
    predicted: NDArray[np.int64]  # class indices [test samples]
    correct: NDArray[np.bool_]  # which test samples are right
    seconds: float  # CPU time

    @property
    def accuracy(self) -> float:
        """Return the accuracy on the test part."""
        return float(self.correct.mean())


class Comparison(NamedTuple):
    """A classifier compared with the most accurate baseline on the same test samples."""

    outcome: str  # "better", "not distinguishable" or "worse"
    baseline: Baseline
    difference: float  # accuracy of the classifier minus that of the baseline
    interval: Interval  # 95 % confidence interval of the difference
    groups: int | None  # number of groups in the test part; None for independent samples


def baselines(data: Dataset, progress: Progress = silent) -> list[Baseline]:
    """Return the baselines of a classifier's data set; raise CompileError for a detector's, or without scikit-learn."""
    if data.kind == "detection":
        raise CompileError("baselines classify samples, and a detector does not", "give samples with one class each")
    try:
        from threadpoolctl import threadpool_limits

        count = data.counts()["train"]
        models = {name: _models(name, count) for name in (MAJORITY, LOGISTIC, NEAREST)}  # loads the libraries to be limited
    except ImportError as error:
        raise CompileError("baselines need scikit-learn, which is not installed", install("search")) from error
    labels = [data.part(name)[1] for name in ("train", "validation", "test")]
    features = [_features(data.part(name)[0]) for name in ("train", "validation", "test")]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that MAX_ITERATIONS ended the solver
        found = list[Baseline]()
        for name, own in models.items():
            progress(f"fitting {name}", len(found), len(models))
            found.append(_fitted(name, own, features, labels))
        return found


def features_size(rows: int, columns: int, channels: int) -> tuple[int, int]:
    """Return the (rows, columns) to which the baselines average samples: the longer halved down to MAX_FEATURES values."""
    while rows * columns * channels > MAX_FEATURES and max(rows, columns) > 1:
        rows, columns = (-(-rows // 2), columns) if rows >= columns else (rows, -(-columns // 2))
    return rows, columns


def logistic_regression(values: NDArray[np.int8], labels: NDArray[np.int64], classes: int) -> tuple[Floats, Floats]:
    """Fit logistic regression to samples; return its weights [classes, features] and biases [classes].

    A sample's scores are weights @ values + biases. The strength of STRENGTHS has the least cross-entropy in a
    cross-validation. `values` are [n, rows, columns, channels], of at most MAX_FEATURES each. A class without samples is never
    predicted.
    """
    from sklearn.metrics import log_loss
    from sklearn.model_selection import cross_val_predict
    from threadpoolctl import threadpool_limits

    drawn = _drawn(len(labels))
    features, labels = values.reshape(len(values), -1)[drawn].astype(np.float32), labels[drawn]
    some = _for_strength(labels)
    weights, biases = np.zeros((classes, features.shape[1]), np.float32), np.full(classes, NEVER, np.float32)
    if len(np.unique(labels)) == 1:  # scikit-learn needs two classes
        biases[labels[0]] = 0
        return weights, biases

    def loss(model: Any) -> float:
        shares = cross_val_predict(model, features[some], labels[some], cv=STRENGTH_FOLDS, method="predict_proba")
        return float(log_loss(labels[some], shares))

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see `baselines`
        models = list(_models(LOGISTIC, len(labels)).values())
        *_, second, first = np.sort(np.bincount(labels))
        can_validate = first >= STRENGTH_FOLDS and second >= 2  # so that each fold leaves two classes to fit
        best = min(models, key=loss) if can_validate else models[len(models) // 2]
        scaler, fitted = best.fit(features, labels)
    found, constants = fitted.coef_ / scaler.scale_, fitted.intercept_
    if len(found) == 1:  # of two classes, scikit-learn has the difference of their scores
        found, constants = np.concatenate([-found, found]) / 2, np.concatenate([-constants, constants]) / 2
    weights[fitted.classes_], biases[fitted.classes_] = found, constants - found @ scaler.mean_
    return weights, biases


def _for_strength(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return STRENGTH_SAMPLES random samples to choose the strength by, and up to STRENGTH_FOLDS of each class."""
    shuffled = np.random.default_rng(0).permutation(len(labels))
    some, others = shuffled[:STRENGTH_SAMPLES], shuffled[STRENGTH_SAMPLES:]
    added = [
        others[labels[others] == label][: max(0, STRENGTH_FOLDS - int((labels[some] == label).sum()))]
        for label in np.unique(labels)
    ]
    return np.concatenate((some, *added))


def nearest_neighbours(values: NDArray[np.int8], labels: NDArray[np.int64], classes: int, stored: int) -> tuple[Floats, Floats]:
    """Return the weights [stored * classes, features] and biases of a dense layer that finds the nearest of stored samples.

    For a sample x and a stored sample p, the output is c * (mean squared distance of x from all stored samples - squared
    distance of x from p). Output i belongs to the class i % `classes`. The logit of a class is its largest output or 0; c is
    chosen for the least cross-entropy in a cross-validation. Each class stores `stored` samples: the centres of its k-means
    clusters if it has more, or samples several times if it has fewer. `values` are [n, rows, columns, channels], of at most
    MAX_FEATURES each.
    """
    from sklearn.model_selection import KFold
    from threadpoolctl import threadpool_limits

    drawn = _drawn(len(labels))
    features, labels = values.reshape(len(values), -1)[drawn].astype(np.float32), labels[drawn]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k-means warns if samples are equal
        scores = np.zeros((len(labels), classes), np.float32)
        for seen, unseen in KFold(min(STRENGTH_FOLDS, len(labels)), shuffle=True, random_state=0).split(features):
            weights, biases = _distances(features[seen], labels[seen], classes, stored)
            outputs = features[unseen] @ weights.T + biases
            scores[unseen] = np.maximum(outputs, 0).reshape(len(unseen), stored, classes).max(axis=1)
        weights, biases = _distances(features, labels, classes, stored)
    wanted = (1 - SMOOTHING) * np.eye(classes)[labels] + SMOOTHING / classes

    def loss(scale: float) -> float:
        logits = scale * (scores - scores.max(axis=1, keepdims=True)).astype(np.float64)
        return float((np.log(np.exp(logits).sum(axis=1)) - (wanted * logits).sum(axis=1)).mean())

    scale = np.float32(min(LOGIT_SCALES / max(float(scores.std()), 1e-9), key=loss))
    return scale * weights, scale * biases


def _distances(features: Floats, labels: NDArray[np.int64], classes: int, stored: int) -> tuple[Floats, Floats]:
    """Return the weights and biases of `nearest_neighbours` for c = 1 / 2."""
    from sklearn.cluster import KMeans

    points, present = np.zeros((stored, classes, features.shape[1]), np.float32), np.unique(labels)
    for label in present:
        own = features[labels == label]
        own = KMeans(stored, random_state=0).fit(own).cluster_centers_ if len(own) > stored else own
        points[:, label] = own[np.arange(stored) % len(own)]
    norms = (points**2).sum(axis=2) / 2
    weights, biases = np.zeros_like(points), np.zeros_like(norms)
    weights[:, present] = points[:, present] - points[:, present].mean(axis=(0, 1))
    biases[:, present] = norms[:, present].mean() - norms[:, present]
    return weights.reshape(stored * classes, -1), biases.ravel()


def compare(correct: NDArray[np.bool_], others: Sequence[Baseline], groups: Groups = None) -> Comparison:
    """Compare which test samples a classifier predicts right with the best baseline; `groups`: `Dataset.groups_of`."""
    best = max(others, key=lambda other: other.accuracy)
    low, high = paired_interval(correct, best.correct, groups)
    outcome = "better" if low > 0 else "worse" if high < 0 else "not distinguishable"
    count = None if groups is None else len(np.unique(groups))
    return Comparison(outcome, best, float(correct.mean()) - best.accuracy, (low, high), count)


def verdict(correct: NDArray[np.bool_], others: Sequence[Baseline], groups: Groups = None, own: str | None = None) -> str:
    """Return text that says whether a classifier is better than the best baseline, and what to do if it is not.

    Args:
        correct: which test samples the classifier predicts right.
        own: the name of the baseline that the classifier is itself, in int8, such as LOGISTIC for a linear network.
    """
    outcome, best, difference, interval, _ = compare(correct, others, groups)
    does = {"better": "Better than", "worse": "Worse than", "not distinguishable": "Not distinguishable from"}[outcome]
    what_to_do = {
        "better": "",
        "not distinguishable": " Add test samples to tell them apart, or give the search more minutes or training samples.",
        "worse": " Give the search more minutes or training samples, or raise its limits of RAM, Flash and time.",
    }[outcome]
    if best.name == own:
        does = "The network is"
        what_to_do = " No trained network was clearly better. To look for one, give the search more minutes or samples."
    figures = f"({100 * best.accuracy:.1f} %): {_points(difference, interval)}."
    said = f"{does} the best baseline, {best.name} {figures}{what_to_do}"
    majority = next((other for other in others if other.name == MAJORITY), best)
    interval = paired_interval(correct, majority.correct, groups)
    if majority is not best and interval[0] <= 0:
        gained = _points(float(correct.mean()) - majority.accuracy, interval)
        always = f"to answer always the largest class ({100 * majority.accuracy:.1f} %)"
        said += f" It is not clearly better than {always}: {gained}, so do not rely on it."
    doubt = too_few_groups(groups)
    return f"{said} {doubt}" if doubt else said


def _points(difference: float, interval: Interval) -> str:
    low, high = interval
    return f"{100 * difference:+.1f} points (95 % interval {100 * low:+.1f} to {100 * high:+.1f})"


def _fitted(name: str, models: Mapping[str, Any], features: Sequence[Floats], labels: Sequence[NDArray[np.int64]]) -> Baseline:
    """Choose the setting of `models` on validation, fit it on training and validation, and predict the test part."""
    begin = time.process_time()
    train, both = _drawn(len(labels[0])), _drawn(len(labels[0]) + len(labels[1]))
    chosen, right = max(
        (
            (setting, float((model.fit(features[0][train], labels[0][train]).predict(features[1]) == labels[1]).mean()))
            for setting, model in models.items()
        ),
        key=lambda pair: pair[1],
    )
    model = models[chosen].fit(*(np.concatenate(parts[:2])[both] for parts in (features, labels)))
    predicted = np.asarray(model.predict(features[2]), np.int64)
    return Baseline(name, chosen, right, predicted, predicted == labels[2], time.process_time() - begin)


def _models(name: str, count: int) -> dict[str, Any]:
    """Return setting as text -> classifier of scikit-learn, for a baseline and `count` training samples."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == MAJORITY:
        return {"": DummyClassifier()}
    if name == NEAREST:
        return {f"k = {k}": KNeighborsClassifier(k, algorithm="brute") for k in NEIGHBOURS if k <= count}
    solvers = {f"C = {each:g}": LogisticRegression(C=each, max_iter=MAX_ITERATIONS) for each in STRENGTHS}
    return {setting: make_pipeline(StandardScaler(), solver) for setting, solver in solvers.items()}


def _drawn(count: int) -> NDArray[np.int64]:
    """Return the indices of at most MAX_SAMPLES of `count` samples, drawn at random with a fixed seed, in rising order."""
    return np.sort(np.random.default_rng(0).permutation(count)[:MAX_SAMPLES])


def _features(values: NDArray[np.int8]) -> Floats:
    """Return samples [n, rows, columns, channels] as vectors [n, features], averaged to the size `features_size`."""
    rows, columns, channels = values.shape[1:]
    return pooled(values, features_size(rows, columns, channels)).reshape(len(values), -1).astype(np.float32)
