"""Finding `module:attribute`: every mistake in the reference is named, faults inside the module pass."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from slicelease.cli.app_loading import load_app
from slicelease.worker import SliceWorker

_MODULE = """
from slicelease.worker import SliceWorker
app = SliceWorker()
class box:
    inner = SliceWorker()
number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules, and sys.path and sys.modules as they were afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "shop_for_tests").mkdir()
    (tmp_path / "shop_for_tests" / "tasks.py").write_text(_MODULE)
    (tmp_path / "broken_for_tests.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "raising_for_tests.py").write_text("raise ZeroDivisionError\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_app_is_found_in_the_folder(folder: Path) -> None:
    app = load_app("shop_for_tests.tasks:app", folder=folder)
    assert isinstance(app, SliceWorker)
    assert load_app("shop_for_tests.tasks:app", folder=folder) is app
    assert load_app("shop_for_tests.tasks:box.inner", folder=folder) is not app


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("shop_for_tests.tasks", "the form is module:attribute"),
        (":app", "the form is module:attribute"),
        ("shop_for_tests.tasks:", "the form is module:attribute"),
        ("nowhere_for_tests:app", "there is no module 'nowhere_for_tests'"),
        ("shop_for_tests.other:app", "there is no module 'shop_for_tests.other'"),
        ("nowhere_for_tests.tasks:app", "there is no module 'nowhere_for_tests'"),
        ("shop_for_tests.tasks:ap", "module 'shop_for_tests.tasks' has no attribute 'ap'"),
        ("shop_for_tests.tasks:box.outer", "has no attribute 'box.outer'"),
        ("shop_for_tests.tasks:number", "is no SliceWorker but int"),
    ],
)
def test_what_is_wrong_with_the_reference_is_named(folder: Path, reference: str, said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        load_app(reference, folder=folder)
    assert said in refused.value.message


def test_a_fault_inside_the_module_shows_itself(folder: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        load_app("broken_for_tests:app", folder=folder)
    with pytest.raises(ZeroDivisionError):
        load_app("raising_for_tests:app", folder=folder)
