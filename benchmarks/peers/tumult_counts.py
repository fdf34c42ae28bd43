"""Tumult Analytics: 10 distinct queries a user, keys by a threshold, (1, 1e-6), counts of users.

Needs a Java runtime. Half of epsilon chooses keys, half of it is for the counts.
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)

os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.config("spark.driver.memory", "8g")
builder = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp())
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
log = spark.read.parquet(sys.argv[1]).select("user", "query")
session = Session.from_dataframe(
    ApproxDPBudget(1, 1e-6), "log", log, protected_change=AddRowsWithID("user")
)
bounded = (
    QueryBuilder("log")
    .enforce(MaxGroupsPerID("query", 10))
    .enforce(MaxRowsPerGroupPerID("query", 1))
)
keys = session.evaluate(bounded.get_groups(["query"]), ApproxDPBudget(0.5, 1e-6))
found = session.evaluate(
    bounded.groupby(KeySet.from_dataframe(keys)).count(), ApproxDPBudget(0.5, 0)
)
print(found.count())
