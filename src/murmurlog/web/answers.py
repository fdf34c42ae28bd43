"""A cache of answers to questions about whole tables, bounded by their total size in bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

MOST_BYTES = 64 << 20
Answer = TypeVar("Answer")


class AnswerCache:
    """The most recently used answers. An answer larger than the whole cache is not stored."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most, self.size = most, 0
        self._answers: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def get(
        self, question: Hashable, make: Callable[[], Answer], size: Callable[[Answer], int]
    ) -> Answer:
        """The answer to a question: the cached one, or a new one."""
        with self._lock:
            if question in self._answers:
                self._answers.move_to_end(question)
                cached: Answer = self._answers[question][0]
                return cached
        answer = make()
        self._store(question, answer, size(answer))
        return answer

    def _store(self, question: Hashable, answer: Any, size: int) -> None:
        with self._lock:
            if size > self.most or question in self._answers:
                return
            self._answers[question] = (answer, size)
            self.size += size
            while self.size > self.most:
                self.size -= self._answers.popitem(last=False)[1][1]
