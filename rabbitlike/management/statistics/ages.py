"""How much history a caller asks for: `lengths_age=600&lengths_incr=5` etc.

parity: four groups of numbers, each with its own pair; a pair that is not two numbers is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from rabbitlike.management.http.errors import bad_request

#: parity: maximum number of samples.
MOST_SAMPLES: Final = 500


@dataclass(frozen=True, slots=True)
class Span:
    """From `age_ms` ago until now, one sample every `incr_ms`."""

    age_ms: int
    incr_ms: int


@dataclass(frozen=True, slots=True)
class Ages:
    """The requested history of each group; None: only the rate."""

    lengths: Span | None = None
    msg_rates: Span | None = None
    data_rates: Span | None = None
    node_stats: Span | None = None


NO_AGES: Final = Ages()


def _span(request: Request, kind: str) -> Span | None:
    try:
        age_s = int(request.query_params[f"{kind}_age"])
        incr_s = int(request.query_params[f"{kind}_incr"])
    except (KeyError, ValueError):
        return None
    if age_s <= 0 or incr_s <= 0 or age_s // incr_s > MOST_SAMPLES:
        raise bad_request(f"Invalid range parameters: age {age_s}, incr {incr_s}")
    return Span(age_s * 1000, incr_s * 1000)


def ages_in(request: Request) -> Ages:
    """The history that a request asks for; none if none of its columns could show it."""
    columns = request.query_params.get("columns", "details")
    if "_age=" not in request.url.query or not ("details" in columns or "message_stats" in columns):
        return NO_AGES
    return Ages(
        _span(request, "lengths"),
        _span(request, "msg_rates"),
        _span(request, "data_rates"),
        _span(request, "node_stats"),
    )


async def ages_of(request: Request) -> Ages:
    return ages_in(request)


#: For a route's parameters.
WithAges = Annotated[Ages, Depends(ages_of)]
