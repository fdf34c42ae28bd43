"""Publish search logs so that the crowd can be heard and no single person can."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0a2"

if TYPE_CHECKING:
    from murmurlog.auditing.attack import audit
    from murmurlog.auditing.result import Audit
    from murmurlog.auditing.verify import Report, verify
    from murmurlog.bundle.certificate import Certificate
    from murmurlog.bundle.compare import compare
    from murmurlog.bundle.estimate import estimate
    from murmurlog.bundle.export import export
    from murmurlog.bundle.read import Release, load
    from murmurlog.bundle.series import load_series
    from murmurlog.errors import (
        BundleError,
        EngineError,
        InputError,
        MurmurlogError,
        OtherVersion,
        Refused,
        UsageError,
    )
    from murmurlog.evaluation.evaluate import evaluate, sweep
    from murmurlog.evaluation.result import Evaluation
    from murmurlog.logs.invented.generate import generate
    from murmurlog.mechanisms import Threshold, parse
    from murmurlog.privacy import Guarantee
    from murmurlog.publishing.init import init
    from murmurlog.publishing.ledger import Ledger
    from murmurlog.publishing.plan import Plan
    from murmurlog.publishing.planning.exact_profile import profile
    from murmurlog.publishing.planning.planner import plan
    from murmurlog.publishing.release import Outcome, release
    from murmurlog.publishing.request import ReleaseRequest

# Loaded on first use: `murmurlog --help` and `import murmurlog` need no engine.
_WHERE = {
    "Audit": "auditing.result",
    "BundleError": "errors",
    "Certificate": "bundle.certificate",
    "EngineError": "errors",
    "Evaluation": "evaluation.result",
    "Guarantee": "privacy",
    "InputError": "errors",
    "Ledger": "publishing.ledger",
    "MurmurlogError": "errors",
    "OtherVersion": "errors",
    "Outcome": "publishing.release",
    "Plan": "publishing.plan",
    "Refused": "errors",
    "Release": "bundle.read",
    "ReleaseRequest": "publishing.request",
    "Report": "auditing.verify",
    "Threshold": "mechanisms",
    "UsageError": "errors",
    "audit": "auditing.attack",
    "compare": "bundle.compare",
    "estimate": "bundle.estimate",
    "evaluate": "evaluation.evaluate",
    "export": "bundle.export",
    "generate": "logs.invented.generate",
    "init": "publishing.init",
    "load": "bundle.read",
    "load_series": "bundle.series",
    "parse": "mechanisms",
    "plan": "publishing.planning.planner",
    "profile": "publishing.planning.exact_profile",
    "release": "publishing.release",
    "sweep": "evaluation.evaluate",
    "verify": "auditing.verify",
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
    "OtherVersion",
    "Outcome",
    "Plan",
    "Refused",
    "Release",
    "ReleaseRequest",
    "Report",
    "Threshold",
    "UsageError",
    "audit",
    "compare",
    "estimate",
    "evaluate",
    "export",
    "generate",
    "init",
    "load",
    "load_series",
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


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
