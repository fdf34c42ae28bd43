"""Errors of Spark as ours. Its own messages can quote values of the log, so they are not shown."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from murmurlog.errors import EngineError, InputError, MurmurlogError
from murmurlog.logs.text_keys import NOT_DRAWN

# Errors of Spark by a part of their text, and the messages shown instead, since Spark's own can
# quote rows.
_ERRORS: Mapping[str, tuple[type[MurmurlogError], str]] = {
    "No space left": (EngineError, "the disk of the scratch folder or of a worker is full"),
    "OutOfMemoryError": (
        EngineError,
        "Spark ran out of memory: raise spark.executor.memory or spark.driver.memory",
    ),
    "TIMESTAMP(NANOS": (
        InputError,
        "the source has times in nanoseconds, which Spark does not read: write them in microseconds",
    ),
    "PARQUET_TYPE_ILLEGAL": (
        InputError,
        "the source has a column of a type that Spark does not read, such as uuid, float16 or time: "
        "write it as text, or use --engine duckdb",
    ),
    "exceeds max precision": (
        InputError,
        "the source has decimals of more than 38 digits, which are not read exactly: write them as "
        "text",
    ),
    "No module named": (
        EngineError,
        "the Python of the workers lacks a module. It needs what murmurlog needs here: numpy, pyarrow, "
        "duckdb, scipy and mpmath. Install them there, or name another Python with PYSPARK_PYTHON",
    ),
    "PYTHON_VERSION_MISMATCH": (
        EngineError,
        "the workers run another Python than this process: name the same version with "
        "PYSPARK_PYTHON",
    ),
    "Cannot run program": (
        EngineError,
        "the workers have no such Python: name theirs with PYSPARK_PYTHON",
    ),
    "another normaliser": (
        EngineError,
        "the workers' Python has other Unicode tables than this process: use one version of Python",
    ),
    "ermission denied": (
        EngineError,
        "the scratch folder cannot be written by the workers: they must run as the same user",
    ),
    "CANNOT_MERGE": (InputError, "the files of the source have columns of different types"),
    "FAILED_READ_FILE": (
        InputError,
        "a file of the source is damaged, or changed while it was read",
    ),
    "is not a Parquet file": (InputError, "a file of the source is not Parquet"),
    NOT_DRAWN: (EngineError, NOT_DRAWN),
    "Invalid UTF8": (InputError, "the source holds text that is not valid UTF-8"),
    "UnicodeDecodeError": (InputError, "the source holds text that is not valid UTF-8"),
    "MALFORMED_CHARACTER": (InputError, "the source holds text that is not valid UTF-8"),
    "SparkContext was shut down": (EngineError, "Spark was stopped while it was in use"),
    "Master is unresponsive": (EngineError, "the Spark master does not answer: check --master"),
    "All masters are": (EngineError, "the Spark master does not answer: check --master"),
}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Spark's errors as ours. Its messages can quote values of the log, so they are dropped."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        text = str(error)
        for part, (kind, message) in _ERRORS.items():
            if part in text:
                raise kind(message) from None
        condition = getattr(error, "getCondition", getattr(error, "getErrorClass", lambda: None))
        what = condition() or type(error).__name__
        raise EngineError(
            f"Spark failed with {what}. Its message may quote rows, so it is not shown here: see "
            "the logs of the workers, or set spark.log.level"
        ) from None
