import pytest

from batchstat import OptionError
from batchstat.parameters import with_parameter
from batchstat.planning.strategies.spec import StrategySpec
from tables import in_turn

SETTINGS = {"tokens_per_batch": 64, "batch_size": 4, "max_length": 40, "read_ahead": 10}


def test_a_parameter_comes_from_the_text_then_the_settings_then_the_default():
    made = StrategySpec.parse("token-budget:read_ahead=3,shuffle_batches=false").strategy(SETTINGS)
    assert (made.tokens_per_batch, made.read_ahead, made.shuffle_batches) == (64, 3, False)
    assert made.max_samples is None


@in_turn(
    ("spec", "message"),
    [
        ("static-budget", "unknown strategy 'static-budget'"),
        ("tokenbudget", "did you mean 'token-budget'?"),
        ("token-budget:read-ahead=5", "did you mean 'read_ahead'?"),
        ("token-budget:read_ahead", "write key=value"),
        ("token-budget:read_ahead=2,read_ahead=3", "given twice"),
        ("token-budget:read_ahead=0", "read_ahead=0: must be between 1 and 2,147,483,647"),
        ("token-budget:read_ahead=-1", "must be between 1"),
        ("token-budget:read_ahead=2.5", "must be a whole number"),
        ("token-budget:read_ahead=", "must be a whole number"),
        (f"token-budget:read_ahead={'9' * 5000}", "must be a whole number"),
        ("token-budget:read_ahead=99999999999", "must be between"),
        ("token-budget:shuffle_batches=yes", "must be true or false"),
        ("static:batch_size=1,2", "batch_size='1,2': must be a whole number"),
        ("", "unknown strategy ''"),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(spec, message):
    with pytest.raises(OptionError) as raised:
        StrategySpec.parse(spec).strategy(SETTINGS)
    assert message in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_parameter_is_set_or_replaced():
    assert with_parameter("token-budget", "read_ahead", 5) == "token-budget:read_ahead=5"
    spec = "token-budget:read_ahead=3,shuffle_batches=false"
    assert (
        with_parameter(spec, "read_ahead", 5) == "token-budget:shuffle_batches=false,read_ahead=5"
    )


def test_a_parameter_given_nowhere_is_named():
    with pytest.raises(OptionError, match="needs batch_size"):
        StrategySpec.parse("static").strategy({})
