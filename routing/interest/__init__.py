"""What a broker tells its neighbours of what is wanted here: announced, covered, merged."""
