"""What mechanisms publish at each budget, forecast on a generated log: the page's Plan view shows it.

    python benchmarks/trade_off.py        writes src/murmurlog/web/trade_off.json (minutes)

Every number is the mean of simulations (docs/how-to/plan.md) on the invented log of `generate`, which has no
secrets. The same code gives the same file.
"""

import json
import sys
from pathlib import Path

from murmurlog.errors import UsageError
from murmurlog.publishing.plan import plan
from murmurlog.publishing.planning.forecast import Simulation
from murmurlog.publishing.planning.goals import EPSILONS
from murmurlog.publishing.planning.stand_in_log import of_shape

OUT = Path(__file__).parents[1] / "src" / "murmurlog" / "web" / "trade_off.json"
LIKE, USERS, REPEATS = "plain", 50_000, 2
DELTAS = (1e-5, 1e-6, 1e-7, 1e-8)
BOUNDS = {"rounds": (10, 30, 100, 300), "threshold": (1, 3, 10, 30), "korolova": (1, 2, 4, 8)}


def main() -> None:
    print(f"inventing a log of {USERS} users", file=sys.stderr)
    simulation = Simulation(of_shape(LIKE, users=USERS))
    points = []
    for mechanism, bounds in BOUNDS.items():
        for per_user in bounds:
            print(f"{mechanism}, {per_user} items a user", file=sys.stderr)
            for delta in DELTAS:
                for epsilon in EPSILONS:
                    where = [mechanism, per_user, delta, epsilon]
                    try:
                        made = plan(
                            mechanism=mechanism, epsilon=epsilon, delta=delta, per_user=per_user
                        )
                    except UsageError:  # no such noise can be certified
                        continue
                    found = simulation.forecast(made.mechanism, repeats=REPEATS).as_json()
                    # Of rounds what was seen; the others have a threshold.
                    needed = made.passes().get("0.5") or simulation.even_odds(made.mechanism)
                    found["needed"] = needed
                    points.append([*where, *found.values()])
    head = {
        "from": f"a generated log, {LIKE}, {USERS:,} users",
        "epsilons": EPSILONS,
        "deltas": DELTAS,
        "bounds": BOUNDS,
        "columns": ["mechanism", "per_user", "delta", "epsilon", *found],
    }
    lines = ",\n".join(json.dumps(point) for point in points)
    OUT.write_text(json.dumps(head)[:-1] + f',\n"points": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(points)} points, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
