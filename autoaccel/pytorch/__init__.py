"""What torch code means. Knows no rule: it says what is there, rules say what is to be done about it.

Training:
    training_steps       the backwards, optimizer steps and forwards that belong together
    step_effects         what a piece of code does to a training step
    forwards             calls that run a model, and whether they record gradients
    forward_calls        the calls that may enter a function or the `forward` of a module, and what they pass
    evaluation_passes    code that only evaluates
    evaluation_calls     calls that only evaluate, of functions that train under a flag
    evaluation_only      programs that only evaluate
    run_once_code        places that run a single time
    execution_order      when code runs: within the body of a loop, or after a call
    reachable_code       which code some code may run
    implicit_calls       what runs without being called by its name: properties, operators, decorators, hooks
    model_size           how many parameters a model has, where literals tell
    module_containers    the elements of containers of modules
    mentions_in_reach    whether a program uses something of a library
    data_parallel        models that DataParallel copies to every device
    replaced_functions   calls of torch's functions that the runtime has as well
    cuda_graphs          programs that capture CUDA graphs
    backend_settings     settings for the whole process: whether a program chooses them, and where they are made

Autograd:
    framework_settings   what frameworks train, and which of their settings does what rules would
    gradients            what makes code training
    graph_flow           where what carries a graph may go
    scalar_results       tensors of one element, told by how they are compared
    graph_results        whether what an operation gives carries a graph
    graph_holders        what holds a graph that something was given to keep
    graph_states         places that a graph comes to, with the calls that lead there
    graph_operands       operands that may bring a graph along
    graph_requirement    whether code must record its graph
    view_writes          whether views that were made without gradients are written to
    object_references    everywhere that an object may turn up
    kept_state           what called functions store for later
    kept_generators      generators that go on with what they have computed
    special_methods      operators and setters that may keep a graph
    hidden_gradients     code out of sight that needs gradients

Data:
    loader_loops         loops over loaders, the parts of their batches, where these are moved
    kept_iterators       iterators over loaders whose batches `next` takes
    loader_calls         `DataLoader(…)`: arguments, who iterates it and how often
    memory_aliases       under what else the memory or the object of an expression may be known
    loader_inputs        what the batches of a loader are made from
    input_search         finds that
    changing_calls       calls and assignments that may change an object
    container_insertions  what is put into objects that are there already
    order_generators     whether the order of samples is drawn from a generator of its own
    input_changes        where a program changes that
    loader_changes       when it does: whether batches may be made elsewhere, or sooner
    unseen_modules       calls of modules that are not in sight
    shared_resources     files, environment variables and printed lines that samples share with the loop
    file_calls           what calls do to files
    path_texts           the texts that a path may be
    datasets             what a dataset does when a worker indexes it
    sample_code          the code that makes samples, and whether it uses a device or keeps gradients
    batch_objects        whether a part of a batch may be an object that moves itself
    batches              where moves of batch data go, what a file changes in place
    parameter_holders    whether objects have parameters
    recursive_moves      helpers that call themselves for what containers hold
    host_memory          the batches in whose memory an expression may lie
    host_reads           where the host reads what is in a tensor: tests, conversions, texts, sizes, masks
    host_writes          whether the host changes a batch while it is copied

Tensors:
    device_moves         `.to`, `.cuda`, `.type_as` in any spelling
    device_expressions   the device that a place can name
    tensor_kinds         whether an expression is a tensor, or a type that makes some
    plain_batches        whether batches carry no graph
    changed_tensors      tensors that are changed themselves, and not only their numbers
    tensor_origins       whether a tensor is new, may have a graph, or may be told from another
    tensor_creation      factories and what is done to their tensors before a move
    meta_device          whether a text asks for tensors without data
    whole_number_casts   casts of decimals that a device may do differently
    whole_numbers        tensors and arrays that surely hold whole numbers
    tensor_type_aliases  `Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor`
    arrays               fresh NumPy arrays, lists of nothing but arrays
    integers             expressions that surely are whole numbers, and how great these may be
    monkeypatching       functions of libraries that are replaced
    introspection        who asks for the class of an object, or looks a name up while the program runs
"""
