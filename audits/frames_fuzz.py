"""Tables of one user's values beside another's: no value changes how another is read.

    python audits/frames_fuzz.py [--frames 20000] [--seed 1]

Each frame has a column of values of some Python, numpy and pandas types, once without and once with a
value of one more user, and murmurlog reads both: as text, and as times. The rows of all others must be
the same, and no value may refuse the frame. A column is of objects, of categories, of the type
that pandas chooses for it, or of an Arrow type with values that this type cannot have. Exit code 0 only
if nothing moved.
"""

import argparse
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import random
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from murmurlog.errors import MurmurlogError
from murmurlog.logs.engines.duckdb import open_duckdb
from murmurlog.logs.source import Source
from murmurlog.logs.tables import write_parquet
from murmurlog.logs.typed_rows import Selection, read_batches
from murmurlog.logs.workspace import open_workspace

Connection = duckdb.DuckDBPyConnection

FRAMES_A_SESSION = 1000
NOT_MADE = "not made"
SHOWN = 8  # differences that are printed
MOST_VALUES = 9
COLUMNS = {"user": "user", "query": "query", "time": "x"}
TEXTS = ("a", "", "DE", "7", "7.0", "NaN", "2026-01-31", "true", "é", "None")
ZONES = (datetime.UTC, ZoneInfo("Asia/Tokyo"), ZoneInfo("America/St_Johns"))


Country = enum.Enum("Country", {"DE": "DE"}, type=str)


class Place(enum.StrEnum):
    FR = "FR"


class Level(enum.IntEnum):
    HIGH = 700_000_000


class Colour(enum.Enum):
    RED = "red"


class Name(str):
    """A text that prints as another one."""

    def __str__(self) -> str:
        return "hidden"


