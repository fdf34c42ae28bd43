"""HTTP connections with timeouts, so that idle or slow clients do not block others.

Uvicorn counts every open connection towards its limit and closes an idle one only after a response.
Here a client has limited time to send the head of a request and to take the response. When the limit
on connections is reached, the longest idle connection is closed for a new one.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0  # until the head of a request has arrived, however slowly
ANSWER_SECONDS = 600.0  # until the response is sent; verifying a large bundle takes minutes


class TimedProtocol(H11Protocol):
    """Uvicorn's HTTP protocol with timeouts."""

    head_seconds, answer_seconds = HEAD_SECONDS, ANSWER_SECONDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._since = self.loop.time()
        self._ended = False  # the client has stopped sending, but may still read

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        self._make_room()
        super().connection_made(transport)
        self._restart()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:  # a request has begun
            self._restart()

    def eof_received(self) -> Any:
        """True keeps the connection open for the pending response."""
        self._ended = True
        return not self.waits

    def on_response_complete(self) -> None:
        self._restart()
        super().on_response_complete()
        if self._ended and self.waits:
            self.transport.close()

    def _restart(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._since = self.loop.time()
        seconds = self.head_seconds if self.waits else self.answer_seconds
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Closes the longest idle connection if the limit is reached."""
        others = [
            other
            for other in self.connections
            if isinstance(other, TimedProtocol) and not other.transport.is_closing()
        ]
        waiting = [other for other in others if other.waits]
        if waiting and len(others) + 1 >= (self.limit_concurrency or len(others) + 2):
            min(waiting, key=lambda other: other._since).transport.abort()
