"""Which test shows which promise of the server: each is there under its name."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CASES = {
    "two processes write at once: nothing is lost": "two_processes_create_at_the_same_time_and_nothing_is_lost",
    "what was acknowledged survives kill -9": "a_server_that_is_killed_has_kept_what_it_acknowledged",
    "two users, two scopes: neither sees the other's": "no_tool_shows_one_user_what_is_of_another",
    "scopes come from the configuration alone": "whose_memory_it_is_stands_in_the_configuration_alone",
    "hostile input: refused clearly or returned exactly": "what_is_hostile_comes_back_exactly_or_is_refused_and_nothing_breaks",
    "as it was at a version, a tag, a moment": "a_recall_as_of_then_finds_what_was_there_then",
    "observations added by two at once: the union": "two_processes_create_at_the_same_time_and_nothing_is_lost",
    "doubles within a call: once": "doubles_within_a_call_are_there_once",
    "a batch with one unknown entity: nothing is written": "of_a_batch_with_one_unknown_entity_nothing_is_written",
    "search by meaning, limited and said so": "what_is_in_no_text_is_found_by_what_it_means_where_there_is_an_embedder",
    "schemas and hints of the reference's nine tools": "the_tools_take_what_those_of_the_reference_take",
    "texts of the reference's answers": "the_text_of_an_answer_is_that_of_the_reference",
    "standard output is the protocol's alone": "standard_output_is_the_protocols_alone",
    "the reference's file is imported, twice": "the_file_of_the_reference_server_is_taken_over_and_twice_is_once",
    "arguments missing or of a wrong type": "an_argument_that_is_missing_or_of_a_wrong_type_is_named",
    "an unknown argument is an error": "an_argument_that_no_tool_has_is_an_error_that_names_the_known_ones",
    "read-only hides what writes": "a_reader_is_offered_nothing_that_writes",
    "HTTP: token, Host, Origin": "clients_with_the_token_share_the_memory_and_nobody_else_gets_in",
    "each message as the protocol has it": "each_message_is_as_the_protocol_has_it",
    "cancelled: not answered, nothing half": "what_is_cancelled_is_not_answered_and_nothing_is_kept_by_half",
    "the reference's own tests": "creates_new_entities",
}


@pytest.mark.parametrize("test", CASES.values(), ids=[*CASES])
def test_a_promise_has_its_test(test):
    names = {
        node.name
        for path in HERE.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
    }
    assert f"test_{test}" in names
