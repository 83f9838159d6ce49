"""Who is my neighbour: silence noticed, designated brokers succeeded, parents found, roots and views registered."""
