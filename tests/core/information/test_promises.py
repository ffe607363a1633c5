"""What a store promises as an information layer, and by which tests each promise is held."""

import pytest
from core.promised import CONTRACTS, CORE, names_of_tests

ROOMS = (
    *("information", "knowledge", "jobs", "documents", "search", "stores", "maintenance"),
    *("versioning", "graph", "sync", "conformance", "storage"),
)

PROMISES = {
    # What there is
    "tables of fixed names stand over whatever is stored": [
        "a_table_has_the_columns_and_types_that_it_is_described_with",
        "a_store_that_holds_nothing_has_all_of_them_empty",
        "a_table_has_the_columns_that_were_promised_of_it_and_times_in_utc",
    ],
    "there are three families, of agents, of documents, and of themselves": [
        "each_family_has_its_tables",
    ],
    "what was said, text or bytes, is never rewritten, and reached from what is made of it": [
        "turns_are_never_rewritten",
        "bytes_are_kept_as_they_are_and_texts_among_them_are_read",
        "a_fact_names_the_turn_and_the_place_that_it_was_made_of",
    ],
    "chunks are made of it in the write or by a job": [
        "a_long_text_is_cut_into_chunks_that_are_parts_of_it",
        "left_for_later_it_waits_for_whoever_runs_the_jobs",
    ],
    "texts and vectors are joined by the chunk's id": [
        "the_layers_of_a_turn_are_joined_by_their_ids",
    ],
    "sessions have summaries": ["a_session_has_one_summary_made_of_its_own_sentences"],
    "a search goes from summaries to facts to the turns that prove them": [
        "facts_come_before_chunks_whatever_answers_better",
        "what_is_known_of_a_turn_takes_its_place_and_that_of_no_other",
        "each_layer_can_be_searched_alone",
        "every_fact_of_a_conversation_ends_in_turns_that_still_say_so",
    ],
    "documents are a family of their own": [
        "documents_are_a_family_of_their_own",
        "a_search_finds_what_is_for_its_scope_or_for_everybody",
    ],
    "calls of tools have a name, parameters, a result and a state": [
        "a_call_of_a_tool_has_its_result_or_waits_for_it",
        "a_trace_has_the_calls_of_tools_among_the_turns",
    ],
    "relations have two ends and a kind": [
        "the_relations_of_the_graph_are_among_those_of_agents",
        "a_relation_is_read_as_it_was_added",
    ],
    "a table that there is not is named": ["what_is_not_there_is_named"],
    # How it is kept
    "a time is a moment in UTC": ["a_message_of_any_time_comes_back_equal"],
    "texts and vectors are indexed": [
        "a_bulk_load_is_indexed_for_words_vectors_and_look_ups",
        "words_are_indexed_from_the_first_record_on",
    ],
    "an agent's part is read by that agent alone": ["a_scope_reads_its_own_rows_alone"],
    "earlier states can be read and gone back to": [
        "a_search_of_an_earlier_version_finds_what_was_there",
        "a_restored_store_can_be_written_and_searched",
    ],
    "writers at the same time lose nothing": [
        "appends_at_the_same_time_lose_nothing_and_keep_batches_together",
    ],
    "upkeep and jobs keep quiet hours": [
        "in_quiet_hours_nothing_is_done_by_itself",
        "nothing_runs_in_quiet_hours",
    ],
    # The six verbs
    "add keeps what was said and names the job": [
        "a_turn_and_its_job_are_written_together",
        "many_turns_of_one_call_are_several_jobs_that_all_run",
    ],
    "search asks words and vectors, within a filter": [
        "a_hybrid_search_finds_what_either_channel_finds",
        "a_filtered_search_returns_k_when_k_rows_match",
    ],
    "explain shows what a thing is from, and what took its place": [
        "an_explanation_shows_what_took_the_place_of_what_and_who_did_it",
    ],
    "what is asked for and is not there is not found": ["unknown_things_are_not_found"],
    "prune hides what its policy means, and can say so before": [
        "pruning_hides_old_facts_of_little_importance_and_no_others",
        "a_dry_run_of_pruning_finds_what_pruning_then_hides",
    ],
    "archive hides a session, and brings it back": [
        "an_archived_session_leaves_all_reads_but_its_trace_and_comes_back_whole",
    ],
    # What is made of it
    "what is new is distilled, and only that": [
        "all_that_no_job_is_about_is_scheduled_and_shared_by_whoever_runs_it",
        "nothing_new_is_an_empty_proposal_without_a_branch",
    ],
    "episodes and profiles are made of what is known": [
        "an_episode_has_the_sessions_of_one_stretch_and_what_is_known_by_it",
        "a_field_is_the_newest_value_in_its_type_with_the_turns_that_say_so",
    ],
    "what is promoted is there as a whole, and can be taken back": [
        "whoever_dies_in_a_job_leaves_all_of_it_or_nothing",
        "a_merged_distillation_can_be_undone_as_a_whole",
    ],
    "what a fact is worth is scored, and says what is to become of it": [
        "a_fact_is_worth_the_mean_of_how_often_where_when_and_how_weightily_it_was_said",
        "what_is_old_and_slight_is_to_be_pruned_what_scores_high_promoted_the_rest_retained",
    ],
    "another engine may stand behind the same names": [
        "only_the_room_of_the_engine_imports_a_database",
        "words_may_be_found_by_another_engine_with_nothing_else_changed",
    ],
    "what a model costs is bounded": [
        "a_model_is_called_once_for_a_batch_and_never_by_a_search",
        "a_run_stops_where_its_budget_of_calls_ends_and_the_rest_stays_scheduled",
    ],
}


@pytest.fixture(scope="module")
def held():
    """The names of the tests of all that it is made of."""
    return names_of_tests(CONTRACTS, *(CORE / room for room in ROOMS))


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_is_held_by_tests(held, promise):
    assert set(PROMISES[promise]) <= held
