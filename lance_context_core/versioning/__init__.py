"""The whole store in time: places, branches, merges, differences, and versions that go."""
