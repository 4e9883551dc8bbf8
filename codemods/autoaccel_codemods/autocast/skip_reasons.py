"""Every reason for which AA301 leaves code in float32, by the module that gives it; `check` says which asks what.

A reason is a fragment that comes after "left alone: "; braces are filled in. Of code in another file the report names
the step, and adds file and line.
"""

from __future__ import annotations

from typing import Final

# -- What belongs to a step, and is not in sight or not plain (`step_problems`)

FRAMEWORK: Final = "{label} runs the training step"
FRAMEWORK_SETTING: Final = "{label} runs the training step: {setting} is for you to set"
PART_ELSEWHERE: Final = "a part of the training step is in {file}"
NO_STEP: Final = "no optimizer steps on these gradients"
NO_BACKWARD: Final = "no backward pass is seen for this optimizer step"
THREADS: Final = "DataParallel runs the model in threads that do not take over the precision of a region"
KEPT_METHOD: Final = "`{text}` is kept under another name, and may run without gradient scaling"
DISTRIBUTED_BACKWARD: Final = "distributed autograd keeps the gradients"
UNKNOWN_LOSS: Final = "it is not seen which tensor `backward` is called on"
BACKWARD_IN_LAMBDA: Final = "backward runs in a lambda"
OWN_SCALER: Final = "it has a gradient scaler of its own"
ENGINE: Final = "backward belongs to an engine or optimizer"
CREATE_GRAPH: Final = "it differentiates twice (create_graph)"
BACKWARD_IN_STATEMENT: Final = "backward is part of a larger statement"
CLOSURE: Final = "the optimizer evaluates a closure or takes arguments"
LBFGS: Final = "LBFGS evaluates a closure several times"
RUNS_ONCE: Final = "the step runs only once"
OPTIMIZES_TENSORS: Final = "it optimizes tensors, not a model"
CAPTURED: Final = "the step is captured in a graph"

# -- What the script does about precision and gradients itself (`blockers`)

OWN_MIXED_PRECISION: Final = "it has mixed precision of its own"
SHARDED: Final = "the model is sharded or remote"
OWN_LOW_PRECISION: Final = "it chooses a low precision itself"
OTHER_DEFAULT: Final = "the script chooses another default precision"
CONVERTED_BY_METHOD: Final = "the model is converted with .{method}()"
CONVERTED: Final = "the model is converted to another precision"
ANOMALY_DETECTION: Final = "anomaly detection would report scaled gradients"
ENVIRONMENT: Final = "it learns from an environment, whose steps leave low precision little to gain"
OWN_GRADIENTS: Final = "{library} uses gradients or kernels of its own"
GRADIENT_HOOKS: Final = "hooks would see scaled gradients"
RESULT_GRADIENTS: Final = "it keeps gradients of what a region computes, in whose precision they are"
UNSEEN_HOOK: Final = "a hook that is not followed is handed low precision"
SECOND_DERIVATIVE: Final = "it differentiates by hand or twice (autograd.grad, create_graph)"
COMPILED_STEP: Final = "the step itself is compiled"
FINITE_GRADIENTS: Final = "clipping insists on finite gradients"
EXCHANGED_GRADIENTS: Final = "gradients are exchanged between processes by hand"

# -- Where that is off as the script stands (`own_precision`)

SWITCHED_OFF: Final = "it has mixed precision of its own, which `{flag}` switches off"
NOT_ASKED_FOR: Final = "it has mixed precision of its own, which the command line has to ask for: `{flag}`"

# -- What does not work in low precision (`unsafe_operations`, `low_precision_flow`)

