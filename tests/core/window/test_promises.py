"""What a window promises, and by which tests each promise is held."""

import re
from pathlib import Path

import pytest
from core.promised import CONTRACTS, CORE, guarantees, names_of_tests

PAGE = guarantees("Context window")
HERE = Path(__file__).parent
ADAPTERS = HERE.parents[1] / "adapters"
FILES = [
    *HERE.glob("test_*.py"),
    *ADAPTERS.glob("*/test_*window*.py"),
]

PROMISES = {
    "whatever a history is like, the window keeps to its budget and to its provider's rules": [
        "a_window_keeps_to_its_budget_and_its_providers_rules",
        "a_line_of_a_million_signs_and_scripts_of_all_kinds_are_shown_or_left_out_whole",
    ],
    "each rule of a provider has a name, and frameworks take the windows without loss": [
        "a_broken_rule_has_a_name",
        "what_a_provider_takes_breaks_no_rule",
        "calls_keep_their_results_and_a_message_its_whole_form",
        "calls_and_results_come_back_as_they_were_put",
        "calls_and_results_of_one_answer_are_shown_as_they_are",
        "calls_keep_their_results_and_messages_are_those_of_the_memory",
    ],
    "an open call is kept with its group, or the budget is refused": [
        "what_waits_for_results_is_kept_at_the_end",
    ],
    "parallel calls that are partly answered stay whole": [
        "what_waits_for_results_is_kept_at_the_end",
        "groups_put_a_history_in_order_without_losing_a_message",
    ],
    "the same call gives the same bytes, in two processes too": [
        "two_assemblies_are_the_same_to_the_byte",
        "another_process_makes_the_same_window_to_the_byte",
    ],
    "one more turn leaves all before the tail as it was": [
        "one_more_turn_changes_nothing_before_it",
    ],
    "of 500 turns 95 of 100 tokens stay, with two breaks in 100 turns, and a summary a step": [
        "a_session_of_500_turns_keeps_its_cached_prefix",
    ],
    "who assembles again asks no summariser": ["a_session_of_500_turns_keeps_its_cached_prefix"],
    "whatever a summariser does, the window is valid and says so": [
        "whatever_a_summariser_does_the_window_is_valid_and_says_so",
        "a_summariser_that_fails_changes_nothing_and_is_told_of",
        "a_summariser_that_no_cancellation_ends_is_not_waited_for",
    ],
    "a job makes one summary a step, and one that fails leaves a valid window that says so": [
        "there_is_one_job_a_step_each_of_the_summary_before_and_of_what_was_said_since",
        "a_job_and_a_callable_make_the_same_record",
        "a_job_that_fails_leaves_a_valid_window_with_the_last_summary_that_says_so",
    ],
    "pins survive every strategy in both orders": [
        "pins_and_instructions_survive_every_strategy_in_both_orders",
        "a_pinned_record_stays_when_the_history_has_left_it_behind",
    ],
    "no group is lost silently, by two strategies in a row either": ["no_group_is_lost_silently"],
    "a result that is cut short is found again, whole": [
        "a_long_old_result_becomes_a_stub_by_which_it_is_found_again",
    ],
    "the report adds up to the tokens": ["a_window_keeps_to_its_budget_and_its_providers_rules"],
    "what answers a question is in the window": ["the_evidence_of_most_questions_is_in_the_window"],
    "scripts, signs, long lines and many tiny turns are taken as they are": [
        "a_line_of_a_million_signs_and_scripts_of_all_kinds_are_shown_or_left_out_whole",
        "of_many_tiny_turns_as_few_are_read_as_of_a_few",
    ],
    "nothing of others enters, nor what is expired, retired, superseded or not yet true": [
        "another_users_memory_and_what_is_expired_or_retired_never_enter",
        "facts_of_the_user_are_told_as_they_are_now_or_were_then",
        "a_window_of_an_earlier_version_shows_what_was_there",
    ],
    "a memory that gives orders stays in its quotation, and is never the system's": [
        "a_memory_that_gives_orders_stays_inside_its_quotation",
        "a_summary_cannot_end_its_quotation",
    ],
    "a mark stands for a record, invented ones are told, and erased ones, too": [
        "recall_proves_what_the_last_turns_do_not_hold",
        "an_answer_that_cites_what_was_erased_since_is_told_so",
    ],
    "recall repeats nothing that the history shows": [
        "recall_repeats_nothing_that_the_history_shows",
        "a_fact_of_a_turn_that_the_history_shows_is_not_repeated",
    ],
    "no session fills the block, nor do hits that say the same": [
        "a_chatty_session_does_not_fill_the_block",
        "hits_that_say_the_same_can_be_left_out",
    ],
    "the estimate is near, and a report of usage sets it right": [
        "the_estimate_is_within_15_percent",
        "the_estimate_is_not_far_below_where_words_have_no_spaces",
        "what_a_model_reports_makes_the_estimate_right",
    ],
    "what is erased is in no summary and in no window that was kept": [
        "a_summary_is_kept_with_its_sources_and_erased_with_them",
        "what_is_erased_is_in_no_summary_that_a_job_makes",
        "what_is_erased_or_expires_is_gone_and_named",
        "a_window_goes_with_its_session",
    ],
    "another provider in mid-session is not sent what is bound to the first": [
        "another_providers_reasoning_is_left_out_and_ones_own_goes_back",
    ],
    "the frameworks show the same window": [
        "the_window_has_the_ids_that_the_store_would_choose",
        "the_window_is_the_one_that_the_store_makes",
        "the_model_is_shown_a_window_and_the_context_stays_whole",
        "the_model_is_shown_a_window_and_the_memory_stays_whole",
    ],
    "what is recalled changes no byte of the cached prefix": [
        "what_is_recalled_changes_no_byte_before_the_tail",
    ],
    "assembling writes nothing": ["assembling_writes_nothing"],
    "a budget below what must be in it is an error that names the minimum": [
        "a_budget_below_what_must_be_in_it_names_the_minimum",
        "below_the_newest_turn_the_minimum_is_named_and_is_enough",
        "a_giant_newest_turn_is_an_error_and_not_a_broken_window",
    ],
    "both faces do the same": [
        "both_faces_make_the_same_window",
        "both_faces_show_the_same_window",
    ],
}


@pytest.fixture(scope="module")
def held():
    """The names of the tests of windows, in the core and in the adapters."""
    return {
        name
        for path in FILES
        for name in re.findall(r"^(?:async )?def test_(\w+)", path.read_text("utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_is_held_by_tests(held, promise):
    assert set(PROMISES[promise]) <= held


def test_each_test_that_the_page_of_evidence_names_is_there():
    named = re.findall(r"\btest_(\w+)\b(?!\.py)", PAGE)
    assert len(named) > len(PROMISES)
    assert set(named) <= names_of_tests(CONTRACTS, CORE, ADAPTERS)
