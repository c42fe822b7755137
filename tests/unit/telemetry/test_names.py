import re

from sidecar.telemetry import names


def test_names_follow_the_conventions():
    assert len(names.BY_NAME) == len(names.METRICS)
    for metric in names.METRICS:
        assert re.fullmatch(r"sidecar_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == names.COUNTER)
        assert metric.kind != names.HISTOGRAM or metric.name.endswith("_seconds")
        assert metric.help.endswith(".")
        assert "\n" not in metric.help
        assert len(set(metric.labels)) == len(metric.labels)


def test_every_constant_is_in_the_table():
    constants = [value for value in vars(names).values() if isinstance(value, names.Metric)]
    assert set(constants) == set(names.METRICS)


def test_counted_names_are_found_with_and_without_the_frame():
    assert names.counted("oversize") is names.OVERSIZE
    assert names.counted(names.OVERSIZE.name) is names.OVERSIZE