NO_KERNEL: Final = "{name} does not work in low precision everywhere"
SPARSE: Final = "sparse matrices have no low-precision products everywhere"
SPARSE_MADE: Final = "the model may get sparse matrices, which have no low-precision products everywhere"
ONE_PRECISION: Final = "{name} needs one precision for its operands"
BEYOND_BFLOAT16: Final = "bfloat16 cannot hold `{number}`, or may not, by which a tensor is filled or bounded"
COMPUTED_MATRIX: Final = "{name} needs more digits of a matrix than low precision leaves of it"
PROBABILITIES: Final = "rounded probabilities do not add up to 1, on which {name} insists"
COMPUTED_WEIGHTS: Final = "{name} with computed weights needs one precision for them and its statistics"
CUSTOM_FUNCTION: Final = "a custom autograd function is not prepared for autocast"
MODEL_MIXED_PRECISION: Final = "the model has mixed precision of its own"
MODEL_CONVERTS: Final = "the model converts with .{method}()"
RUNNING_SUMS: Final = "what each step adds to would be kept in low precision, which rounds it off"
INSISTS: Final = "the model raises where what it is given is not float32"
RUNNING_AVERAGES: Final = "the model keeps running averages by hand, which low precision would not keep"
LOG_OF_COMPLEMENT: Final = "log(1 - p) of rounded probabilities is infinite"
ROOT_OF_COMPLEMENT: Final = "sqrt(1 - x²) of a rounded x is wrong near 1"
QUOTIENT_OF_COMPLEMENT: Final = "a quotient by 1 - p of a rounded p is wrong near 1"
EXPANDED_DISTANCE: Final = "distances as a² + b² - 2ab, of a rounded product, keep few digits"
EXPANDED_VARIANCE: Final = "a variance as E[x²] - E[x]², of a rounded x, keeps few digits"
DIVERGENCE: Final = "the divergence of two rounded distributions that are close to each other is noise"
BESIDE_A_LARGE_NUMBER: Final = "bfloat16 has few digits left for what is added to `{number}`"
FINITE_DIFFERENCE: Final = "a finite difference of rounded results is noise"
SOLVER: Final = "a solver advances a state by small steps, and needs more digits than low precision has"
MANY_TURNS: Final = "{name} of many turns needs more digits than low precision has"
TIES: Final = "results are compared with one of them, to which rounding makes others equal"
ANGLE: Final = "{name} of a rounded number is wrong near 1"
DOUBLE_COUNTS: Final = "bincount adds weights of low precision up in float64"
MODEL_BACKWARD: Final = "the model runs a backward pass itself"

# -- What would be of two precisions (`stored_results`)

STORED_RATIO: Final = "a ratio is taken to `{text}`, which may have been computed in another precision"

# -- What cannot be put into a region (`regions`)

FORWARD_ELSEWHERE: Final = "the forward pass is in another file"
NO_FORWARD: Final = "no forward pass of a model is seen for this loss"
FORWARD_OUTSIDE: Final = "a forward pass that the loss depends on stays outside"
HANDED_UNSEEN: Final = "`{function}` may be handed what a model computes: {unseen}"
FORWARD_PART_ELSEWHERE: Final = "`{function}` is handed what a model computes in {file}"
FORWARD_HANDED_OVER: Final = "the forward pass is among what is handed over"
BCE_INSIDE: Final = "binary cross-entropy is computed in a place that cannot be kept out of autocast"
BCE_OR_CLASSES: Final = "the loss is binary cross-entropy or one that takes class numbers"
BCE_WITH_FORWARD: Final = "binary cross-entropy is computed together with the forward pass"
FORWARD_IN_BCE: Final = "the forward pass inside a binary cross-entropy cannot be taken out"

# -- Why gradients cannot be scaled (`gradient_scaling`, `scaler_creation`); asked only where float16 is possible

