"""Who wrote, changed, merged, erased and read what: a chain that shows a gap or a change."""
