"""What is wrong with a text file that cannot be read as rows: where, as a person counts, and what to do about it."""

from __future__ import annotations

import re

from pdml_spdz.errors import InputError
from pdml_spdz.rows.choosing import ColumnPlan
from pdml_spdz.rows.frames import LEAVE_OUT
from pdml_spdz.rows.names import listed
from pdml_spdz.rows.text_form import NONE, Form, is_number, lines_of, opened_text

TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
OTHER_SEPARATORS = ("|", " ", ":", ",", ";", "\t")

DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2})?")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(
    r"[+-]?\d{1,3}([,.'\u2019\u202f\u00a0 ]\d{2,3})*[,.'\u2019\u202f\u00a0 ]\d{3}([.,]\d+)?|\d+(_\d+)+"
)
SECOND_HEADER = f"take the line out if it belongs to the header (units, explanations); else {LEAVE_OUT}"
AMOUNT = r"[+-]?[\d.,]+"
NEARLY_NUMBERS = {
    re.compile(rf"{AMOUNT}\s*%"): "take the signs of per cent out: 5% as 5, or as 0.05, the same at every party",
    re.compile(rf"[$€£¥₹]\s*{AMOUNT}|{AMOUNT}\s*[$€£¥₹]"): "take the signs of currencies out",
    re.compile(rf"\({AMOUNT}\)"): "write numbers below zero with a minus, not in brackets",
    re.compile(rf"[\u2010-\u2015\u2212]{AMOUNT}"): "write the minus as -, the sign on the keyboard",
    re.compile(
        rf"[<>≤≥~]=?\s*{AMOUNT}"
    ): "say what stands for values beyond a limit: a number, the same at every party, or nothing",
    re.compile(rf"{AMOUNT}\s*[A-Za-zµ/°]{{1,6}}"): "take units out of the cells, into the name of the column",
    re.compile(
        r"(?i)#(div/0!|ref!|value!|name\?|num!|null!)"
    ): "mend the formula, or leave the cell empty: this is an error of Excel's",
    re.compile(
        r"(?i)yes|no|y|n|t|f"
    ): "write 1 and 0, or true and false; or list the categories (--encode NAME=A,B,...)",
}


def complaint(form: Form, made: ColumnPlan) -> InputError | None:
    """The first cell that is no number or the first line of another length: where it is, and what to do about it."""
    d, numbers, row = len(form.names), made.numbers, 0
    truths: dict[int, bool] = {}  # whether the first cell that is not empty is true or false
    with opened_text(form.path, form.encoding) as text:
        _, lines = lines_of(text, form)
        for line in lines:
            if not line:
                continue
            row += 1
            if len(line) != d:
                return _odd_line(form, line, row, lines.line_num)
            if [cell.strip() for cell in line] == list(form.names):
                return InputError(
                    f"{form.path} has its header again in row {row} (line {lines.line_num}).",
                    "one header, in the first line",
                    "take that line out: files that are put together bring one each",
                )
            odd = [j for j in numbers if not readable(line[j], form.decimal)]
            if odd:
                break
            mixed = [j for j in numbers if not _goes_with(truths, j, line[j].strip())]
            if mixed:
                return InputError(
                    f"{form.path}: column {form.names[mixed[0]]!r} has {line[mixed[0]][:60]!r} in row {row} (line "
                    f"{lines.line_num}), and {'true and false' if truths[mixed[0]] else 'numbers'} before it.",
                    "numbers, or true and false, not both in one column",
                )
        else:
            return None if row else no_rows(form)
        j, more, advice = odd[0], "", _advice(line[odd[0]], form)
        if row == 1 and len(odd) == len(numbers) > 1 and advice == LEAVE_OUT:  # names again, or units
            advice = SECOND_HEADER
        if odd[1:]:
            more = f" Other columns that are not numbers there: {listed(repr(form.names[o]) for o in odd[1:])}."
        return InputError(
            f"{form.path}: column {form.names[j]!r} has {line[j][:60]!r} in row {row} (line {lines.line_num}).{more}",
            "a number, or nothing where it is missing",
            advice,
        )


def _odd_line(form: Form, line: list[str], row: int, number: int) -> InputError:
    if line[0].lstrip().startswith("#"):
        found = f"{form.path} has a comment in line {number} (row {row}): {line[0][:40]!r}."
        return InputError(found, "rows of numbers", "take comment lines out")
    advice = f"look at that line for a {form.sep!r} too many or too few; a text with one in it has to be in quotes"
    if row == 1:
        advice += "; a title above the names has to be taken out; pass --sep if columns are separated otherwise"
    begins = form.sep.join(line)[:40]
    return InputError(
        f"{form.path} has {len(line)} columns in row {row} (line {number}), and its header has {len(form.names)}. That "
        f"line begins {begins!r}.",
        "as many as there are names",
        advice,
    )


def _goes_with(truths: dict[int, bool], j: int, cell: str) -> bool:
    return cell.lower() in NONE or truths.setdefault(j, cell in TRUE + FALSE) == (cell in TRUE + FALSE)


def readable(cell: str, decimal: str) -> bool:
    text = cell.strip()
    if text.lower() in NONE or text in TRUE + FALSE:
        return True
    if "_" in text or (decimal == "," and "." in text):
        return False
    return is_number(text.replace(",", ".") if decimal == "," else text)


def _advice(cell: str, form: Form) -> str:
    text, advice = cell.strip(), []
    if DECIMAL_COMMA.fullmatch(text) and form.decimal == ".":
        advice.append("pass --decimal comma if the comma stands before decimals")
    if THOUSANDS.fullmatch(text):
        advice.append("write numbers without thousands separators")
    if advice:
        return "; ".join(advice)
    if len(form.names) == 1 and any(sign in form.names[0] for sign in OTHER_SEPARATORS):
        return "separate columns by commas, semicolons or tabs, and pass --sep if these are not found"
    if words := next((words for form_of, words in NEARLY_NUMBERS.items() if form_of.fullmatch(text)), ""):
        return words
    if DATE.fullmatch(text):
        return "leave columns of dates out (--drop), or make numbers of them first, such as days since a day"
    return LEAVE_OUT


def no_rows(form: Form) -> InputError:
    return InputError(f"{form.path} has a header and no rows.", "at least one row", "leave this party out")