class Stubborn:
    """An object that raises whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


Draw = Callable[[random.Random], Any]


def whole(choice: random.Random) -> int:
    """An integer that pandas keeps if it makes a float of it, and that is a time as text, too."""
    return choice.choice((choice.randrange(10**8, 2**53), 1_769_882_400, 10**18))


def moment(choice: random.Random) -> datetime.datetime:
    start = datetime.datetime(2026, 1, 31, 18)
    return start + datetime.timedelta(
        days=choice.randrange(-9000, 9000), microseconds=choice.choice((0, 1, 500_000))
    )


def numpy_moment(unit: str) -> Draw:
    return lambda choice: np.datetime64(moment(choice)).astype(f"M8[{unit}]")


def of_one(kind: Callable[[Any], Any], *values: Any) -> Draw:
    return lambda choice: kind(choice.choice(values))


def fraction(choice: random.Random) -> float:
    """A float that is the same time as a number and as text, or none."""
    return choice.choice((1.5e9 + 0.1, 2.0**27 + 0.5, 1e30, float("inf"), float(whole(choice))))


# Values that pandas keeps as they are, whatever type it chooses for their column.
STEADY: dict[str, Draw] = {
    "str": lambda choice: choice.choice(TEXTS),
    "str-enum": lambda _: Country.DE,
    "StrEnum": lambda _: Place.FR,
    "int": whole,
    "int-enum": lambda _: Level.HIGH,
    "bool": lambda choice: choice.random() < 0.5,
    "float": fraction,
    "nan": lambda _: float("nan"),
    "None": lambda _: None,
    "NA": lambda _: pd.NA,
    "NaT": lambda _: pd.NaT,
    "Decimal": of_one(decimal.Decimal, "1.50", "7", "1E+3", "Infinity"),
    "Decimal NaN": of_one(decimal.Decimal, "NaN", "-NaN"),
    "Fraction": lambda _: fractions.Fraction(1, 3),
    "bytes": lambda choice: choice.choice((b"a", b"DE", b"\xff")),
    "np.str_": of_one(np.str_, *TEXTS),
    "np.bytes_": of_one(np.bytes_, b"a", b"\xff"),
    "np.int64": lambda choice: np.int64(whole(choice)),
    "np.uint64": lambda choice: np.uint64(whole(choice)),
    "np.int32": lambda _: np.int32(1_769_882_400),
    "np.float64": lambda choice: np.float64(fraction(choice)),
    "np.bool_": of_one(np.bool_, True, False),
    "datetime": moment,
    "datetime with zone": lambda choice: moment(choice).astimezone(choice.choice(ZONES)),
    "Timestamp": lambda choice: pd.Timestamp(moment(choice)),
    "Timestamp with zone": lambda c: pd.Timestamp(moment(c)).tz_localize("UTC").tz_convert("Asia/Tokyo"),
    **{f"np.datetime64[{unit}]": numpy_moment(unit) for unit in ("D", "s", "ms", "us", "ns")},
    "date": lambda choice: moment(choice).date(),
    "time": lambda choice: moment(choice).time(),
    "timedelta": lambda choice: datetime.timedelta(microseconds=choice.randrange(10**12)),
    "Timedelta": lambda choice: pd.Timedelta(choice.randrange(10**12), "ns"),
    "np.timedelta64": lambda choice: np.timedelta64(choice.randrange(10**6), "s"),
    "Period": lambda choice: pd.Period(moment(choice), choice.choice("MD")),
    "Interval": lambda choice: pd.Interval(0, choice.choice((1, 2.5)), choice.choice(("left", "both"))),
    "UUID": lambda choice: uuid.UUID(int=choice.getrandbits(128)),
    "ip address": of_one(ipaddress.ip_address, "192.0.2.1", "2001:db8::1"),
    "path": lambda _: pathlib.PurePosixPath("/a"),
    "enum": lambda _: Colour.RED,
    "object": lambda _: Stubborn(),
}  # fmt: skip
# Values that pandas itself may change, so only in columns of objects.
OTHERS: dict[str, Draw] = {
    "str subclass": lambda choice: Name(choice.choice(TEXTS)),
    "half a character": lambda _: "\ud800",
    "big int": lambda choice: choice.choice((2**53 + 1, 2**64 + 1, -5, 10**5000)),
    "complex": lambda choice: choice.choice((7 + 0j, 1j, complex("nan"))),
    "Decimal sNaN": lambda _: decimal.Decimal("sNaN"),
    "bytearray": lambda choice: bytearray(choice.choice((b"DE", b"\xff"))),
    "memoryview": lambda _: memoryview(b"DE"),
    "np.int8": of_one(np.int8, -1, 7),
    "np.uint8": of_one(np.uint8, 7, 255),
    "small": lambda choice: choice.choice((0, 0.1, 2.5, 1e-5, -1.0)),
    "np.float32": of_one(np.float32, 0.1, 2.5, 2.0**30),
    "np.float16": of_one(np.float16, 0.1, 7),
    "np.longdouble": of_one(np.longdouble, 0.1, 7),
    "np.datetime64[Y]": of_one(lambda year: np.datetime64(year, "Y"), 1970, 300_000_000),
    "np.datetime64 NaT": lambda _: np.datetime64("NaT"),
    "np.timedelta64 NaT": lambda _: np.timedelta64("NaT"),
    "list": lambda choice: [choice.choice(TEXTS)],
    "tuple": lambda choice: (choice.choice(TEXTS), 1),
    "dict": lambda choice: {"a": choice.choice(TEXTS)},
    "np.ndarray": lambda _: np.array([1, 2]),
    "DataFrame": lambda _: pd.DataFrame({"a": [1]}),
}
KINDS = STEADY | OTHERS
# Arrow types and values of them, the last of which the type cannot have or DuckDB does not.
ARROW: dict[str, tuple[pa.DataType, tuple[int, ...]]] = {
    **{
        f"timestamp[{unit}]": (pa.timestamp(unit, zone), (0, 10**9, -(2**63), 2**63 - 1))
        for unit, zone in (("s", None), ("ms", None), ("us", None), ("ns", None), ("ms", "UTC"))
    },
    "time32[ms]": (pa.time32("ms"), (0, 5, 2**31 - 1, -1)),
    "time64[us]": (pa.time64("us"), (0, 5, 2**63 - 1, -1)),
    "date32": (pa.date32(), (0, 20_000, 2**31 - 1, -(2**31))),
}


def objects(values: list[Any]) -> Any:
    """A column that pandas leaves as it is: it looks into lists and frames otherwise."""
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return pd.Series(column, dtype=object)


def categories(values: list[Any]) -> Any:
    return objects(values).astype("category")


FORMS: dict[str, tuple[dict[str, Draw], Callable[[list[Any]], Any]]] = {
    "objects": (KINDS, objects),
    "categories": (STEADY, categories),
    "chosen by pandas": (STEADY, list),
}


def frame_of(form: str, values: list[Any]) -> Any:
    rows = {"user": [f"u{n}" for n in range(len(values))], "query": ["q"] * len(values)}
    if form in ARROW:
        kind = ARROW[form][0]
        return pa.table(rows | {"x": pa.array(values, f"int{kind.bit_width}").view(kind)})
    if form == "bytes as text":
        joined, ends = pa.py_buffer(b"".join(values)), np.cumsum([0, *map(len, values)])
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), joined]
        return pa.table(rows | {"x": pa.Array.from_buffers(pa.string(), len(values), buffers)})
    return pd.DataFrame(rows | {"x": FORMS[form][1](values)})


def drawn(choice: random.Random) -> tuple[str, str, list[Any], Any]:
    """A form, the type of the neighbour's value, the others' values and the neighbour's."""
    form = choice.choice([*FORMS] * 6 + [*ARROW, "bytes as text"])
    count = choice.randint(1, MOST_VALUES)
    if form in ARROW:
        numbers = ARROW[form][1]
        return form, form, choice.choices(numbers[:2], k=count), choice.choice(numbers)
    if form == "bytes as text":
        return form, form, choice.choices((b"a", b"de"), k=count), choice.choice((b"\xff", b"a"))
    kinds = FORMS[form][0]
    names = choice.choices([*kinds], k=choice.randint(1, 3))
    last = choice.choice([*kinds])
    return (
        form,
        last,
        [kinds[choice.choice(names)](choice) for _ in range(count)],
        kinds[last](choice),
    )


