"""Help texts are wrapped where the terminal ends, not where the source does."""

import typer
from rayvous.cli.app import app
from rayvous.cli.verb_app import flowing


def test_lines_of_a_paragraph_are_joined_and_examples_stay():
    text = """First line
    goes on.

    Second
    paragraph.

    Examples
    --------
      rayvous one
      rayvous two
    """
    assert flowing(text) == (
        "First line goes on.\n\nSecond paragraph.\n\nExamples\n--------\n  rayvous one\n  rayvous two"
    )


def test_no_help_of_any_verb_breaks_a_line_within_a_paragraph():
    def helps(command):
        yield command.help or ""
        for each in getattr(command, "commands", {}).values():
            yield from helps(each)

    texts = [part for text in helps(typer.main.get_command(app)) for part in text.split("\n\n")]
    assert len(texts) > 100
    for part in texts:
        assert "\n" not in part or part.startswith("Examples\n--------\n  "), part
