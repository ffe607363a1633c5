"""Search: the channels of one table, their fusion into one ranking, and reranking."""
