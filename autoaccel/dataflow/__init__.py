"""One file by itself, and what answers about it are made of. Imports nothing else of the package.

Each standing on those before it:
    child_nodes           the children of syntax nodes
    syntax_index          parents, blocks, nodes by type, source text
    context_managers      which `with` blocks may swallow an exception
    definitions           bindings of names, and their scopes
    scope_pass            the statements of one scope in the order they may run
    reaching_definitions  which bindings a name may have where it is read
    qualified_names       one spelling for everything that can be imported
    abstract_values       kinds, and the sets of values that an expression may have: the lattice of the inference
    value_parts           what unpacking, subscripts and loops take out of values
    query                 questions that lean on one another, each answered once
    call_arguments        which parameter an argument is passed for
    completeness          answers that know what they have not seen
    bounds                how far the analysis looks
"""
