"""--delimiter: one ASCII character between fields, or its name."""

from murmurlog.errors import UsageError

WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


def check_delimiter(text: str) -> str:
    """The character; raises UsageError if fields cannot be cut at it."""
    character = WORDS.get(text, text)
    if (
        len(character) != 1
        or not character.isascii()
        or character.isalnum()
        or character in '"\r\n\0'
    ):
        raise UsageError(
            f"--delimiter {text!r:.60} is not a delimiter: give one ASCII character that is no letter, "
            f"digit, quote or line end, or one of {', '.join(word for word in WORDS if word[0] != chr(92))}"
        )
    return character
