"""Numbers with their nouns, for what is said to people: 1 file, 2 files."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Write a number before its noun, which is in the plural unless the number is 1.

    Parameters
    ----------
    number
        How many.
    noun
        What one of them is called.
    plural
        What several are called, where an s does not make it.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
