"""Files of a cell, so that another runtime can execute the same program and inputs."""
