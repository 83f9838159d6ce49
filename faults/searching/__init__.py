"""Search of failing cases that is guided by what earlier runs have reached."""
