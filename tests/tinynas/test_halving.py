"""Trainings of a search: which augmentation and which candidates win, and what a resumed run does not train again."""

from __future__ import annotations

import re
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases.waves import SPACE, waves

from tinynas import halving, searching, workers
from tinynas.arch import linear, nearest, to_json
from tinynas.costs import Costs
from tinynas.halving import Rung, Score, Trainings, batch_of, choose_recipe, clearly_worse_below, fitted_first, train_finally
from tinynas.settings import SearchOptions
from tinynas.space import arch_of, smallest
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.evaluation.baselines import STRENGTHS
from tinynas.workers import Workers

ARCH = arch_of(SPACE, smallest(SPACE), 2)
SENSORS = halving.AUGMENTATIONS["sensors"]


class Trained:
    """Stands for `train_one`: notes each call, and returns a score by (network, augmentation), augmentation or seed."""

    def __init__(self, scores: dict[Any, float | Score]) -> None:
        self.scores, self.calls = scores, list[dict[str, Any]]()

    def __call__(self, arch: str, folder: str, epochs: int, seed: int, **about: Any) -> Score:
        self.calls.append({"epochs": epochs, "seed": seed, **about})
        Path(about["end"]).write_bytes(b"")
        keys = (arch, about["recipe"]), about["recipe"], seed
        score = next((self.scores[key] for key in keys if key in self.scores), 0.5)
        return score if isinstance(score, Score) else Score(score, 1 - score)


def at_once(call: Any) -> Future[Any]:
    future = Future[Any]()
    future.set_result(call())
    return future


@pytest.fixture
def trainings(tmp_path: Path) -> Trainings:
    halving.save_data(waves(400), tmp_path / halving.DATA)
    (tmp_path / halving.WEIGHTS).mkdir()
    return Trainings(tmp_path, Workers(at_once, 1))


@pytest.mark.parametrize(
    ("accuracies", "chosen"),
    [
        ((0.9, 0.9, 0.9), "sensors_shifted"),
        ((0.88, 0.9, 0.9), "sensors_shifted"),  # within a standard error
        ((0.7, 0.88, 0.9), "sensors"),
        ((0.7, 0.8, 0.9), "none"),
        ((0.99, 0.9, 0.8), "sensors_shifted"),
    ],
)
def test_the_strongest_augmentation_that_is_not_clearly_worse_is_chosen(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch, accuracies: tuple[float, ...], chosen: str
) -> None:
    train = Trained(dict(zip(SENSORS, accuracies, strict=True)))
    monkeypatch.setattr(halving, "train_one", train)
    assert choose_recipe(ARCH, SENSORS, 3, trainings) == chosen
    assert [call["recipe"] for call in train.calls] == list(SENSORS) and {call["epochs"] for call in train.calls} == {3}
    assert choose_recipe(ARCH, SENSORS, 3, trainings) == chosen and len(train.calls) == 3, "resumed"
    (trainings.folder / halving.trial_file("sensors")).unlink()
    assert choose_recipe(ARCH, SENSORS, 3, trainings) == chosen and len(train.calls) == 4, "its weights are needed"


