"""Two public sets that are no search logs, from the package lists of Debian: baskets and long lists.

    python benchmarks/debian_sets.py --out FOLDER

`dependencies`: a user is a package, its queries are the packages it depends on, recommends or suggests (a
few each). `files`: a user is a package, its queries are the names of its files (over 100 on average, some
with thousands). Needs a Debian or Ubuntu machine with its package lists; `files` needs apt-file
(apt-get install apt-file, then apt-file update). Packages are no people: the sets show how counts fare
where units hold few or very many items.
"""

import argparse
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FIELDS = ("Depends", "Pre-Depends", "Recommends", "Suggests")
MOST_NAME = 60  # characters; longer names are of one package only


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("dependencies", _dependencies()), ("files", _files())):
        users, queries = zip(*sorted(set(rows)), strict=True)
        table = pa.table({"user": users, "query": queries})
        pq.write_table(table, options.out / f"{name}.parquet")
        print(f"{name}: {len(set(users)):,} users, {len(users):,} distinct pairs")


def _dependencies():
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout
    package = ""
    for line in listed.decode(errors="replace").splitlines():
        field, _, value = line.partition(": ")
        if field == "Package":
            package = value
        elif field in FIELDS:
            for each in re.split(r"[,|]", value):
                yield package, re.sub(r"[ (:].*", "", each.strip())


def _files():
    listed = subprocess.Popen(
        ["apt-file", "search", "--regexp", "."], stdout=subprocess.PIPE, text=True, errors="replace"
    )
    assert listed.stdout is not None
    for line in listed.stdout:
        package, _, path = line.rstrip("\n").partition(": ")
        name = path.rpartition("/")[2]
        if name and len(name) <= MOST_NAME:
            yield package, name
    listed.wait()


if __name__ == "__main__":
    main()
