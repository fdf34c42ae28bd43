"""Stages reach a plain function as lines; numbers reach those who take them."""

from murmurlog.bundle.progress import measure, measure_all


class Recorder:
    def __init__(self):
        self.stages, self.parts, self.totals = [], [], []

    def __call__(self, text):
        self.stages.append(text)

    def measure(self, *, total, unit):
        self.totals.append((total, unit))
        return lambda part=1, *, rows=None: self.parts.append((part, rows))

    def measure_all(self, text, *, total, unit):
        self.stages.append(text)
        return self.measure(total=total, unit=unit)


def test_a_plain_function_hears_no_numbers():
    stages = []
    advance = measure(stages.append, total=lambda: 1 / 0)  # nobody asks for the total
    advance(3, rows=2)
    measure_all(stages.append, "all of it", total=2, unit="systems")()
    assert stages == []


def test_a_reporter_gets_totals_and_parts():
    recorder = Recorder()
    measure(recorder, total=lambda: 10)(4, rows=7)
    measure_all(recorder, "evaluation", total=3, unit="systems")()
    assert recorder.totals == [(10, "rows"), (3, "systems")]
    assert recorder.parts == [(4, 7), (1, None)]
    assert recorder.stages == ["evaluation"]
