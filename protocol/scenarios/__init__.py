"""A network, a load and a seed as data that every host runs alike, and how it is read from files."""
