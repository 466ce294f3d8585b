"""Cases of operators that only the VGF backend lowers: custom compute shaders."""
