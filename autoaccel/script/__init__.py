"""What a script means. Rules ask a `Script`; it computes lazily and once.

The base, each standing on those before it:
    tree            parents, blocks, source text
    flow            which bindings a name may have where it is read
    names           one spelling for everything that can be imported
    values          kinds, and the sets of values that an expression may have
    external        what torch, torchvision, numpy and the builtins construct
    attributes      what is stored in an attribute of a class, and by whom
    inference       which values an expression may have
    completeness    answers that know what they have not seen
    bounds          how far the analysis looks
    queries         questions that lean on one another, each answered once
    files           the files around a script: texts, trees, import lines, folders
    modules         the files that imports lead to
    index           who imports whom, and who mentions what by name
    project         which of them a script belongs with, call sites, classes
    library_names   names of libraries that are replaced, asked for as classes, looked up
    script          `Script`, the door to all of it; `load`

Data:
    loaders         loops over loaders, the parts of their batches, where these are moved
    loader_calls    `DataLoader(…)`: arguments, who iterates it and how often
    loader_inputs   what the batches of a loader are made from
    loader_changes  where a program changes that, and when
    running         when code runs: within the body of a loop, or after a call
    mappings        keys and values behind `**kwargs`
    datasets        what a dataset does when a worker indexes it
    in_memory       loops on the CPU over samples that lie in memory
    batches         where moves of batch data go, what a file changes in place
    host_writes     whether the host changes a batch while it is copied
    pinning         where a loop can tell a pinned batch from the one that was made
    batch_reads     which parts of a batch the host reads

Tensors:
    moves           `.to`, `.cuda`, `.type_as` in any spelling
    creation        factories and what is done to their tensors before a move
    tensor_types    `Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor`
    arrays          fresh NumPy arrays, lists of nothing but arrays
    integers        expressions that surely are whole numbers
    devices         the device that a place can name

Training:
    gradients       what makes code training
    graph_flow      where what carries a graph may go
    graph_loss      whether an evaluation may lose its graph
    graph_places    everywhere that an object may turn up
    library_graphs  what libraries do with a graph
    kept_state      what entered functions store for later
    special_methods  operators and setters that may keep a graph
    hidden_gradients  code out of sight that needs gradients
    grad_mode_seen  who sees that gradients are off
    effects         what a piece of code does to a training step
    training        steps: the backwards, optimizer steps and forwards that belong together
    slicing         which statements a loss depends on
    regions         where autocast regions lie
    low_precision_flow  where values in low precision go, and what cannot take them
    lookups         functions that are reached by names which the program computes
    protocols           what runs without being called by its name: properties, operators, decorators, hooks
    autocast_operations  what autocast does with each operation, generated from torch
    replicas        models that DataParallel copies to every device
    tensor_operations   what operations on tensors do to their precision
    floating        expressions that surely are one tensor with decimals
    module_lists    the elements of containers of modules
    binding         places where names surely have a value
    saturation      sigmoids in front of a binary cross-entropy
    scaling         where gradients are scaled and unscaled
    rounds          from one step of an optimizer to its next
    holdings        whose parameters an optimizer holds
    hazards         why a step must stay in float32

Models and evaluation:
    models          trained models: where they are ready, why they can not be compiled
    pure            tensor functions worth compiling
    evaluation      passes that only evaluate
    judging         programs that only evaluate
    sampling        forwards amid training that are only looked at
    rounding        what rounds otherwise without gradients
    idle_parts      submodules whose results no training step uses
    small_modules   modules that have nothing to fuse
    unit_tests      places that belong to tests and benchmarks
    repetition      places that run a single time
    duration        how many optimizer steps a run makes
    imports         dotted names that a file imports
"""

from autoaccel.script.project import Project
from autoaccel.script.script import Script, load
from autoaccel.script.values import Kind, Value

__all__ = ["Kind", "Project", "Script", "Value", "load"]