STEPPED_OUTSIDE: Final = "the optimizer steps in a function or a class of its own"
STEP_RESULT_USED: Final = "the result of the optimizer step is used"
STEP_IN_LAMBDA: Final = "the optimizer steps in a lambda"
UNNAMED_OPTIMIZERS: Final = "the optimizers of a loop have no common name"
COMPUTED_OPTIMIZER: Final = "the optimizer is the result of a call"
UNSEEN_METHOD: Final = "an unseen method of the optimizer may read scaled gradients"
READ_WHILE_SCALED: Final = "gradients are read where they are still scaled"
LOOKED_UP_WHILE_SCALED: Final = "what it looks up while it runs may read gradients that are still scaled"
READ_STAY_SCALED: Final = "gradients are read that the optimizer may not hold: they stay scaled"
READ_BESIDE_BACKWARD: Final = "gradients are read in a statement that goes backward"
SEVERAL_STEPS: Final = "an optimizer steps several times before the scale may be updated"
UNSURE_CLEARING: Final = "it is not sure that all gradients of the optimizer are cleared between its steps"
UNSEEN_CALLS: Final = "`{name}` goes backward and may be called in ways that are not seen"
ATTRIBUTES_LISTED: Final = "the attributes of its object are listed, among which a scaler would be"
NO_OTHER_ATTRIBUTES: Final = "its class may take no other attribute, as a scaler would be"
STEP_IN_OTHER_FUNCTION: Final = "backward and optimizer step are in different functions"
UNSURE_OPTIMIZERS: Final = "nothing shows that every path to the step makes its optimizers"
REMADE_OPTIMIZERS: Final = "its optimizers are made anew on the way"
LATE_OPTIMIZERS: Final = "one of its optimizers is made only after another has trained"

# -- Where low precision would get to (`low_precision_flow`, `call_flow`, `expression_flow`, `storage_flow`)

PRODUCT_OUTSIDE: Final = "a matrix product outside of the region needs one precision for both sides"
TO_HOST: Final = "the region computes on the CPU with it, where autocast of another device does nothing"
NUMPY_COMPUTES: Final = "NumPy, which has no bfloat16, computes with it"
HANDED_TO_NUMPY: Final = "it hands values to NumPy, which has no bfloat16"
BITS: Final = "the bits of its numbers are looked at as those of another type"
TYPE_SHOWN: Final = "its type is printed"
NOT_FOLLOWED: Final = "it is handed to code that is not followed"
NOT_SEEN: Final = "it is handed to code that is not seen"
HANDED_BY_LOCALS: Final = "`locals()` hands it on to code that is not followed"
SETTER: Final = "a method of its class is run when it is stored there"
WRITTEN_BY_INDEX: Final = "a tensor is written by index, which needs one precision for both sides"
IN_CONTAINER: Final = "it is kept in a container that is not followed"
LOSS_OUTSIDE: Final = "a loss is computed outside of the region, from values in another precision"
BCE_OF_STRUCTURE: Final = "binary cross-entropy takes a structure of tensors"
MODEL_OUTSIDE: Final = "a model runs outside of the region on values in another precision"
MADE_A_PARAMETER: Final = "it becomes a parameter, in another precision"
SAVED: Final = "it is saved in another precision"
ONE_PRECISION_BUFFER: Final = "{name} needs one precision for buffer and source"
RETURNED: Final = "it is returned to code that is not seen"

# -- What the runtime would leave in float32 (`literal_gain`)

NO_PRODUCTS: Final = "it has no products or convolutions, which alone are faster in low precision"
FEW_STEPS: Final = "it makes {steps} steps, too few to find out whether low precision pays"
SMALL_MODEL: Final = "what it runs has {count} parameters, too few for low precision to pay"

# -- Why a converted step gets no float16, after "no float16: " (`float16_range`, `unsafe_operations`, `regions`)

BEYOND_FLOAT16: Final = "it cannot hold `{number}`"
ROUNDED_TO_ZERO: Final = "it rounds `{number}` to zero"
GRAM: Final = "products of features with themselves may not fit it"
SATURATES: Final = "sigmoids that stay in the region reach 0 and 1 in it"
SCALED_FUNCTION: Final = "a custom autograd function sees gradients, which it scales"
OVERFLOWS: Final = "gradients that are not finite are looked for"
