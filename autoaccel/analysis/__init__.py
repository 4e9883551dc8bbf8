"""What a script says, among the files around it: Python alone, but for what `library_models` tells of libraries.

From the outside in:
    script               `Script`, the door to all of it; `load`
    value_inference      which values an expression may have
    call_values          what calls result in
    container_stores     what is put into lists and dicts after they were made
    container_uses       where lists and dicts go
    contained_modules    which modules may be elements of a container, that runs them
    iteration_wrappers   functions and classes that hand on what they iterate
    computed_members     members, and modules, that are looked up by names which the program computes
    type_tests           what `issubclass` and `is_tensor` say of what they ask for
    attribute_values     what attributes may be
    parameter_values     what parameters may be
    attributes           what is stored in an attribute of a class, and by whom
    namespaces           what is assigned through `vars(x)`, `x.__dict__` and `globals()`
    decorators           decorators that keep what they decorate
    definite_assignment  whether a name surely has a value at a statement
    determinism         whether a script asks for the same results in each run
    literal_flags        flags that are off in a script as it stands
    name_lookups         functions that are reached by names which the program computes
    keyword_arguments    keys and values behind `**kwargs`
    imported_names       dotted names that a file imports
    statement_comments   the comments above and behind a statement
    parsed_options       what options of the command line are
    unit_tests           places that belong to tests and benchmarks
    callables            what an expression that is called stands for
    call_sites           where functions are called from, and what they are passed there
    constant_arguments   what a call leaves out of a function by the constants that it passes
    constructor_branches  branches of constructors that no call takes
    passed_arguments     arguments that a function hands on as it got them
    passed_functions     functions and classes that are passed as arguments, and where they are called then
    bound_receivers      whether a call binds the first parameter to the object that it is a method of
    started_functions    functions that run in processes and threads of their own
    uncalled_methods     methods that nobody calls
    shown_objects        classes that libraries get to see, and may call any method of
    classes              bases, derived classes, kinds of instances
    rebound_names        names of a module that other files bind anew
    project              the files that a script belongs with
    project_index        who imports whom, and who mentions what by name
    import_graph         the imports of each file
    word_index           which files mention which words
    file_summaries       what each file has to do with others
    file_sets            sets of files as integers
    module_search        the files that imports lead to
    files                the files around a script: texts, trees, import lines, folders
"""

from autoaccel.analysis.project import Project
from autoaccel.analysis.script import Script, load
from autoaccel.dataflow.abstract_values import Kind, Value

__all__ = ["Kind", "Project", "Script", "Value", "load"]
