from sidecar.model import errors


def test_every_error_of_ours_has_one_root():
    for value in vars(errors).values():
        if isinstance(value, type) and value.__module__ == errors.__name__:
            assert issubclass(value, errors.SidecarError)


def test_a_config_error_keeps_its_problems():
    error = errors.ConfigError(["f:1:1: a", "f:2:1: b"])
    assert str(error) == "f:1:1: a\nf:2:1: b"
    assert error.problems == ["f:1:1: a", "f:2:1: b"]
