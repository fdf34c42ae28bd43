"""Hong et al. 2012, Tables 3 to 6, which their own constraints rule out."""

from murmurlog.cells import PaperTable


def tables() -> list[PaperTable]:
    return []
