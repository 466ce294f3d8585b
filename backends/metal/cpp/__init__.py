"""Parse the wrapper's C++: tokens, expressions, statements, and a whole wrapper.

The parser is strict: C++ that Inductor is not known to write is an error that quotes the line. This
package imports no sibling package.
"""
