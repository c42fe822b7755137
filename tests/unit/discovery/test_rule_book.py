from __future__ import annotations

import pytest

from sidecar.discovery.rule_book import RuleBook, service_rule_names
from sidecar.discovery.slot import RULE, Slot, Watch, WatchQueue
from sidecar.model.service import ServiceKey

GOOD = "{tags: [{name: gray, addresses: ['192.0.2.11']}]}"
OTHER = "{tags: [{name: blue, addresses: ['192.0.2.11']}]}"
BAD = "{tags: ["
NAME = "cart-app.tag-router"
NOW = 1000


@pytest.fixture
def queue():
    return WatchQueue()


@pytest.fixture
def book(queue):
    book = RuleBook(["main", "spare"], 1000, queue)
    book.acquire(NAME, "demo.Cart")
    return book


def tags(rule):
    return set() if rule is None else set(rule.names)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (
            ServiceKey("a.B"),
            ["a.B::.tag-router", "a.B:0.0.0:.tag-router", "a.B.tag-router"],
        ),
        (ServiceKey("a.B", "1.0"), ["a.B:1.0:.tag-router", "a.B.tag-router"]),
        (
            ServiceKey("a.B", "", "g"),
            ["a.B::g.tag-router", "a.B:0.0.0:g.tag-router", "a.B.tag-router"],
        ),
    ],
)
def test_service_rule_names(key, names):
    assert service_rule_names(key) == names


def test_a_node_is_watched_while_somebody_needs_it(book, queue):
    slot = Slot(RULE, NAME)
    assert queue.take() == [Watch(slot, True)]
    book.acquire(NAME, "demo.Cart")
    book.acquire(NAME, "demo.Pay")
    assert set(book.users(NAME)) == {"demo.Cart", "demo.Pay"}
    book.release(NAME, "demo.Cart")
    book.release(NAME, "demo.Pay")
    assert book.users(NAME) == ["demo.Cart"]
    assert queue.take() == []
    book.release(NAME, "demo.Cart")
    assert queue.take() == [Watch(slot, False)]
    assert len(book) == 0
    assert book.users(NAME) == []


def test_a_node_given_up_and_wanted_again_is_read_anew(book, queue):
    queue.take()
    book.offer("main", NAME, GOOD, 1, NOW)
    book.release(NAME, "demo.Cart")
    book.acquire(NAME, "demo.Cart")
    assert [watch.is_wanted for watch in queue.take()] == [False, True]
    assert book.rule_of_application("cart-app") is None


def test_first_answers_matter_even_without_a_rule(book):
    assert not book.is_settled(NAME, "main")
    assert book.offer("main", NAME, "", 0, NOW)
    assert book.is_settled(NAME, "main")
    assert not book.is_settled(NAME, "spare")
    assert not book.offer("main", NAME, "", 0, NOW)


def test_a_rule_comes_changes_and_goes(book):
    assert book.offer("main", NAME, GOOD, 1, NOW)
    assert tags(book.rule_of_application("cart-app")) == {"gray"}
    assert not book.offer("main", NAME, GOOD, 1, NOW)
    assert book.offer("main", NAME, OTHER, 2, NOW)
    assert tags(book.rule_of_application("cart-app")) == {"blue"}
    assert book.offer("main", NAME, "", 0, NOW)
    assert book.rule_of_application("cart-app") is None


def test_the_last_good_rule_stays(book):
    book.offer("main", NAME, GOOD, 1, NOW)
    assert not book.offer("main", NAME, BAD, 2, NOW)
    assert book.invalid == 1
    assert book.error(NAME)
    assert tags(book.rule_of_application("cart-app")) == {"gray"}
    assert not book.offer("main", NAME, BAD, 2, NOW)
    assert book.invalid == 1
    book.offer("main", NAME, OTHER, 3, NOW)
    assert book.error(NAME) == ""
    assert tags(book.rule_of_application("cart-app")) == {"blue"}


def test_text_beyond_the_cap_and_bytes_that_are_no_text_are_no_rules(book):
    book.offer("main", NAME, GOOD, 1, NOW)
    book.offer("main", NAME, GOOD + " " * 1000, 2, NOW)
    book.offer("main", NAME, b"{tags: [\xff]}".decode("utf-8", "surrogateescape"), 3, NOW)
    assert book.invalid == 2
    assert tags(book.rule_of_application("cart-app")) == {"gray"}


def test_the_registry_named_first_wins_once_it_has_a_rule(book):
    book.offer("spare", NAME, OTHER, 5, NOW)
    assert tags(book.rule_of_application("cart-app")) == {"blue"}
    book.offer("main", NAME, GOOD, 5, NOW)
    assert tags(book.rule_of_application("cart-app")) == {"gray"}
    assert not book.offer("spare", NAME, "", 0, NOW)
    assert tags(book.rule_of_application("cart-app")) == {"gray"}
    book.offer("spare", NAME, OTHER, 6, NOW)
    book.offer("main", NAME, "", 0, NOW)
    assert tags(book.rule_of_application("cart-app")) == {"blue"}


def test_a_refusal_settles_and_says_so_once(book):
    assert book.fail("main", NAME)
    assert not book.fail("main", NAME)
    assert book.is_settled(NAME, "main")
    book.offer("main", NAME, GOOD, 1, NOW)
    assert not book.fail("main", NAME)
    assert tags(book.rule_of_application("cart-app")) == {"gray"}


def test_unknown_nodes_are_nobodys_business(book):
    assert not book.offer("main", "x.tag-router", GOOD, 1, NOW)
    assert not book.fail("main", "x.tag-router")
    assert book.error("x.tag-router") == ""
    assert book.rule_of_application("x") is None


def test_the_first_service_rule_that_exists_counts(book):
    key = ServiceKey("a.B", "", "g")
    exact, kept, bare = service_rule_names(key)
    for name in (exact, kept, bare):
        book.acquire(name, "a.B")
        book.offer("main", name, "", 0, NOW)
    assert book.rule_of_service(key) is None
    book.offer("main", bare, GOOD, 1, NOW)
    assert tags(book.rule_of_service(key)) == {"gray"}
    assert book.offer("main", exact, BAD, 2, NOW)
    assert book.rule_of_service(key) is None
    book.offer("main", exact, "", 0, NOW)
    book.offer("main", kept, OTHER, 3, NOW)
    assert tags(book.rule_of_service(key)) == {"blue"}


def test_views_show_the_nodes_that_exist(book):
    book.acquire("none.tag-router", "demo.Cart")
    book.offer("spare", NAME, GOOD, 5, NOW)
    (view,) = book.views(NOW + 2000)
    assert view["key"] == "cart-app"
    assert view["registry"] == "spare"
    assert view["age_s"] == 2.0