def source_of(file: Path) -> Source:
    """The file as a source whose column x is its time."""
    return Source(
        format="parquet", files=(file,), compressions=(None,), encodings=("utf-8",), table=None,
        lines=None, column_names=tuple(COLUMNS.values()), columns=COLUMNS, settled={},
    )  # fmt: skip


def rows_read(frame: Any, folder: Path, connection: Connection) -> list[Any] | str:
    """What murmurlog reads: the text and the time of each row; or how it refuses the frame."""
    file = folder / f"{uuid.uuid4()}.parquet"  # DuckDB may know files of the same name
    try:
        write_parquet(frame, file)
        batches = read_batches(
            source_of(file), Selection(keep=["x"], urls=False), connection=connection, broken={}
        )
        table = pa.Table.from_batches(list(batches))
        columns = [table[name].to_pylist() for name in ("user", "k0", "time")]
    except MurmurlogError as error:
        return f"refused: {' '.join(str(error).split())[:90]}"
    except Exception as error:
        return f"raised {type(error).__name__}"
    finally:
        file.unlink(missing_ok=True)
    return [row[1:] for row in sorted(zip(*columns, strict=True), key=lambda row: int(row[0][1:]))]


def difference(
    form: str, values: list[Any], neighbour: Any, folder: Path, connection: Connection
) -> str:
    """What the neighbour's value changes; empty if nothing, NOT_MADE if there is no such frame."""
    try:
        frames = frame_of(form, values), frame_of(form, [*values, neighbour])
    except Exception:  # pandas takes no such values
        return NOT_MADE
    before, after = (rows_read(frame, folder, connection) for frame in frames)
    if isinstance(before, str) or isinstance(after, str):
        return next(text for text in (before, after) if isinstance(text, str))
    pairs = zip(values, before, after, strict=False)
    return next((f"{v!r:.60}: {was} -> {now}" for v, was, now in pairs if was != now), "")


def run(frames: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How many frames of each form were read, and what moved."""
    counts: Counter[str] = Counter()
    moved = []
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while number < frames:
            last = min(number + FRAMES_A_SESSION, frames)
            with open_workspace() as workspace, open_duckdb(workspace) as connection:
                while number < last:
                    form, kind, values, neighbour = drawn(random.Random(f"{seed}/{number}"))
                    fault = difference(form, values, neighbour, Path(folder), connection)
                    counts[fault if fault == NOT_MADE else form] += 1
                    number += 1
                    if fault and fault != NOT_MADE:
                        moved.append(f"frame {number}, {form}, beside {kind}: {fault}")
                        break  # DuckDB may be unusable now
    return counts, moved


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=20_000, help="how many; default 20000")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts, moved = run(options.frames, options.seed)
    for line in moved[:SHOWN]:
        print(line)
    listed = ", ".join(f"{n:,} {form}" for form, n in counts.most_common())
    refused = sum(": refused: " in line or ": raised " in line for line in moved)
    print(
        f"{counts.total():,} frames ({listed}) of {len(KINDS)} types: {len(moved) - refused:,} moved, "
        f"{refused:,} refused because of a value"
    )
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
