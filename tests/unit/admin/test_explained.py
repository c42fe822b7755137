from sidecar.admin.explained import MAX_ADDRESSES, explanation_table

STEPS = [
    {"router": "match", "in": 100, "out": 6, "reason": "matched", "excluded": []},
    {
        "router": "nearby", "in": 6, "out": 2, "reason": "nearby",
        "excluded": [{"instance": f"h:{n}", "reason": "in bj-b"} for n in range(3, 7)],
    },
]  # fmt: skip


def explanation(**words):
    base = {
        "service": "a.B",
        "protocol": "dubbo",
        "epoch": 7,
        "steps": STEPS,
        "eligible": [],
        "picked_by": "",
        "reason": "",
    }
    return base | words


def test_a_table():
    text = explanation_table(explanation(eligible=["h:1", "h:2"], picked_by="random"))
    assert text.splitlines() == [
        "a.B (dubbo), snapshot 7",
        "router   in  out  reason",
        "match   100    6  matched",
        "nearby    6    2  nearby",
        "eligible 2: h:1, h:2",
        "picked by random",
    ]


def test_nothing_eligible():
    text = explanation_table(explanation(steps=[], reason="EMPTY_REGISTRY"))
    assert text.splitlines() == [
        "a.B (dubbo), snapshot 7",
        "router  in  out  reason",
        "eligible 0",
        "reason   EMPTY_REGISTRY",
    ]


def test_many_addresses_and_an_answer_that_is_still_awaited():
    many = [f"h:{n}" for n in range(MAX_ADDRESSES + 3)]
    assert explanation_table(explanation(eligible=many)).endswith(
        f"h:{MAX_ADDRESSES - 1} and 3 more"
    )


def test_what_a_step_left_out():
    lines = explanation_table(explanation(eligible=["h:1", "h:2"]), 2).splitlines()
    assert lines[3:6] == [
        "nearby    6    2  nearby",
        "    not h:3: in bj-b",
        "    not h:4: in bj-b",
    ]
    assert lines[6].startswith("eligible 2")
