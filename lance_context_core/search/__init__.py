"""Search: the channels of one table, how they become one ranking, and reranking."""
