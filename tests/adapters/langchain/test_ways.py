"""Who follows a checkpoint to the disk reads few files of the store."""

import pytest
from files_entered import hold

pytestmark = pytest.mark.one_release


def test_the_put_of_a_checkpoint_enters_the_files_that_it_may():
    hold("LangGraph put")
