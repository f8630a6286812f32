"""`swmodel verify`: its cases meet their marks, a case that misses one fails, and the page needs no network."""

import dataclasses
import re

import numpy as np
import pytest

from swmodel.cli.verify import verification_page, verify_cases
from swmodel.verification import CASES, Case, Mark, Outcome, UnknownCase, all_cases, select, sphere, verify

from .measures import measured

QUICK = ["adjustment"]  # each adjoint of another model takes seconds to compile


@pytest.fixture(scope="module")
def scores():
    """Of the cases of QUICK, in their short form."""
    return {one.case.name: one for one in verify(select(QUICK), quick=True)}


def made_up(equation, values, marks):
    """A case that measures `values`."""
    return Case(
        name="made_up", group="planar", title="Made up", tests="nothing", source="nobody", doi="", equation=equation,
        measure=lambda n: Outcome(values), marks=marks,
    )  # fmt: skip


@pytest.fixture
def case():
    """A case that measures 0.5, which is removed afterwards."""
    marks = (Mark("half", "a half", most=1.0), Mark("half_order", "an order", least=1.9))
    yield made_up("1 / 2", {"half": 0.5}, marks)
    del CASES["made_up"]


@pytest.mark.verify
def test_an_adjustment_converges_at_second_order_and_has_an_adjoint(scores):
    values = scores["adjustment"].values
    assert scores["adjustment"].passed
    assert values["adjustment_order"] >= 1.9 and values["adjustment_adjoint"] < 1e-13


@pytest.mark.verify
def test_rossby_waves_are_the_eigenmodes_of_a_channel():
    """The frequency is near that of the leading order, and the modes solve the equations at points between those of
    collocation."""
    values = all_cases()["planetary_rossby"].measure((12, 24)).values
    assert values["planetary_rossby_order"] >= 1.9 and 0.01 < values["planetary_rossby_leading_order"] < 0.1


@pytest.mark.verify
def test_a_balanced_jet_stays_at_second_order_and_an_extreme_is_found_between_the_points():
    """Strips of 8 cells around: the order of the case is that of finer ones."""
    errors = [sphere._kept(n, around=sphere.STRIP)[0] for n in (288, 432)]
    assert errors[1] < 2e-4 and np.log(errors[0] / errors[1]) / np.log(1.5) >= 1.9
    y, x = np.mgrid[0.0:7.0, 0.0:9.0]
    x = np.where(x == 0, 9.0, x)  # rows are periodic, and the largest value is near their end
    bump = 5.0 - 0.3 * (x - 8.4) ** 2 - 0.1 * (y - 3.3) ** 2 - 0.05 * (x - 8.4) * (y - 3.3)
    assert bump.max() < 4.97 and sphere.extreme(bump) == pytest.approx(5.0, abs=1e-12)


def test_a_mark_has_its_own_range_in_the_short_form_where_it_names_a_number():
    error, order = Mark("error", "an error", most=1e-2, quick=0.1), Mark("order", "an order", least=1.9, quick=1.7)
    both = Mark("both", "a share", most=1.02, least=0.9, quick=1.2)
    assert error.passes(0.05) is False and error.passes(0.05, quick=True) and not error.passes(0.2, quick=True)
    assert order.passes(1.8) is False and order.passes(1.8, quick=True) and not order.passes(1.6, quick=True)
    assert both.passes(1.1, quick=True) and not both.passes(0.8, quick=True) and not both.passes(1.1)
    assert (error.limits(), error.limits(quick=True), both.limits(quick=True)) == ("<= 0.01", "<= 0.1", "0.9 to 1.2")
    assert Mark("free", "an error", most=0.1, quick=False).passes(1.0, quick=True) is None


def test_no_short_form_is_without_a_mark_that_judges_the_model():
    """The adjoint of a wrong model is as exact as that of a right one."""
    for case in all_cases().values():
        assert any(mark.bounds(quick=True) != (None, None) for mark in case.marks), case.name


def test_a_missed_mark_fails_its_case(case):
    (good,) = verify([case])
    assert good.passed and good.verdicts[0][2] is True
    worse = dataclasses.replace(good, values={"half": -1.5, "half_order": 1.8})
    assert [passed for *_, passed in worse.verdicts] == [False, False] and not worse.passed
    assert not dataclasses.replace(good, failure="It blew up.").passed


def test_the_overview_of_the_page_has_the_mark_that_is_missed(case):
    (found,) = verify([case])
    object.__setattr__(case, "marks", (Mark("third", "no range"), *case.marks))
    values = {"third": 0.33, "half": 0.44, "half_order": 1.77}
    overview = verification_page([dataclasses.replace(found, values=values)]).split("<section")[1]
    assert "half_order" in overview and "1.77" in overview and "third" not in overview
    within = dataclasses.replace(found, values=values | {"half_order": 1.95})
    overview = verification_page([within]).split("<section")[1]
    assert "half</code>" in overview and "0.44" in overview and "third" not in overview


def test_names_are_those_of_cases_marks_and_groups(case):
    assert [c.name for c in select(["half_order", "made_up"])] == ["made_up"]
    assert {c.group for c in select(["coasts"])} == {"coasts"} and len(select()) == len(all_cases())
    assert measured("half") == (case.marks[0], 0.5)
    with pytest.raises(UnknownCase, match="no case, mark or group 'kelwin'; the cases are "):
        select(["kelwin"])
    with pytest.raises(ValueError, match="half.* is the name of another"):
        dataclasses.replace(case, name="other")


def test_every_case_names_its_source_and_each_mark_its_meaning():
    for case in all_cases().values():
        assert case.title and case.tests and case.source and case.equation and case.marks
        assert all(mark.meaning for mark in case.marks)
        assert not case.doi or re.fullmatch(r"10\.\d{4,}/\S+", case.doi), case.name


def test_the_command_prints_values_and_returns_a_status(case, capsys, tmp_path):
    assert verify_cases(["made_up"], False, str(tmp_path / "page.html"), False) == 0
    assert "half=0.5\n" in capsys.readouterr().out
    assert "Made up" in (tmp_path / "page.html").read_text()
    missed = dataclasses.replace(case.marks[0], most=0.1)
    object.__setattr__(case, "marks", (missed,))
    assert verify_cases(["made_up"], False, None, False) == 1
    assert "failed: made_up." in capsys.readouterr().out
    assert verify_cases([], False, None, True) == 0
    assert "Fofonoff" in capsys.readouterr().out


@pytest.mark.verify
def test_the_page_has_its_figures_within(scores):
    pytest.importorskip("matplotlib")
    text = verification_page(list(scores.values()))
    assert text.count("data:image/webp;base64,") == len(QUICK)
    assert not re.findall(r'(?:src|<link[^>]*href)="(?!data:)', text)
    assert "adjustment_order" in text and "Gill (1982)" in text
