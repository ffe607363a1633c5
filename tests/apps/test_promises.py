"""What people who look at a store are promised, and by which tests each promise is held."""

import pytest
from core.promised import CORE, names_of_tests

PLACES = (
    CORE.parent / "apps",
    CORE / "test_replay.py",
    *(CORE / package for package in ("audit", "sql_views", "transfer", "verify")),
)

PROMISES = {
    # The command line
    "looking writes nothing, and a place without a store is not made": [
        "looking_changes_nothing",
        "a_place_without_a_store_is_not_found_and_not_made",
        "a_store_has_to_be_named",
    ],
    "who reads no further is left in peace": ["who_reads_no_further_is_not_told_of_a_broken_pipe"],
    "colours are for terminals, and can be declined": [
        "on_a_terminal_there_are_headings_and_colours_unless_they_are_declined",
    ],
    "what goes out comes in equal": [
        "a_store_that_is_imported_is_the_one_that_was_exported",
        "conversations_of_frameworks_come_back_as_they_were",
        "a_store_goes_out_and_comes_into_another_place",
    ],
    "every command speaks to programs, too, and is documented": [
        "programs_are_given_json",
        "a_command_prints_what_the_page_says",
        "the_page_has_every_command",
    ],
    "what was remembered does not drive the terminal": [
        "what_was_remembered_does_not_drive_the_terminal",
        "a_hostile_text_is_shown",
    ],
    "what a dry run says then happens": [
        "a_merge_is_what_its_dry_run_said",
        "what_is_forgotten_is_hidden_and_what_is_erased_is_in_no_version",
    ],
    "what is outside of a scope is not found": ["a_scope_is_a_wall"],
    "what is not installed is said in one line": [
        "what_is_not_installed_is_said_in_one_line_with_the_way_out",
    ],
    "what should be done is told, what the store answers is measured, and shells complete": [
        "what_is_due_is_told_with_the_command_that_does_it",
        "what_the_store_answers_is_measured_and_nothing_is_written",
        "why_something_is_found_and_why_not",
        "commands_are_completed",
        "a_list_is_printed_for_a_spreadsheet",
    ],
    # SQL
    "a query finds what it finds in a copy, now, at a tag and on a branch": [
        "a_query_finds_what_it_finds_in_a_full_copy",
        "a_query_of_a_moment_finds_what_it_finds_in_a_copy_of_then",
    ],
    "what another wrote is found at once, and what is hidden never": [
        "what_another_writes_is_found_at_once_and_what_is_hidden_never",
    ],
    "what does more than read the store is refused": [
        "what_does_more_than_read_the_store_is_refused",
    ],
    "an endless query ends": ["an_endless_query_ends_at_its_time_and_the_next_one_works"],
    "no query leads out of a scope": ["a_scope_sees_nobody_elses_by_any_query"],
    "only what is asked for is read": [
        "conditions_and_columns_reach_the_engine",
        "vectors_and_blobs_are_not_read_unless_they_are_named",
    ],
    # The pages
    "everybody can use every page, in both themes, on a small screen, without a script": [
        "everybody_can_read_and_use_every_page",
        "a_person_gets_everywhere_without_a_mouse",
        "pages_work_without_their_script",
        "every_page_that_is_linked_is_there_and_looking_changes_nothing",
        "an_empty_store_has_pages",
    ],
    "hostile texts do nothing": [
        "a_store_full_of_hostile_texts_does_nothing",
        "a_store_full_of_hostile_texts_is_shown_as_texts",
        "nothing_of_a_page_needs_what_its_policy_forbids",
    ],
    "who may not look is refused, by name, port, origin, cookie and token": [
        "another_name_of_this_machine_is_refused",
        "what_another_page_asks_for_is_refused",
        "no_page_is_shown_without_the_cookie",
        "the_link_works_once_and_the_next_one_is_told",
        "a_second_browser_and_a_name_that_leads_here_are_refused",
    ],
    "a form comes from this page": [
        "a_form_has_to_come_from_this_page",
        "a_form_needs_the_token_of_this_page",
    ],
    "read-only pages take no form and write nothing": [
        "looking_never_writes_and_read_only_pages_take_no_form",
        "forms_are_there_only_where_they_may_write",
    ],
    "a page of a moment is that of the store then": [
        "at_a_moment_a_page_is_that_of_the_store_then",
        "a_branch_is_looked_at_as_it_is",
        "a_link_to_a_moment_shows_the_same_later",
    ],
    "what was erased is on no page": ["what_was_erased_is_on_no_page"],
    "pages are shown while others write, and who writes is not troubled by their end": [
        "two_browsers_see_what_is_written_meanwhile",
        "a_page_that_is_killed_leaves_those_who_write_alone",
    ],
    "without a browser there is the link": [
        "without_a_browser_the_link_is_told_and_an_interrupt_ends_it",
    ],
    "a copy is whole where it is, with its branches, and may be on an object store": [
        "a_copy_has_all_branches_and_needs_nothing_of_the_place_it_was_copied_from",
        "copies_go_to_an_object_store_and_back",
    ],
    "a difference and a merge on a page are those of the store": [
        "a_difference_is_that_of_the_store",
        "a_merge_on_the_page_is_that_of_the_store",
    ],
    "what an erasure takes is told before": ["an_erasure_is_told_as_the_store_would_do_it"],
    "the pictures of the docs are made by the tests": ["the_pictures_of_the_docs_are_taken"],
    "a port that is taken gives way to the next": ["a_port_that_is_taken_gives_way_to_the_next"],
    # What was done, and what is whole
    "the chain of what was done shows a gap, a change, and an end that was cut off": [
        "an_entry_that_is_missing_shows",
        "an_entry_that_was_changed_shows",
        "rows_that_were_changed_show",
        "entries_that_were_cut_off_show_to_who_kept_the_head",
    ],
    "it is kept through thinning, and has nothing of what was erased": [
        "it_is_kept_through_thinning",
        "an_erasure_leaves_no_id_of_it_and_the_chain_whole",
    ],
    "what is damaged is named": [
        "a_data_file_that_is_not_as_it_was_is_named",
        "a_journal_that_is_damaged_is_named",
        "a_whole_store_is_told_to_be_and_a_damaged_file_is_named",
    ],
    "a question is asked again in another way, as it was then": [
        "a_question_is_asked_again_in_another_way",
        "an_earlier_moment_is_searched_as_it_was",
        "another_embedder_searches_vectors_of_its_own_and_nothing_is_written",
    ],
}


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_is_held_by_tests_that_exist(promise):
    assert set(PROMISES[promise]) <= names_of_tests(*PLACES)