@pytest.mark.parametrize(("folds", "chosen"), [(1, "sensors_shifted"), (4, "sensors")])
@pytest.mark.parametrize("case", [(0.98, 1, True), (0.91, 1, False), (0.98, 40, False), (0.1, 1, False)])
def test_sgd_is_chosen_if_it_is_clearly_better(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch, folds: int, chosen: str, case: tuple[float, int, bool]
) -> None:
    data, (by_sgd, groups, is_sgd) = waves(400), case
    halving.save_data(replace(data, groups=None if groups == 1 else np.arange(400) // groups), trainings.folder / halving.DATA)
    scores = {"sensors_shifted-sgd": Score(by_sgd, 0.2), "sensors_shifted": Score(0.9, 0.3), "sensors": Score(0.9, 0.1)}
    train = Trained({**scores})
    monkeypatch.setattr(halving, "train_one", train)
    names = ("sensors_shifted", "sensors", "sensors_shifted-sgd")
    found = choose_recipe(ARCH, names, 3, trainings._replace(folds=folds))
    assert found == (f"{chosen}-sgd" if is_sgd else chosen)
    assert {call["folds"] for call in train.calls} == {folds} and len({call["end"] for call in train.calls}) == 3
    assert choose_recipe(ARCH, ("none-sgd",), 3, trainings) == "none-sgd", "of a detector"


def test_the_rungs_of_a_cross_validation_rank_by_loss(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    train = Trained({0: Score(0.9, 0.4), 1: Score(0.8, 0.2), 2: Score(0.9, 0.3)})
    monkeypatch.setattr(halving, "train_one", train)
    folded = trainings._replace(folds=4)
    records = halving.successive_halving([ARCH] * 3, [Rung(3, 1), Rung(2, 2)], folded)
    assert [each["candidate"] for each in records if each["rung"] == 1] == [1, 2] and train.calls[0]["folds"] == 4
    assert [each["candidate"] for each in halving.best_candidates(records[:3], 1)] == [0, 2, 1], "the most accurate"


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_network_gets_the_weights_of_logistic_regression(tmp_path: Path, classes: int) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[search]'")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tinynas.learning.module import module_of
    from tinynas.learning.train import scores

    data = waves(300)
    data = replace(data, labels=np.arange(300) % classes, classes=tuple("abc"[:classes]))
    halving.save_data(data, tmp_path / halving.DATA)
    arch = linear((1, 24, 2), classes)
    score = Trainings(tmp_path, Workers(at_once, 1)).call(arch, 9, "x.pt")()
    module = module_of(arch)
    module.load_state_dict(torch.load(tmp_path / "x.pt", weights_only=True))
    (values, labels), unseen = data.part("train"), data.part("validation")
    found = scores(module, unseen[0])
    assert score.accuracy == (found.argmax(axis=1) == unseen[1]).mean()
    seen, judging = (each.reshape(len(each), -1).astype(np.float32) for each in (values, unseen[0]))
    models = [make_pipeline(StandardScaler(), LogisticRegression(C=each, max_iter=60)) for each in STRENGTHS]
    expected = [model.fit(seen, labels).predict_log_proba(judging) for model in models]
    logs = found - np.log(np.exp(found).sum(axis=1, keepdims=True))
    assert min(float(np.abs(logs - each).max()) for each in expected) < 1e-4, "its probabilities at one of the strengths"


@pytest.mark.parametrize("classes", [2, 3])
def test_a_nearest_neighbour_network_finds_the_nearest_sample_or_centre(tmp_path: Path, classes: int) -> None:
    """With few stored samples it finds the nearest centre of a class's clusters. The third class has one sample."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[search]'")
    from sklearn.cluster import KMeans
    from sklearn.neighbors import KNeighborsClassifier

    from tinynas.learning.module import module_of
    from tinynas.learning.train import scores

    data = waves(120)
    data = replace(data, labels=np.where(np.arange(120) == 4, classes - 1, data.labels), classes=tuple("abc"[:classes]))
    halving.save_data(data, tmp_path / halving.DATA)
    (values, seen), (unseen, judging) = data.part("train"), data.part("validation")
    flat, held_out = (each.reshape(len(each), -1).astype(np.float32) for each in (values, unseen))
    for stored in (72, 4):
        arch = nearest((1, 24, 2), classes, stored)
        score = Trainings(tmp_path, Workers(at_once, 1)).call(arch, 9, "x.pt")()
        module = module_of(arch)
        module.load_state_dict(torch.load(tmp_path / "x.pt", weights_only=True))
        found = scores(module, unseen)
        points, owners = list[np.ndarray](), list[int]()
        for label in np.unique(seen):
            own = flat[seen == label]
            points += list(own if len(own) <= stored else KMeans(stored, random_state=0).fit(own).cluster_centers_)
            owners += [label] * (len(points) - len(owners))
        expected = KNeighborsClassifier(1).fit(points, owners).predict(held_out)
        assert (found.argmax(axis=1) == expected).all() and {*expected} >= {0, 1}
        assert score.accuracy == (expected == judging).mean()


@pytest.mark.parametrize("in_groups", [False, True])
def test_each_sample_judges_one_training_and_no_group_is_on_both_sides(in_groups: bool) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[search]'")
    data = waves(100)
    data = replace(data, values=np.arange(100).astype(np.int8).reshape(-1, 1, 1, 1))  # so that samples can be told apart
    data = replace(data, groups=np.arange(100) // 5) if in_groups else data
    assert halving.folds_of(data) == halving.FOLDS
    known = data.part("train", "validation")[0].ravel()
    found = [(seen[0].ravel(), unseen[0].ravel()) for seen, unseen in halving.splits(data, 4)]
    assert len(found) == 4 and sorted(np.concatenate([unseen for _, unseen in found])) == sorted(known)
    for seen, unseen in found:
        assert sorted([*seen, *unseen]) == sorted(known) and len(unseen) < 40
        assert not in_groups or not set(seen // 5) & set(unseen // 5)


def test_only_few_validation_samples_are_cross_validated() -> None:
    few, enough = waves(500), waves(5 * halving.FEW)
    counts = {halving.folds_of(waves(count)): count for count in (100, 350, 500)}
    assert counts == {4: 100, 3: 350, 2: 500}, "as many as have 200 samples"
    whole = halving.splits(few, halving.FOLDS)
    for fold, ((_, unseen), (_, same)) in enumerate(zip(halving.splits(few, 3), whole[:3], strict=True)):
        assert (unseen[0] == same[0]).all(), fold
    assert halving.folds_of(enough) == 1 and halving.folds_of(replace(few, kind="detection")) == 1
    ((seen, _), (unseen, _)) = halving.splits(enough, 1)[0]
    assert (len(seen), len(unseen)) == (enough.counts()["train"], halving.FEW)
    rare = np.where(np.arange(500) < 15, 1, 0)  # nine samples of class 1 are for training and validation
    assert halving.folds_of(replace(few, labels=rare)) > 1
    assert halving.folds_of(replace(few, labels=rare, groups=np.arange(500) // 15)) == 1, "they are one group"


@pytest.mark.parametrize(("people", "folds"), [(2, 1), (3, 2), (4, 3), (5, 4), (8, 3), (26, 2), (60, 1)])
def test_few_groups_are_cross_validated_until_five_have_judged(people: int, folds: int) -> None:
    """The last person is for the test, or a fifth of many; one in five of the others for validation, but at least one."""
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[search]'")
    each = 3_000 // people
    groups, test = np.repeat(np.arange(people), each), max(1, people // 6)
    judges = max(1, (people - test) // 8)
    parts = np.where(groups < people - test - judges, 0, np.where(groups < people - test, 1, 2)).astype(np.uint8)
    data = replace(waves(each * people), parts=parts, groups=groups, labels=np.arange(each * people) % 2)
    assert data.counts()["validation"] >= halving.FEW or people == 2
    assert halving.folds_of(data) == folds
    judged = [unseen for _, (_, unseen) in halving.splits(data, folds)]
    assert folds == 1 or sum(map(len, judged)) >= min(5, people - test) * each


def test_a_cross_validation_trains_without_the_samples_that_judge(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    from tinynas.learning import train

    seen, judged = list[int](), list[int]()
    answers = np.array([[0.0, 2.0]])
    monkeypatch.setattr(train, "fit", lambda module, values, labels, *_: seen.append(len(values)))
    monkeypatch.setattr(train, "scores", lambda module, values: judged.append(len(values)) or answers.repeat(len(values), 0))
    score = trainings._replace(folds=4).call(ARCH, 1, "weights/x.pt")()
    data = halving.load_data(trainings.folder / halving.DATA)
    labels = data.part("train", "validation")[1]
    assert sum(judged) == len(labels) and {a + b for a, b in zip(seen, judged, strict=True)} == {len(labels)}
    share = (labels == 1).mean()
    assert score.accuracy == pytest.approx(share)
    assert score.loss == pytest.approx(np.log(1 + np.exp(-2)) + 2 * (1 - share)), "-log of softmax"


def test_a_cross_validation_continues_fold_by_fold(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    from tinynas.learning import train

    began = list[float]()

    def fit(module: Any, *_: Any) -> None:
        began.append(module[-1].bias[0].item())
        with torch.no_grad():
            module[-1].bias[0] = len(began)

    monkeypatch.setattr(train, "fit", fit)
    folded, start = trainings._replace(folds=2), trainings.folder / "weights" / "a.pt"
    folded.call(ARCH, 1, "weights/a.pt")()
    folded.call(ARCH, 1, "weights/b.pt", start=start)()
    assert began == [0, 0, 1, 2], "each fold has its own"
    trainings._replace(folds=halving.FINAL).call(ARCH, 1, "weights/c.pt", start=trainings.folder / "weights" / "b.pt")()
    for fold in range(2):
        halving.fold_file(str(start), fold).unlink()
    folded.call(ARCH, 1, "weights/d.pt", start=start)()
    assert began[4:] == [4, 0, 0], "weights that have seen all samples are not used"


def test_candidates_train_at_their_own_paces(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    train = Trained({0: 0.7, 1: 0.9, 2: 0.8})
    monkeypatch.setattr(halving, "train_one", train)
    records = halving.successive_halving([ARCH] * 3, [Rung(3, 4), Rung(2, 10)], trainings._replace(paces=[1, 2.5, 0.1]))
    assert [(each["candidate"], each["epochs"]) for each in records] == [(0, 4), (1, 10), (2, 1), (1, 25), (2, 1)]


@pytest.mark.parametrize("folds", [1, 2])
def test_a_timed_search_trains_at_the_paces_of_the_final_training(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch, folds: int
) -> None:
    """The trial of the recipe is a start for the first network, but no head start in a cross-validation."""
    train, cost, folder = Trained({0: 0.9, 1: 0.8}), Costs(1, 1, 1, None, {}), trainings.folder
    monkeypatch.setattr(halving, "train_one", train)
    this = SimpleNamespace(folder=folder, workers=trainings.workers, options=SearchOptions(), progress=print, data=waves(400))
    run = searching._halving_record([Rung(2, 4)], [(ARCH, cost), (replace(ARCH, stem=2 * ARCH.stem), cost)])
    run |= {"folds": folds, "recipes": SENSORS[:1], "trial": (3, folds), "final_epochs": [10, 5]}
    records = searching._halve(this, run, lambda _: cost)[1]
    assert [(each["candidate"], each["epochs"]) for each in records] == [(0, 4), (1, 2), (0, 10)]
    trial = str(folder / halving.trial_file(SENSORS[0]))
    assert [call["start"] for call in train.calls[:3]] == [None, trial if folds == 1 else None, None]


def test_clearly_worse_is_lower_by_more_than_a_standard_error() -> None:
    """Of 96 samples, with two right and two wrong ones added: sqrt(0.5 * 0.5 / 100) = 0.05."""
    assert clearly_worse_below(0.5, 96) == pytest.approx(0.45)
    assert clearly_worse_below(1.0, 14) == pytest.approx(1 - (16 / 18 * 2 / 18 / 18) ** 0.5), "not even all right is certain"


def test_fitted_networks_are_additional_finalists_without_epochs(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halving, "train_one", Trained({0: 0.1, 1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6}))
    archs, rungs = [*[ARCH] * 3, linear(ARCH.image, 2), nearest(ARCH.image, 2, 9)], [Rung(8, 1), Rung(2, 4)]
    records = halving.successive_halving(archs, rungs, trainings, fitted=[3, 4])
    of_rung = [{each["candidate"]: each["epochs"] for each in records if each["rung"] == number} for number in range(2)]
    assert of_rung == [{0: 1, 1: 1, 2: 1}, {1: 4, 2: 4, 3: 0, 4: 0}]
    (trainings.folder / halving.RESULTS).unlink()
    records = halving.successive_halving(archs, rungs, trainings, fitted=[3, 4], fits=lambda candidate: candidate != 3)
    assert {each["candidate"] for each in records if each["rung"] == 1} == {1, 2, 4}


def test_a_fitted_network_is_first_unless_a_trained_one_is_clearly_more_accurate() -> None:
    def order(accuracies: list[float], fitted: list[int], count: int = 100) -> list[int]:
        records = [{"candidate": number, "accuracy": accuracy} for number, accuracy in enumerate(accuracies)]
        return [each["candidate"] for each in fitted_first(records, fitted, count)]

    assert clearly_worse_below(0.9, 100) == pytest.approx(0.8687, abs=1e-4)
    assert order([0.9, 0.8, 0.85, 0.87], [2, 3]) == [3, 0, 1, 2], "not clearly worse"
    assert order([0.9, 0.8, 0.92, 0.95], [2, 3]) == [3, 0, 1, 2], "the most accurate of both"
    assert order([0.9, 0.8, 0.95, 0.95], [2, 3]) == [2, 0, 1, 3], "the first of equal ones, which has the least loss"
    assert order([0.9, 0.8, 0.85, 0.86], [2, 3]) == order([0.9, 0.8, 0.85, 0.89], []) == [0, 1, 2, 3]
    assert order([0.9, 0.8, 0.85, 0.86], [2, 3], 30) == [3, 0, 1, 2], "with fewer samples more is left to chance"
    assert order([0.8, 0.9, 0.85], [2]) == [0, 1, 2], "one trained network is clearly more accurate: the least loss decides"


def test_if_no_finalist_fits_candidates_that_were_dropped_are_asked(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Trained({0: 0.1, 1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6})
    monkeypatch.setattr(halving, "train_one", train)
    rungs, asked = [Rung(5, 1), Rung(2, 2), Rung(1, 4)], list[int]()
    records = halving.successive_halving([ARCH] * 5, rungs, trainings, fits=lambda n: asked.append(n) or n in (0, 4))
    assert asked == [1, 2, 3, 4] and [each["candidate"] for each in records if each["rung"] == 2] == [4], "the best that fits"
    assert Path(train.calls[-1]["start"]).name == "0-4.pt", "its latest weights"


@pytest.mark.parametrize("folds", [1, 4])
def test_a_rung_without_errors_is_the_last_but_one_and_the_cheapest_flawless_networks_enter_the_last(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch, folds: int
) -> None:
    losses = {0: 0.01, 1: 0.1, 2: 0.02, 3: 0.03, 4: 0.2}
    monkeypatch.setattr(
        halving, "train_one", train := Trained({n: Score(1.0 if n else 0.9, loss) for n, loss in losses.items()})
    )
    archs, rungs = [*[ARCH] * 5, linear(ARCH.image, 2)], [Rung(5, 1), Rung(3, 2), Rung(2, 4)]
    expenses = [1.0, 2.0, 4.0, 3.0, 2.5, 9.0]

    def trained(**about: Any) -> list[dict[str, Any]]:
        settings = trainings._replace(folds=folds)
        return halving.successive_halving(archs, rungs, settings, fitted=[5], expenses=expenses, **about)

    records = trained()
    last = {each["candidate"]: (each["epochs"], each["weights"]) for each in records if each["rung"] == 2}
    assert {each["rung"] for each in records} == {0, 2} and len(train.calls) == 6, "five candidates and the fitted one"
    assert last == {1: (0, "weights/0-1.pt"), 4: (0, "weights/0-4.pt"), 5: (0, "weights/2-5.pt")}
    assert trained() == records and len(train.calls) == 6, "resumed"
    (trainings.folder / halving.RESULTS).unlink()
    last = {each["candidate"]: each["epochs"] for each in trained(fits=lambda n: n in (0, 2)) if each["rung"] == 2}
    assert last == {2: 0}, "the flawless one that fits"


def test_of_equally_accurate_networks_the_cheapest_is_first() -> None:
    accuracies, losses, expenses = [0.9, 0.8, 0.9, 1.0, 1.0], [0.1, 0.0, 0.3, 0.4, 0.5], [3.0, 1.0, 2.0, 9.0, 8.0]
    records = [
        {"candidate": number, "accuracy": accuracy, "loss": loss}
        for number, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True))
    ]

    def order(folds: int, given: list[float]) -> list[int]:
        return [each["candidate"] for each in halving.best_candidates(records, folds, given)]

    assert order(1, []) == [3, 4, 0, 2, 1] and order(1, expenses) == [4, 3, 2, 0, 1]
    assert order(4, []) == [3, 4, 1, 0, 2] and order(4, expenses) == [4, 3, 1, 0, 2], "the loss counts if there are errors"
    assert [each["candidate"] for each in halving.cheapest_first(records[:3], expenses)] == [2, 0, 1]


def test_candidates_continue_from_given_weights(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    train, files = Trained({0: 0.9, 1: 0.8, 2: 0.7}), {0: halving.trial_file("none"), 2: halving.start_file(2)}
    monkeypatch.setattr(halving, "train_one", train)
    starts = {number: trainings.folder / file for number, file in files.items()}
    halving.successive_halving([ARCH] * 3, [Rung(3, 1), Rung(1, 2)], trainings, starts=starts)
    names = [call["start"] and Path(call["start"]).name for call in train.calls]
    assert names == ["trial-none.pt", None, "start-2.pt", "0-0.pt"]


def test_progress_moves_while_a_network_trains(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the epochs and the loss of the training that runs, and the best accuracy of those that ended."""
    pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    monkeypatch.setattr(halving, "POLL_S", 0.0)
    monkeypatch.setattr(workers, "POLL_S", 0.01)
    seen, rung, loss, best = list[tuple[str, int, int]](), "rung 1 of 1", r": loss \d\.\d{3}", r", best \d+\.\d %"
    with ThreadPoolExecutor(1) as executor:
        watched = trainings._replace(workers=Workers(executor.submit, 1), progress=lambda *each: seen.append(each))
        (first, _) = halving.successive_halving([ARCH] * 2, [Rung(2, 8)], watched)
        of_rung = seen.copy()
        seen.clear()
        train_finally(ARCH, first, 8, watched)
    for shown, total in ((of_rung, 16), (seen, 8)):
        counts = [done for _, done, _ in shown]
        assert counts == sorted(counts) and (counts[0], counts[-1]) == (0, total) and {each for *_, each in shown} == {total}
    assert [what for what, done, _ in of_rung if 0 < done < 8 and re.fullmatch(f"{rung}{loss}", what)]
    assert [what for what, done, _ in of_rung if 8 < done < 16 and re.fullmatch(f"{rung}{loss}{best}", what)]
    assert [what for what, done, _ in seen if 0 < done < 8 and re.fullmatch(f"final training{loss}{best}", what)]


def test_the_final_training_continues_on_training_and_validation_samples_and_is_not_repeated(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Trained({5: 0.75})
    monkeypatch.setattr(halving, "train_one", train)
    (before,) = halving.successive_halving([ARCH], [Rung(1, 2)], trainings._replace(seed=5))
    many = trainings._replace(seed=5, recipe="sensors", folds=4, workers=Workers(at_once, 8))
    record = train_finally(ARCH, before, 7, many)
    (call,) = train.calls[1:]
    assert call["epochs"] == 7 and call["recipe"] == "sensors" and call["folds"] == halving.FINAL and call["seed"] == 5
    assert call["start"] == str((trainings.folder / before["weights"]).resolve()) and call["start"] != call["end"]
    assert record == {**before, "rung": 1, "weights": "weights/final-0.pt", "epochs": 7}
    assert train_finally(ARCH, before, 7, many) == record and len(train.calls) == 2


def test_the_final_training_starts_from_the_weights_of_the_record(trainings: Trainings) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    data, start = str(trainings.folder / halving.DATA), trainings.folder / halving.WEIGHTS / "start.pt"
    halving.train_one(to_json(ARCH), data, 1, 0, start=None, end=str(start))
    before = {"rung": 0, "candidate": 0, "accuracy": 0.5, "weights": "weights/start.pt", "epochs": 2}
    seen = list[tuple[str, int, int]]()
    record = train_finally(ARCH, before, 2, trainings._replace(progress=lambda *each: seen.append(each)))
    assert seen[0][0].startswith("final training") and seen[-1][1:] == (2, 2)
    found, other = trainings.folder / record["weights"], trainings.folder / "other.pt"
    halving.train_one(to_json(ARCH), data, 2, 0, start=str(start), end=str(other), folds=halving.FINAL)
    ends, first = [torch.load(each, weights_only=True) for each in (found, other)], torch.load(start, weights_only=True)
    assert len(first) > 10 and all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())
    assert not any(torch.equal(value, first[name]) for name, value in ends[0].items() if value.ndim > 1)


def test_the_final_training_sees_the_validation_samples(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    from tinynas.learning import train

    seen = list[tuple[int, int]]()
    monkeypatch.setattr(train, "fit", lambda module, values, labels, *_: seen.append((len(values), len(labels))))
    for folds in (1, halving.FINAL):
        trainings._replace(folds=folds).call(ARCH, 1, "weights/x.pt")()
    counts = halving.load_data(trainings.folder / halving.DATA).counts()
    assert seen == [(counts["train"],) * 2, (counts["train"] + counts["validation"],) * 2]


@pytest.mark.parametrize(("samples", "batch"), [(15, 16), (20, 16), (400, 16), (700, 32), (2_600, 128), (100_000, 128)])
def test_small_data_sets_have_small_batches(samples: int, batch: int) -> None:
    values, parts = np.zeros((samples, 1, 1, 1), np.int8), np.zeros(samples, np.uint8)
    data = Dataset("sensors", ("a", "b"), values, np.zeros(samples, np.int64), parts, {})
    assert batch_of(data) == batch


def test_only_long_trainings_of_image_classifiers_mix_images() -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    long, images = -(-halving.CUTMIX_FROM // 1_000), replace(waves(60), kind="images")
    assert halving.recipe_of(images, long, 1_000).cutmix == halving.CUTMIX
    assert halving.recipe_of(images, long, 1_000, "images-sgd").weight_decay == halving.CUTMIX_DECAY
    plain, by_sgd = (halving.recipe_of(images, long - 1, 1_000, name) for name in (None, "images-sgd"))
    assert by_sgd.cutmix == plain.cutmix == 0 and by_sgd.weight_decay < halving.CUTMIX_DECAY
    assert plain.adam and not by_sgd.adam and plain.augmentation == by_sgd.augmentation == "images"
    assert halving.recipe_of(waves(60), long, 1_000, "sensors").cutmix == 0


def test_groups_of_samples_are_saved(tmp_path: Path) -> None:
    data = waves(60)
    for groups in (None, np.arange(60) // 3):
        folder = tmp_path / str(groups is None)
        halving.save_data(Dataset(data.kind, data.classes, data.values, data.labels, data.parts, {}, groups), folder)
        loaded = halving.load_data(folder).groups
        assert loaded is None if groups is None else (loaded == groups).all()


def test_every_kind_of_samples_has_augmentations_that_exist() -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    from tinynas.learning.augment import AUGMENT

    assert {name for names in halving.AUGMENTATIONS.values() for name in names} == set(AUGMENT)
    kinds = {kind: halving.recipes_of(replace(waves(60), kind=kind)) for kind in (*halving.AUGMENTATIONS, "detection")}
    assert kinds.pop("detection") == ("none-sgd",)
    for kind, names in kinds.items():
        assert names == (*halving.AUGMENTATIONS[kind], f"{halving.AUGMENTATIONS[kind][0]}-sgd")
