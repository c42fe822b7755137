import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidecar.settings.document import (
    MAX_DEPTH,
    MAX_TEXT,
    MIN_VALUES,
    VALUE_SIZE,
    Mapping,
    Scalar,
    Sequence,
    locate,
    parse_document,
)


def problems_of(text):
    return [(p.line, p.column, p.text) for p in parse_document(text)[1]]


def plain(node):
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {name: plain(child) for name, (_, child) in node.entries.items()}


def test_the_tree_knows_places_and_quotes():
    root, problems = parse_document('a: 1\nb:\n  - "x"\n  - {c: d}\n')
    assert problems == []
    assert isinstance(root, Mapping)
    assert plain(root) == {"a": "1", "b": ["x", {"c": "d"}]}
    key, value = root.entries["a"]
    assert (key.line, key.column, value.line, value.column) == (1, 1, 1, 4)
    quoted = root.entries["b"][1].items[0]
    assert (quoted.is_plain, value.is_plain, quoted.line, quoted.column) == (False, True, 3, 5)


def test_an_empty_text_has_no_root():
    assert parse_document("# nothing\n") == (None, [])


json_like = st.recursive(
    st.text(st.characters(min_codepoint=32, max_codepoint=126)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1), json_like, min_size=1))
def test_the_tree_is_what_yaml_itself_composes(value):
    root, problems = parse_document(yaml.safe_dump(value))
    assert problems == []
    assert plain(root) == value


@given(st.text(max_size=200))
def test_any_text_gives_a_tree_or_a_problem_but_no_exception(text):
    root, problems = parse_document(text)
    assert root is not None or problems or not yaml_content(text)


def yaml_content(text):
    try:
        return list(yaml.safe_load_all(text)) not in ([], [None])
    except yaml.YAMLError:
        return True


def test_duplicate_keys_are_reported_and_the_first_stays():
    root, _ = parse_document("a: 1\nb: 2\na: 3\n")
    assert problems_of("a: 1\nb: 2\na: 3\n") == [(3, 1, "duplicate key 'a'; first on line 1")]
    assert plain(root) == {"a": "1", "b": "2"}


def test_anchors_aliases_and_tags_are_refused():
    assert problems_of("a: &x [1]\nb: *x\nc: !!python/object:os.system 1\n") == [
        (1, 4, "anchor &x: anchors and aliases are not allowed"),
        (2, 4, "alias *x: anchors and aliases are not allowed"),
        (3, 4, "tag tag:yaml.org,2002:python/object:os.system: tags are not allowed"),
    ]


def test_fc_76_alias_bomb_is_refused_without_being_expanded():
    lines = ['a0: &a0 ["x"]']
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    found = problems_of("\n".join(lines))
    assert len(found) == 10 + 9 * 9


def test_fc_76_depth_and_size_are_capped():
    deep = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    assert problems_of(deep) == [(1, MAX_DEPTH + 1, f"nested deeper than {MAX_DEPTH} levels")]
    assert problems_of("[" * MAX_DEPTH + "]" * MAX_DEPTH) == []
    assert problems_of("{a: " * 100_000)[0][2] == "larger than 256 KiB"
    assert problems_of("#" * MAX_TEXT) == []


def test_syntax_errors_have_their_place():
    text = "while parsing a flow sequence, did not find expected ',' or ']'"
    assert problems_of("a: [1\nb: 2\n") == [(2, 2, f"not valid YAML: {text} (it begins on line 1)")]
    assert problems_of("a: [1 b: 2}\n")[0][2] == f"not valid YAML: {text}"
    assert problems_of("a: {b: ${X}}\n")[0][2].endswith("must be in quotes")
    assert problems_of("a: b\n\x00")[0][2] != ""


@pytest.mark.parametrize("text", ['a: 1\nb: "m\n', "a: 1\nb: 'm\n\n", "a: 1\nb: {c\n"])
def test_a_text_that_is_cut_off_says_where_it_began(text):
    ((line, column, what),) = problems_of(text)
    assert (line, column) == (text.count("\n") + 1, 1)
    assert what.endswith("(it begins on line 2)")


@given(st.text("ab: ,\"'[]{}$-|#\n\t\x85\u2028\r", max_size=40))
def test_no_text_breaks_the_reader(text):
    parse_document(text)


def test_characters_yaml_does_not_allow():
    assert problems_of("a: 1\nb: \x07\n") == [(2, 4, "a character that YAML does not allow")]


def test_one_document_only():
    assert problems_of("a: 1\n---\nb: 2\n") == [
        (2, 1, "a second YAML document; put everything into one")
    ]


def test_a_key_must_be_a_word():
    assert problems_of("? [a, b]\n: c\n") == [(1, 3, "a key must be a single word")]


def test_the_number_of_values_is_capped():
    text = "[" + ",".join("1" * MIN_VALUES) + "]"
    assert problems_of(text) == []
    assert parse_document(text, len(text))[1] == []
    one_more = "[1," + text[1:]
    (problem,) = parse_document(one_more, len(one_more))[1]
    assert problem.text == f"more than {MIN_VALUES} values"
    assert len(text) // VALUE_SIZE < MIN_VALUES < MAX_TEXT // VALUE_SIZE


def test_places_of_nodes():
    root, _ = parse_document("a: 1\nb:\n  - {c: x, d: y}\n  - z\n")
    assert locate(root, ("a",)) == (1, 4)
    assert locate(root, ("b", 0, "d")) == (3, 15)
    assert locate(root, ("b", 1)) == (4, 5)
    assert locate(root, ("b", 0, "none", "e")) == (3, 5)
    assert locate(root, ("b", "c")) == (3, 3)
    assert locate(None, ("a",)) == (1, 1)
