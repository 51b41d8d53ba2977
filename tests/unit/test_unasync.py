"""tools/unasync.py: words and nothing but words, whole files, no rule that is not used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.unasync import WORDS, Untranslatable, differing, header, main, translate, twins

ROOT = Path(__file__).resolve().parents[2]
SOURCE, TWIN = "lib/_async/client.py", "lib/_sync/client.py"
EVERY_WORD = "".join(f"{word}\n" for word in WORDS)


def test_words_change_and_text_stays() -> None:
    source = (
        "async def f(x: AsyncClient) -> None:  # await AsyncClient\n"
        '    """Not await, not AsyncClient."""\n'
        "    async with x as y, await z():\n"
        "        await   y.go(Asynchrony, AsyncAny, 'await', async_=1)\n"
    )
    assert translate(source, set()) == (
        "def f(x: Client) -> None:  # await AsyncClient\n"
        '    """Not await, not AsyncClient."""\n'
        "    with x as y, z():\n"
        "        y.go(Asynchrony, Any, 'await', async_=1)\n"
    )


def test_comprehensions_and_chains() -> None:
    assert translate("a = [b async for b in await c]\n", set()) == "a = [b for b in c]\n"
    assert translate("d = (await (await e()).f())\n", set()) == "d = ((e()).f())\n"


def test_letters_of_many_bytes_do_not_shift_columns() -> None:
    assert translate("x = 'üüü'; await AsyncClient()\n", set()) == "x = 'üüü'; Client()\n"


def test_lines_keep_their_numbers() -> None:
    for path, text in twins().items():
        source = Path(str(path).replace("_sync", "_async"))
        assert len(text.splitlines()) == len(source.read_text().splitlines())


def test_await_alone_on_its_line_is_refused() -> None:
    with pytest.raises(Untranslatable, match="line 2"):
        translate("x = (\n    await\n    y\n)\n", set())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree whose twin is current."""
    for folder in ("_async", "_sync"):
        (tmp_path / "lib" / folder).mkdir(parents=True)
    (tmp_path / SOURCE).write_text(f"{header(SOURCE, TWIN)[0]}\n{EVERY_WORD}await x\n")
    for path, text in twins(tmp_path, ("lib/_async",)).items():
        path.write_text(text)
    return tmp_path


def test_a_current_tree_passes(tree: Path) -> None:
    assert differing(tree, ("lib/_async",)) == []
    assert (tree / TWIN).read_text().startswith(f"{header(SOURCE, TWIN)[1]}\n")


@pytest.mark.parametrize("change", ["more at the end\n", "\n"])
def test_lines_too_many_are_seen(tree: Path, change: str) -> None:
    with (tree / TWIN).open("a") as file:
        file.write(change)
    assert differing(tree, ("lib/_async",)) == [TWIN]


def test_lines_too_few_are_seen(tree: Path) -> None:
    (tree / TWIN).write_text((tree / TWIN).read_text().removesuffix("x\n"))
    assert differing(tree, ("lib/_async",)) == [TWIN]


def test_files_too_many_and_too_few_are_seen(tree: Path) -> None:
    (tree / "lib/_sync/orphan.py").write_text("")
    (tree / TWIN).unlink()
    (tree / "lib/_sync/_compat.py").write_text("# by hand\n")
    assert differing(tree, ("lib/_async",)) == [TWIN, "lib/_sync/orphan.py"]


def test_a_word_that_is_not_used_is_an_error(tree: Path) -> None:
    source = tree / SOURCE
    source.write_text(source.read_text().replace("__aenter__\n", ""))
    with pytest.raises(Untranslatable, match="__aenter__"):
        twins(tree, ("lib/_async",))


def test_a_source_names_its_twin(tree: Path) -> None:
    (tree / "lib/_async/other.py").write_text("x = 1\n")
    with pytest.raises(Untranslatable, match=r"other\.py: its first line"):
        twins(tree, ("lib/_async",))


def test_the_table_is_small() -> None:
    assert len(WORDS) <= 15


def test_the_tree_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "tools/unasync.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_check_fails_where_a_twin_differs(tree: Path) -> None:
    (tree / TWIN).write_text("")
    assert main(["--check"], tree, ("lib/_async",)) == 1
    assert (tree / TWIN).read_text() == ""
    assert main([], tree, ("lib/_async",)) == 0
    assert main(["--check"], tree, ("lib/_async",)) == 0
