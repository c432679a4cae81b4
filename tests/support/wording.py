"""Find words and sentence patterns that our style guide bans, because readers stumble over them.

python -m tests.support.wording src/treefine/cli docs            # print the banned phrases with their lines
python -m tests.support.wording --smells src/treefine/cli docs   # and phrases that are often, not always, hard to read
"""

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

UNIT = "word|sentence|line|piece|epoch|step|batch|second|minute|token|character|request|row|tree|block|process|sample"
COUNTED = "rows?|lines?|sentences|words|passes|requests|vectors?"
BANNED = {
    r"(?<!\\)\btold\b": "reported, shown, printed",  # but not a tab before "old"
    r"\bsuch ones?\b": "these, one of these",
    r"\banew\b": "again",
    r"\bheed(s|ed|ing)?\b": "respects",
    r"\b(gone|goes|go|going|went) on (with|from)\b": "resume, continue, fine-tune",
    r"\b(is|are|was|were|there) none\b(?! of)": "does not exist, there is no …",
    r"\b(is|are) none of\b": "is not one of",
    r"\b[Ww]hat is (made of it|none|no)\b": "the actual noun",
    r"\bthat there (is|are) not\b": "does not exist",
    r"\b[Ll]ooked at are\b": "subject first: compares these columns",
    r"\b[Oo]f two runs\b": "a second run fails",
    r"\bnobody knows\b": "is unknown",
    rf"\b(one|an?|\d+|{COUNTED}) an? ({UNIT})\b(?! (is|has|of|can|may|that|whose|with|to))": "per",
    r"\bin vain\b": "has no effect",
    r"\bby heart\b": "memorise",
    r"\b(wherefrom|whereof|thereof|therein|wherein|whence|lest|nought|betimes)\b": "the everyday word",
    r"\b(can|may|could|to) be had\b": "is available",
    r"\bhid(e|es|den) (the )?(pieces|words)\b": "mask",
    r"\b(pieces|words) (are )?hidden\b": "masked",
    r"\bgoes? on\b": "continues",
    r"\ball the world\b": "everyone",
    r"\bmean of (the )?weights\b": "weight averaging",
}
SMELLS = {
    r"\bbeside\b": "next to; compared with",
    r"(?<=[.!?] )What (is|was|are|it|a|an|the|has|they|no|one|comes|came|every|each|other)\b[^?]*?\.": "name the thing",
    r"[,;:] for (it|its|they|their|that|there|this|those|these|nobody|nothing|no|each|one|a|the|what|all)\b": "because",
    r"\bbut for\b": "except for",
    r"\b(is|are|was|were|be) to be\b": "must be, should be",
    r"\b(stands?|stood) (in|at|for|with|under|before|after|there|alone|twice)\b": "is in, means",
    r"\b(lies|lie|lay) (in|there|at|under|beside|on)\b": "is in",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\b(as|so) (many|much)\b": "this many; check the order",
    r"\bof which\b": "turn the sentence round",
    r"\balone\b": "only (unless it means: without others)",
    r"\b(cut|cuts|written|named|spelled|parsed|done) otherwise\b": "differently",
    r"\b(an)?others?'? (is|are)\b": "check",
    r"\bper cent\b": "%",
    r"\bat work\b": "running",
    r"\bin one go\b": "at once, together",
    r"\bthe whole of\b": "all of",
    r"\b(weighs?|weigh)\b": "size in MB",
    r"\bby itself\b": "check",
    r"\brefused?\b": "rejected; fails with an error",
    r"\bhangs?\b": "attaches (arcs); blocks (programs)",
    r"\bfor ever\b": "forever",
    r"\bsurer\b": "more confident",
    r"\bnor\b": "two sentences?",
    r"\bone another\b|\beach other's\b": "check",
    r"\b(is|are) (its|their) own\b": "check",
}
EXEMPT = ("wording.py", "test_wording.py")  # they quote the phrases
NOUN_FIRST = re.compile(r"(What|Where|How|That|When|Which|Who|Of|If)\b")


class Finding(NamedTuple):
    path: Path
    line: int
    phrase: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase!r} -> {self.advice}"


def findings(path: Path, patterns: dict[str, str] = BANNED) -> Iterator[Finding]:
    """Yield the phrases of one file that match the patterns, also where a line break divides them."""
    text = path.read_text(encoding="utf-8")
    lines = [re.sub(r"^[ \t]*(#|//|\*|>)?[ \t]*", "", line) for line in text.split("\n")]
    if path.suffix == ".py":
        yield from _docstring_findings(path, text)
        lines = [line.replace("_", " ") if line.startswith("def test_") else line for line in lines]
    flat = " ".join(lines)
    for match in re.finditer("|".join(patterns), flat):  # one pass over the text
        place = match.start()
        advice = next(advice for pattern, advice in patterns.items() if re.compile(pattern).match(flat, place))
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        yield Finding(path, bisect_right(starts, place), match[0][:80], advice)


def _docstring_findings(path: Path, text: str) -> Iterator[Finding]:
    """Yield the docstrings that begin with a relative clause, and functions' docstrings that are noun phrases."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            is_property = is_function and any("property" in ast.unparse(each) for each in node.decorator_list)
            noun = is_function and not is_property and re.match(r"(The|A|An|One|All|Each|Whether)\b", docstring)
            if NOUN_FIRST.match(docstring) or noun:
                first = docstring.splitlines()[0][:60]
                yield Finding(path, getattr(node, "lineno", 1), first, "begin with the verb: Return …")


def files(path: Path) -> list[Path]:
    """Return the files with prose under this path: Python, Markdown, TOML, HTML and JavaScript."""
    if path.is_file():
        return [path]
    kinds = {".py", ".md", ".toml", ".html", ".js", ".ipynb"}
    return sorted(each for each in path.rglob("*") if each.suffix in kinds and ".venv" not in each.parts)


def main(arguments: list[str]) -> int:
    patterns = BANNED | (SMELLS if "--smells" in arguments else {})
    found = [
        each
        for argument in arguments
        if argument != "--smells"
        for path in files(Path(argument))
        if path.name not in EXEMPT
        for each in findings(path, patterns)
    ]
    sys.stdout.write("\n".join([*map(str, found), f"{len(found)} findings", ""]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
