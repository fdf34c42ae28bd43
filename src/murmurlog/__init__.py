"""Publish search logs so that the crowd can be heard and no single person can."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from murmurlog.auditing import Audit, audit
    from murmurlog.bundle import Release, load
    from murmurlog.certificate import Certificate
    from murmurlog.checks import Report, verify
    from murmurlog.errors import (
        BundleError,
        EngineError,
        InputError,
        MurmurlogError,
        Refused,
        UsageError,
    )
    from murmurlog.evaluating import evaluate
    from murmurlog.evaluation import Evaluation
    from murmurlog.ledger import Ledger
    from murmurlog.mechanisms import Threshold, parse
    from murmurlog.overview import profile
    from murmurlog.plans import Plan, plan
    from murmurlog.privacy import Guarantee
    from murmurlog.road import Outcome, release
    from murmurlog.sweeping import sweep

# Loaded on first use: `murmurlog --help` and `import murmurlog` need no engine.
_WHERE = {
    "Audit": "auditing",
    "BundleError": "errors",
    "Certificate": "certificate",
    "EngineError": "errors",
    "Evaluation": "evaluation",
    "Guarantee": "privacy",
    "InputError": "errors",
    "Ledger": "ledger",
    "MurmurlogError": "errors",
    "Outcome": "road",
    "Plan": "plans",
    "Refused": "errors",
    "Release": "bundle",
    "Report": "checks",
    "Threshold": "mechanisms",
    "UsageError": "errors",
    "audit": "auditing",
    "evaluate": "evaluating",
    "load": "bundle",
    "parse": "mechanisms",
    "plan": "plans",
    "profile": "overview",
    "release": "road",
    "sweep": "sweeping",
    "verify": "checks",
}

__all__ = [
    "Audit",
    "BundleError",
    "Certificate",
    "EngineError",
    "Evaluation",
    "Guarantee",
    "InputError",
    "Ledger",
    "MurmurlogError",
    "Outcome",
    "Plan",
    "Refused",
    "Release",
    "Report",
    "Threshold",
    "UsageError",
    "audit",
    "evaluate",
    "load",
    "parse",
    "plan",
    "profile",
    "release",
    "sweep",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'murmurlog' has no attribute {name!r}")
    return getattr(import_module(f"murmurlog.{_WHERE[name]}"), name)
