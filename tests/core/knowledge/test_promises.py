"""What a memory that manages itself promises, and by which tests each promise is held."""

import re

import pytest
from core.promised import CONTRACTS, CORE, guarantees, names_of_tests

PAGE = guarantees("Knowledge and tiers")

PROMISES = {
    "the same turns added again, by whom and when ever, are one job": [
        "the_same_turns_added_again_are_the_same_turns_and_one_job",
        "the_same_turns_are_one_job_in_another_process_too",
        "turns_told_again_after_their_worker_died_are_one_job_and_asked_about_once",
        "the_same_turns_added_again_ask_no_model",
    ],
    "while a model is down turns are stored, and become the same facts later": [
        "while_the_model_is_away_the_turns_are_kept_and_the_job_waits",
    ],
    "an answer that cannot be used is a failure with a reason, and no facts is none": [
        "an_answer_of_another_shape_fails_the_job_and_leaves_no_fact",
        "no_facts_is_a_success_unlike_a_failure",
        "a_failed_job_can_be_tried_again",
        "where_no_answer_is_any_good_the_job_says_why_and_is_due_again",
    ],
    "evidence that is not there is rejected and counted": [
        "a_candidate_without_evidence_is_rejected_and_counted",
        "one_wrong_fact_is_refused_and_the_others_kept",
    ],
    "every explanation ends in turns, and says so once these say something else": [
        "every_fact_of_a_conversation_ends_in_turns_that_still_say_so",
        "once_a_turn_says_something_else_what_it_said_is_known_no_more",
    ],
    "the system, tools and what was recalled state nothing": [
        "the_system_tools_and_what_was_recalled_state_no_facts",
    ],
    "all of it works without a model": [
        "it_remembers_finds_and_takes_back_in_five_lines",
        "what_is_said_again_is_one_fact_with_the_evidence_of_both",
        "pruning_hides_old_facts_of_little_importance_and_no_others",
        "a_session_has_one_summary_made_of_its_own_sentences",
        "a_field_is_the_newest_value_in_its_type_with_the_turns_that_say_so",
        "a_fact_is_worth_the_mean_of_how_often_where_when_and_how_weightily_it_was_said",
    ],
    "killed at any write, facts and jobs agree": [
        "whoever_dies_in_a_job_leaves_all_of_it_or_nothing",
        "facts_and_jobs_agree_and_nothing_is_doubled",
    ],
    "what was said later is current, and what was true then is found by its time": [
        "what_was_said_later_is_current_and_the_earlier_was_true_then",
    ],
    "an older statement that arrives later changes nothing": [
        "an_older_statement_that_arrives_later_does_not_take_the_newer_ones_place",
    ],
    "where no date decides both stay and the conflict is listed": [
        "of_the_same_moment_in_two_sessions_both_stay_and_the_conflict_is_listed",
    ],
    "what a model deletes is superseded, and an undo brings it back": [
        "what_takes_the_place_of_another_supersedes_it_and_an_undo_brings_it_back",
        "a_deletion_supersedes_and_is_counted",
    ],
    "a decision about what is not there, or is another's, is refused": [
        "a_decision_that_cannot_be_done_is_refused_and_the_fact_added",
        "a_decision_about_another_users_fact_is_refused_and_that_fact_stays",
        "two_facts_that_touch_one_known_fact_touch_it_once",
    ],
    "who takes back or erases what superseded a fact revives it": [
        "undo_removes_what_a_job_did_and_revives_what_it_superseded",
        "what_the_erased_turn_had_superseded_is_current_again",
    ],
    "no job changes what a person has taken up": [
        "what_a_person_has_taken_up_is_not_changed_by_a_job_and_the_conflict_is_reported",
        "what_a_person_has_pinned_stays_and_is_contradicted",
    ],
    "of many workers one does a job, and a late write is fenced off": [
        "of_many_workers_at_once_one_does_the_job",
        "the_late_write_of_a_worker_that_lost_its_job_is_fenced_off",
    ],
    "facts of one user never reach a model with another's": [
        "facts_of_one_user_never_reach_the_model_with_anothers",
        "facts_of_one_user_never_reach_a_question_about_another",
    ],
    "a proposal leaves the store as it is, and discarded leaves no branch": [
        "a_proposal_leaves_the_store_as_it_is_until_it_is_merged",
        "a_discarded_proposal_leaves_no_branch_and_may_be_made_again",
    ],
    "a merge keeps what was written and corrected meanwhile": [
        "what_was_written_meanwhile_stays_and_what_a_person_corrected_too",
        "a_policy_of_ones_own_may_decide_otherwise",
    ],
    "merging twice is merging once": ["merging_twice_is_merging_once"],
    "an undo takes back one job alone, after many later writes too": [
        "undo_after_many_later_writes_takes_back_exactly_the_jobs_part",
        "what_a_person_has_corrected_since_is_a_conflict_and_stays",
    ],
    "an undo of an undo restores": ["undoing_an_undo_brings_all_of_it_back"],
    "a replay by the same producer is empty and asks nobody; another's is its difference": [
        "the_same_producer_proposes_nothing_and_asks_no_model",
        "another_models_words_are_the_difference_and_are_merged",
    ],
    "an erased turn goes with all that nothing else supports, from every file": [
        "what_only_the_erased_turn_supports_goes_and_all_else_stays",
        "a_fact_that_other_turns_state_stays_in_their_words",
        "the_words_of_a_model_go_with_the_turn_that_they_were_for",
        "a_proposal_that_saw_it_is_dropped_with_its_branch",
        "a_job_that_waits_reads_what_is_left",
        "no_byte_of_it_is_left_in_any_file",
    ],
    "decay changes the order of what is found, and never what is found": [
        "decay_changes_the_order_and_never_what_is_found",
    ],
    "what is found is ranked before its access is counted, in one commit an interval": [
        "ranking_comes_before_counting",
        "all_accesses_of_an_interval_are_one_commit",
        "accesses_of_several_handles_are_all_counted",
    ],
    "a dry run of pruning tells what pruning does": [
        "a_dry_run_of_pruning_finds_what_pruning_then_hides",
    ],
    "an archived session leaves the search, keeps its trace, and comes back": [
        "an_archived_session_leaves_all_reads_but_its_trace_and_comes_back_whole",
        "the_rows_of_an_archived_session_leave_the_table_that_is_searched",
        "it_comes_back_in_order_with_its_vectors_ids_and_external_ids",
        "killed_while_it_is_put_away_it_is_there_once_and_the_next_does_it",
        "killed_while_it_comes_back_it_is_there_once_and_the_next_does_it",
    ],
    "a field of a profile is the newest valid value with its evidence, whatever the schema was": [
        "a_field_is_the_newest_value_in_its_type_with_the_turns_that_say_so",
        "a_schema_that_changes_keeps_the_old_fields_readable",
    ],
    "a failed job waits by the clock, is listed, and can be tried again": [
        "each_failure_waits_longer_and_the_fifth_is_the_last",
        "a_failed_job_can_be_tried_again",
        "all_that_no_job_is_about_is_scheduled_and_shared_by_whoever_runs_it",
    ],
    "a budget ends a run, and the rest stays scheduled": [
        "a_run_stops_where_its_budget_of_calls_ends_and_the_rest_stays_scheduled",
        "a_budget_of_tokens_is_held_before_the_model_is_asked",
    ],
    "what a model must not say is refused": [
        "what_a_model_must_not_say_is_refused_and_the_sentence_kept",
    ],
    "a stored instruction is data with a source": [
        "a_stored_instruction_is_data_with_a_source",
        "what_was_said_reaches_the_model_as_quoted_data_and_the_request_is_the_recorded_one",
    ],
    "every read works on a branch and at a version": [
        "every_read_works_on_a_branch_and_at_a_version",
    ],
    "a model is asked once for a batch, once for a neighbourhood, and by no search": [
        "a_model_is_called_once_for_a_batch_and_never_by_a_search",
        "a_model_is_asked_once_for_a_batch_of_turns_and_never_by_a_search",
        "a_model_is_asked_once_for_a_neighbourhood_and_not_where_nothing_is_near",
    ],
}


@pytest.fixture(scope="module")
def held():
    """The names of the tests of the knowledge, of its jobs, and of the tiers."""
    return names_of_tests(*(CORE / name for name in ("knowledge", "jobs", "tiers")))


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_is_held_by_tests(held, promise):
    assert set(PROMISES[promise]) <= held


def test_each_test_that_the_page_of_evidence_names_is_there():
    named = re.findall(r"`test_(\w+)`", PAGE)
    assert len(named) > len(PROMISES)
    assert set(named) <= names_of_tests(CONTRACTS, CORE, CORE.parent / "packages")
