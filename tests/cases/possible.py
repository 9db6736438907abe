"""The stages that the C finds, held against those of the Python."""

from __future__ import annotations

from tinyweave.planning.fuse.possible import Question, Stages, stages_in_c, stages_in_python


def same_in_c_and_python(question: Question) -> Stages:
    """Return the stages, which both find column by column."""
    in_c, in_python = stages_in_c(question), stages_in_python(question)
    assert in_c is not None
    for name, column, other in zip(Stages._fields, in_c, in_python, strict=True):
        assert column.tolist() == other.tolist(), name
    return in_c
