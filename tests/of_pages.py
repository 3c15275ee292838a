"""A page's own functions, for tests: nothing of the page is run but its imports."""

import ast
from typing import Any

from biaslib.book import execution, find_project


def functions(notebook: str, **names: Any) -> dict[str, Any]:
    """What a notebook imports and defines, by name; `names` are parameters and constants that its functions take."""
    cells = [cell for cell in execution.read(find_project(), notebook).cells if cell.cell_type == "code"]
    statements = [statement for cell in cells for statement in ast.parse(cell.source).body]
    wanted: list[ast.stmt] = [
        each for each in statements if isinstance(each, ast.Import | ast.ImportFrom | ast.FunctionDef)
    ]
    exec(compile(ast.Module(wanted, []), f"{notebook}.md", "exec"), names)
    return names
