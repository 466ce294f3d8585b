"""Cases of the further TOSA specifications, taken from other suites."""
