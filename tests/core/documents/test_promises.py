"""What whoever keeps files, pictures and a graph is promised, and by which tests each promise is held."""

import re

import pytest
from core.promised import CONTRACTS, CORE, guarantees, names_of_tests

PAGE = guarantees("Documents, media and graph")
ROOMS = ("documents", "media", "blobs", "graph")

PROMISES = {
    # Documents
    "a file is what its bytes say, else what its name says": [
        "what_a_file_is_is_told_by_its_bytes_before_its_name",
    ],
    "files are read with their titles, pages, headings and tables": [
        "a_pdf_is_read_page_by_page_with_its_title_and_outline",
        "a_word_document_is_read_in_its_order_with_headings_lists_and_tables",
        "markdown_is_read_with_its_front_matter_headings_fences_and_tables",
        "html_is_read_without_what_is_not_shown",
        "the_rows_of_a_table_are_lines_with_the_names_of_the_columns",
        "a_text_is_read_in_the_encoding_that_it_is_in",
        "a_reader_of_ones_own_may_be_passed_or_brought_by_a_distribution",
    ],
    "a file is there once in each scope, and no scope has another's": [
        "a_file_is_in_its_scope_once_whatever_it_is_called",
        "a_search_finds_what_is_for_its_scope_or_for_everybody",
        "a_scope_is_a_conversation_or_a_project",
    ],
    "a file is written in one commit, and many are gone on with": [
        "adding_a_file_is_one_commit",
        "many_files_are_added_whatever_becomes_of_each",
        "of_many_files_one_at_a_time_is_asked_for",
    ],
    "words find what vectors do not, and what is removed is found by neither": [
        "words_that_only_one_chunk_has_find_it_beside_what_is_near_in_meaning",
        "a_document_goes_with_its_chunks",
        "an_erased_document_is_in_no_file_of_the_store",
    ],
    "a search is narrowed by scope, type, document and filter": [
        "a_search_is_narrowed_by_type_document_and_filter",
    ],
    "a chunk says its page, its section, its offsets and its citation": [
        "a_chunk_says_where_it_stands_and_how_it_is_cited",
    ],
    "an update replaces exactly the chunks, and embeds only what is new": [
        "an_update_leaves_exactly_the_new_chunks_and_embeds_only_what_is_new",
        "of_a_long_document_only_the_page_is_written_that_changed",
        "a_broken_file_leaves_the_document_as_it_is",
    ],
    "documents are listed in their order, and read as they were": [
        "documents_are_listed_in_the_order_of_adding_and_their_chunks_in_that_of_the_text",
        "documents_are_there_as_they_were",
    ],
    "ids may hold quotes": [
        "ids_may_hold_quotes_and_name_nothing_else",
        "any_text_names_an_entity",
    ],
    "vectors of two models never mix": [
        "another_embedding_model_is_refused_before_a_file_is_written",
    ],
    "of the file is kept what is asked for": [
        "of_a_file_is_kept_what_is_asked_for",
        "the_file_of_a_document_is_a_blob_that_goes_with_the_last_one",
    ],
    # The chunker
    "no character is lost, and only the overlap is doubled, in any script": [
        "any_text_is_cut_without_loss_and_doubled_only_in_the_overlap",
    ],
    "headings, paragraphs, tables and code are where it cuts": [
        "a_heading_begins_a_passage_and_names_it",
        "a_passage_holds_as_many_paragraphs_as_fit",
        "code_and_tables_are_whole_where_they_fit_and_cut_at_lines_where_they_do_not",
        "only_what_is_a_heading_is_taken_for_one",
    ],
    "sentences are whole, and the overlap begins with one": [
        "a_long_paragraph_is_cut_between_sentences",
        "a_passage_repeats_whole_sentences_of_the_one_before",
        "nothing_is_repeated_over_a_page_or_a_heading",
    ],
    "another library's splitter may take its place": ["every_piece_that_was_cut_is_found_in_order"],
    # Files that were made to break it
    "what is hostile, encrypted, scanned or too much is refused in one error": [
        "a_hostile_folder_is_read_to_its_end_with_an_error_for_each_file_that_cannot_be",
        "an_encrypted_pdf_is_read_with_its_password_alone",
        "a_scanned_pdf_is_refused_with_the_way_out",
        "a_pdf_that_holds_too_much_is_refused",
        "a_pdf_whose_pages_are_no_tree_is_refused",
        "a_pdf_of_too_many_pages_is_refused_before_one_of_them_is_read",
        "a_word_document_that_unpacks_to_very_much_is_refused_before_it_is_read",
        "entities_of_a_word_document_are_not_expanded",
        "html_that_is_nested_deeply_is_read",
        "a_file_that_is_too_large_is_refused_before_it_is_read",
        "a_broken_picture_is_refused_in_one_error_and_leaves_nothing",
        "a_picture_over_the_bound_is_refused_before_it_is_decoded",
        "of_a_name_only_the_last_part_is_kept",
    ],
    # Blobs
    "bytes are there once, by their hash, whole or in parts": [
        "the_same_bytes_are_there_once",
        "any_part_of_it_is_what_a_slice_is",
        "a_large_blob_is_read_by_the_pieces_that_are_asked_for",
    ],
    "what is pinned or named outlives its time": [
        "what_is_pinned_outlives_its_time_and_is_not_deleted",
        "what_something_names_outlives_its_time",
        "what_has_expired_is_not_there_and_is_swept",
    ],
    "with the last that names them the bytes go out of every file": [
        "erasing_the_last_document_takes_its_bytes_out_of_every_file",
        "erasing_a_person_takes_all_bytes_of_the_scope_and_nobody_else_s",
    ],
    # Pictures
    "a picture is there once in its scope, with its size and format": [
        "the_same_bytes_are_there_once_in_a_session_and_once_more_in_another",
        "a_picture_of_each_format_is_known_by_its_bytes",
        "a_picture_that_was_turned_has_the_size_that_is_seen",
    ],
    "captions, text and tags are found with messages, and vectors in a space of their own": [
        "captions_text_and_tags_are_found_beside_messages",
        "pictures_are_found_by_vectors_of_a_space_of_their_own",
        "an_analyzer_says_what_the_caller_does_not",
    ],
    # The graph
    "neighbours are reached by depth, type and direction": [
        "neighbours_are_what_a_walk_over_all_relations_finds",
        "against_the_relations_is_the_way_back",
        "a_node_with_many_neighbours_answers_with_as_many_as_were_asked_for",
    ],
    "paths, centres and groups are those of networkx": [
        "paths_are_as_short_and_as_light_as_networkx_finds_them",
        "the_centre_is_where_networkx_finds_it",
        "what_hangs_together_is_what_networkx_finds_connected",
        "louvain_parts_two_circles_that_one_relation_joins",
        "a_subgraph_is_a_graph_of_networkx",
    ],
    "what a change reaches is told by weights and kinds of relations": [
        "of_several_ways_the_one_that_passes_on_the_most_counts",
    ],
    "an entity takes its relations along": ["with_an_entity_go_its_relations_and_nothing_else"],
    "a walk sees what held, and what was known, at a moment": [
        "a_walk_at_a_moment_sees_what_holds_then",
        "a_walk_sees_what_was_known_at_a_moment",
        "the_graph_is_as_it_was_at_a_tag",
    ],
    "Cypher reads, and writes nothing": [
        "what_writes_or_is_not_supported_is_refused_by_name",
        "a_random_query_finds_what_trying_every_way_finds",
    ],
    # Entities and what is said of them
    "entities are found in any text, and who is spoken of most comes first": [
        "what_is_known_by_how_it_is_written_is_found",
        "what_is_found_stands_in_the_text_whatever_that_is",
        "who_is_spoken_of_most_comes_first",
        "of_a_model_only_what_the_text_says_is_taken",
    ],
    "entities that are one are merged, and apart again": [
        "what_led_to_one_leads_to_the_other_and_is_apart_again",
        "mergers_of_mergers_are_taken_back_in_any_order",
    ],
    "a contradiction keeps both, and says which holds and why": [
        "what_holds_from_later_on_supersedes_and_both_are_kept",
        "where_nothing_tells_which_came_later_both_hold_and_it_is_open",
        "what_can_both_hold_is_no_contradiction",
        "a_policy_decides_what_is_open_and_says_why",
        "a_search_can_leave_out_what_only_says_what_is_superseded",
    ],
    "an erased source takes along what only it supported": [
        "an_erased_record_takes_along_what_only_it_supported_out_of_every_file",
        "an_erased_document_takes_along_what_its_passages_supported",
    ],
}


@pytest.fixture(scope="module")
def held():
    """The names of the tests of all of these."""
    return names_of_tests(CONTRACTS, *(CORE / room for room in ROOMS))


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_is_held_by_tests(held, promise):
    assert set(PROMISES[promise]) <= held


def test_each_test_that_the_page_of_evidence_names_is_there():
    named = re.findall(r"`test_(\w+)`", PAGE)
    assert len(named) > len(PROMISES)
    assert set(named) <= names_of_tests(CONTRACTS, CORE, CORE.parent / "adapters")
