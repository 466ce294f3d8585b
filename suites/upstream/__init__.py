"""Programs that the installed executorch tests itself with, none of them written here."""
