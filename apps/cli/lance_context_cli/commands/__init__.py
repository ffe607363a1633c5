"""The commands, by what one has in mind: each module lists its own in `COMMANDS`."""
