"""`accel.compile`: modules and functions are compiled where that pays, and run eagerly wherever it fails.

Modules:
    in_place_compile    modules in place, functions by a wrapper; what stands in the way
    compile_support     whether anything can be compiled here
    compile_controller  one target on its way from eager to compiled, and back
    compile_cost        what compiling costs against what it saves: arithmetic
    compile_target      what is compiled, one attempt at it, and the account that all share
    compile_outcome     what compiling came to in an earlier run
    step_timer          where steps begin, how long they take, and with what arguments
    call_signature      which arguments need a graph of their own
    eager_fallback      a compiled call that becomes the eager one when it fails
    inductor_cache      where compiled code is kept
"""
