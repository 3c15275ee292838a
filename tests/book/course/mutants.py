"""Small mechanical mistakes in the code of an answer: one sign, comparison, axis, number or function at a time."""

import ast
import copy
from collections.abc import Callable, Iterator

OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
FUNCTIONS = {"mean": "sum", "sum": "mean", "all": "any", "any": "all", "zeros": "ones", "zeros_like": "ones_like"}


def mutants(code: str) -> Iterator[tuple[str, str]]:
    """What was changed, and the code with it."""
    whole = ast.parse(code)
    for function in whole.body:
        function.body = [part for part in function.body if not isinstance(part, ast.Expr)]  # what it says of itself
    for place, node in enumerate(ast.walk(whole)):
        for what, change in changes(node):
            tree = copy.deepcopy(whole)
            change(list(ast.walk(tree))[place])
            yield f"{what}, in line {getattr(node, 'lineno', 0)}", ast.unparse(tree)


def leave_out(statement: ast.AST) -> None:
    statement.__class__, statement.__dict__ = ast.Pass, {}


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    match node:
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield "another operator", lambda at: setattr(at, "op", OPERATORS[type(at.op)]())
        case ast.Compare():
            yield "another comparison", lambda at: setattr(at, "ops", [OPERATORS[type(op)]() for op in at.ops])
        case ast.keyword(arg="axis", value=ast.Constant()):
            yield "another axis", lambda at: setattr(at.value, "value", 1 - at.value.value)
        case ast.Constant(value=bool()):
            yield "the opposite", lambda at: setattr(at, "value", not at.value)
        case ast.Constant(value=int() | float()):
            yield "another number", lambda at: setattr(at, "value", at.value + 1)
        case ast.Attribute(attr=name) if name in FUNCTIONS:
            yield f"{FUNCTIONS[name]} for {name}", lambda at: setattr(at, "attr", FUNCTIONS[at.attr])
        case ast.Assign() | ast.Break():
            yield "a statement left out", leave_out
        case ast.If():
            yield "a test that is never true", lambda at: setattr(at, "test", ast.Constant(False))
        case ast.Return(value=ast.Call(args=[argument, *_])) | ast.Return(value=ast.BinOp(left=argument)):
            yield "a part alone", lambda at, argument=argument: setattr(at, "value", argument)
