"""What the four papers report: the numbers they print, and what their released files give when computed again."""
