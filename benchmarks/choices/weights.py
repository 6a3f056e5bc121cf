"""What each dependency weighs: version, licence, megabytes on disk, alone and with what it brings; and what each extra weighs.

`python -m benchmarks.choices.weights`: reads pyproject.toml and what is installed, asks nobody.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

OURSELVES = "slicelease"


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    groups = {"base": project["dependencies"], **project["optional-dependencies"]}
    print("\n| extra | package | version | licence | MB | MB with what it brings |\n|---|---|---|---|---|---|")
    for group, lines in groups.items():
        for name in _names(lines):
            if name != OURSELVES:
                print(f"| {group} | {_row(name)} |")
    print("\n| installed with | packages | MB |\n|---|---|---|")
    for group in groups:
        everything = _brought(frozenset(_group_names(groups, group)))
        print(f"| {group} | {len(everything)} | {sum(map(_megabytes, everything)):.0f} |")


def _group_names(groups: dict[str, list[str]], group: str) -> set[str]:
    """The packages of the extra, of the extras that it names, and of the base."""
    found = set(_names(groups["base"]))
    for line in groups[group]:
        requirement = Requirement(line)
        if requirement.name == OURSELVES:
            found |= set().union(*(_group_names(groups, extra) for extra in requirement.extras))
        else:
            found.add(_canonical(requirement.name))
    return found


def _names(lines: Iterable[str]) -> list[str]:
    return [_canonical(Requirement(line).name) for line in lines]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _row(name: str) -> str:
    found = _installed(name)
    if found is None:
        return f"{name} | absent | | |"
    with_others = sum(map(_megabytes, _brought(frozenset({name}))))
    return f"{name} | {found.version} | {_licence(found)} | {_megabytes(name):.1f} | {with_others:.1f}"


@cache
def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _brought(names: frozenset[str]) -> set[str]:
    """The packages and all that they need on this machine."""
    found: set[str] = set()
    left = set(names)
    while left:
        name = left.pop()
        package = _installed(name)
        if package is None or name in found:
            continue
        found.add(name)
        needs = map(Requirement, package.requires or ())
        left |= {_canonical(need.name) for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})}
    return found


@cache
def _megabytes(name: str) -> float:
    """Files of the package as installed, without compiled bytecode."""
    package = _installed(name)
    paths = [Path(str(file.locate())) for file in (package.files if package else None) or ()]
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file()) / 1e6


def _licence(package: Distribution) -> str:
    classifiers = package.metadata.get_all("Classifier") or ()
    told = package.metadata.get_all("License-Expression") or package.metadata.get_all("License") or ("",)
    return (
        told[0].split("\n")[0]
        or ", ".join(each.split("::")[-1].strip() for each in classifiers if "License ::" in each)
        or "not told"
    )


if __name__ == "__main__":
    main()
